"""Read which settings of its malloc a process has in force, from outside: what the loader and the
library have in their own data. Nothing is executed.
"""

import os
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dballoc.allocators import tunables
from dballoc.allocators.find_library import Allocator
from dballoc.allocators.setting_effects import MallocSettings, SettingInForce
from dballoc.host.elf import loader
from dballoc.host.elf.elf_answers import ask_elf_parser
from dballoc.host.process_handle import Process
from dballoc.host.process_maps import MapsLine
from dballoc.host.unprivileged.sandbox import SandboxError
from dballoc.process_memory.malloc.glibc_tunables import parse_tunable_list
from dballoc.process_memory.malloc.library_file import open_mapped_file
from dballoc.process_memory.malloc.mimalloc_options import parse_option_table
from dballoc.process_memory.malloc.setting_variables import decode_setting, match_setting
from dballoc.process_memory.memory_reader import Memory

# Of one file in a process; that of a malloc or a loader has some hundred KiB.
_MOST_BYTES = 4 << 20


def read_malloc_settings(
    process: Process,
    allocator: Allocator,
    library: str,
    mappings: Sequence[MapsLine],
    variables: Collection[str],
    privileged: str | None,
) -> MallocSettings:
    """Read the settings of a malloc that a process shows, none where they cannot be read.
    ``variables``: those of its environment that it reads; ``privileged``: why it was started so,
    None if it was not.
    """
    try:
        if allocator.name == "glibc":
            return _read_glibc(process, mappings, library, privileged)
        if allocator.name == "mimalloc":
            lines = [m for m in mappings if m.path == library]
            return _read_mimalloc(process, allocator, lines, variables, privileged)
        family = tunables.find_family(allocator) or {}
        if "variables" in family:
            in_force = _read_variables(process, family, library, mappings)
            return MallocSettings(in_force=in_force, privileged=privileged)
    except (OSError, SandboxError):
        pass
    return MallocSettings(in_force={}, privileged=privileged)


def _read_glibc(
    process: Process, mappings: Sequence[MapsLine], library: str, privileged: str | None
) -> MallocSettings:
    # A static program has the list in its own data.
    lines = [m for m in mappings if loader.is_loader(m.path) or m.path == library]
    # Of a list with pages that are absent, what lacks cannot be told from what is not there.
    lists = (parse_tunable_list(p.data) for p in _read_pieces(process, lines) if p.is_whole)
    listed = next(filter(None, lists), {})
    in_force = {name.removeprefix("glibc.malloc."): value for name, value in listed.items()}
    return MallocSettings(
        in_force=in_force, names=frozenset(in_force) or None, privileged=privileged
    )


def _read_mimalloc(
    process: Process,
    allocator: Allocator,
    lines: Sequence[MapsLine],
    variables: Collection[str],
    privileged: str | None,
) -> MallocSettings:
    # A version may have more than the catalogue, and have older names for some.
    start = allocator.entry["tunables"]["env"].partition("{")[0]
    wanted = {variable.removeprefix(start).lower() for variable in variables}
    family = tunables.find_family(allocator) or {}
    pieces = _read_pieces(process, lines)
    if not all(piece.is_whole for piece in pieces):
        return MallocSettings(in_force={}, privileged=privileged)
    in_force = parse_option_table(
        [(piece.start, piece.data) for piece in pieces], wanted | set(family.get("settings", {}))
    )
    return MallocSettings(
        in_force=in_force,
        names=frozenset(in_force) or None,
        privileged=privileged,
        by_malloc=True,
    )


def _read_variables(
    process: Process, family: Mapping[str, Any], library: str, mappings: Sequence[MapsLine]
) -> dict[str, SettingInForce]:
    """Read the settings that the library names as variables. SandboxError if its file is none, or
    damaged.
    """
    base = next((m.start for m in mappings if m.path == library and m.offset == 0), None)
    if base is None:
        return {}
    fd = open_mapped_file(process, library, mappings)
    try:
        listed = ask_elf_parser("list_data_symbols", fd, family["variables"])
    finally:
        os.close(fd)
    in_force = {}
    with Memory(process) as memory:
        for symbol, address, size in listed["symbols"]:
            name = match_setting(family, symbol)
            if name is None or size not in (1, 4, 8):
                continue
            place = base + address - listed["first"][0]
            # Whole words are read, so that an absent page is known.
            (word,) = memory.words(place // 8 * 8)
            raw = struct.pack("<Q", word)[place % 8 : place % 8 + size]
            if setting := decode_setting(family, symbol, raw):
                in_force[name] = setting
    return in_force


@dataclass(frozen=True)
class _Piece:
    """The memory of a mapping from its ``start`` on; what is absent is zeros. ``is_whole``: nothing
    is absent.
    """

    start: int
    data: bytes
    is_whole: bool


def _read_pieces(process: Process, lines: Sequence[MapsLine]) -> list[_Piece]:
    """Read what is resident of mappings without code. OSError if the process is gone."""
    pieces: list[_Piece] = []
    remaining = _MOST_BYTES
    with Memory(process) as memory:
        for line in lines:
            if "x" in line.permissions or "r" not in line.permissions or line.size > remaining:
                continue
            remaining -= line.size
            span = memory.span(line.start, line.end)
            data = bytes(memory.copy_words(span, line.start, line.end))
            pieces.append(_Piece(line.start, data, span.resident == line.size))
    return pieces
