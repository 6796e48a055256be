"""What both readers of symbol tables tell of a file that a process has mapped, beside its symbols;
run in a sandbox.
"""

import os
import zlib
from dataclasses import asdict
from typing import Any

from dballoc.profile.symbols import cpp_names, elf_notes

# Characters of a name before and after demangling: templates make names long, hostile names grow
# without bounds.
_LONGEST_SYMBOL, LONGEST_NAME = 8192, 4096


def describe(fd: int) -> dict[str, Any]:
    """Return a file's description of itself: the fields of
    :class:`dballoc.profile.symbols.elf_notes.Image`.
    """
    return asdict(elf_notes.read_image(fd))


def compute_checksum(fd: int) -> int:
    """Compute the CRC-32 of a file's bytes, by which a debug link names it."""
    checksum, at = 0, 0
    while piece := os.pread(fd, 1 << 20, at):
        checksum, at = zlib.crc32(piece, checksum), at + len(piece)
    return checksum


def format_name(symbol: str, module: str) -> str:
    """Return a function's name for people. ``module``: the name of its file."""
    if len(symbol) > _LONGEST_SYMBOL:
        return symbol[:LONGEST_NAME] + "…"
    name = cpp_names.demangle(cpp_names.unify_alias(symbol, module))
    return name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "…"
