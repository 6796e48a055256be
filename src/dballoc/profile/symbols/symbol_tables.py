"""Look up functions of one ELF file, with Sentry's library symbolic; run in a sandbox.

The files of a process, which may be hostile, are parsed here and nowhere else, by native code that
was not written for hostile files. So this module's functions are called through
:class:`dballoc.host.unprivileged.sandbox.Sandbox`, with one child for each file of the process.
"""

import mmap
import os
from typing import Any

from cffi import FFI
from symbolic.debuginfo import Archive
from symbolic.exceptions import SymbolicError
from symbolic.symcache import SymCache

from dballoc.profile.symbols import cpp_names, elf_notes
from dballoc.profile.symbols.mapped_file import (
    LONGEST_NAME,
    compute_checksum,
    describe,
    format_name,
)

# What symbolic raises for a broken file: its own errors, or StopIteration for an empty archive.
_BROKEN = (SymbolicError, StopIteration, LookupError, OSError, ValueError)

# These symbols have no size, so symbolic extends them to the next function: over the stubs for
# calls of other libraries (.plt), or functions whose symbols were stripped.
_SIZELESS = ("_init", "_fini")

_MOST_INLINED = 64

# The table of this child's file, and what it is read from.
_state: dict[str, Any] = {}

# While there is still a file system.
_ffi = FFI()
cpp_names.load_demangler()


def make_table(source: int, *more: Any) -> None:
    """Make the table of a file: ``make_table(source[, kept], lines, section_names)``.

    ``kept``: an empty file that the table is written to; ``lines``: whether source lines and
    inlined functions are in it; ``section_names``: offset and bytes of the sections' names.
    """
    *kept, lines, section_names = more
    view = mmap.mmap(source, 0, access=mmap.ACCESS_COPY)
    if not lines:
        # symbolic reads debug information wherever it finds any, so it is hidden: in a private copy
        # of the pages with the sections' names, the sections of debug information are renamed.
        start, size = section_names
        renamed = (
            view[start : start + size]
            .replace(b".debug_", b".hidden")
            .replace(b".zdebug_", b".zhidden")
        )
        view[start : start + size] = renamed
    try:
        archive = Archive.from_bytes(_ffi.from_buffer(view))
        table = SymCache.from_object(next(archive.iter_objects()))
    except _BROKEN as error:
        raise elf_notes.UnreadableElf(
            str(error).partition("\n")[0] or type(error).__name__
        ) from None
    _state.update(table=table, archive=archive, view=view)
    for fd in kept:
        with os.fdopen(os.dup(fd), "wb") as file:
            table.dump_into(file)


def read_table(kept: int) -> None:
    """Read a table that :func:`make_table` wrote."""
    view = mmap.mmap(kept, 0, prot=mmap.PROT_READ)
    try:
        _state.update(table=SymCache.from_bytes(_ffi.from_buffer(view)), view=view)
    except _BROKEN as error:
        raise elf_notes.UnreadableElf(str(error).partition("\n")[0]) from None


def look_up(address: int, module: str) -> list[list[Any]]:
    """Return the function at an address: [name, source file, line]; several where functions were
    inlined, the outermost first. ``module``: the file's name.
    """
    if "table" not in _state:
        raise elf_notes.UnreadableElf("their parser had to be stopped")
    try:
        locations = list(reversed(_state["table"].lookup(address)))[:_MOST_INLINED]
    except _BROKEN:
        return []
    return [
        [
            format_name(location.symbol, module),
            (location.full_path or "")[:LONGEST_NAME],
            location.line,
        ]
        for location in locations
        if location.symbol and location.symbol not in _SIZELESS
    ]


SANDBOXED = {
    function.__name__: function
    for function in (describe, compute_checksum, make_table, read_table, look_up)
}
