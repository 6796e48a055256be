"""Read which settings of its malloc a process has in force, from outside: what the loader and the
library have in their own data. Nothing is executed.
"""

import os
import re
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dballoc.allocators import tunables
from dballoc.allocators.find_library import Allocator
from dballoc.allocators.setting_effects import MallocSettings, SettingInForce
from dballoc.host.elf import loader
from dballoc.host.elf.elf_answers import ask_elf_parser
from dballoc.host.process.handle import Process
from dballoc.host.process.maps import MapsLine
from dballoc.host.unprivileged.sandbox import SandboxError
from dballoc.process.malloc.library_file import open_mapped_file
from dballoc.process.memory_reader import Memory

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
    """Read the settings that the library names as variables. Raises SandboxError if its file is not
    ELF, or damaged.
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
class _MemoryPiece:
    """The memory of a mapping from its ``start`` on; what is absent is zeros. ``is_whole``: nothing
    is absent.
    """

    start: int
    data: bytes
    is_whole: bool


def _read_pieces(process: Process, lines: Sequence[MapsLine]) -> list[_MemoryPiece]:
    """Read what is resident of mappings without code. Raises OSError if the process is gone."""
    pieces: list[_MemoryPiece] = []
    remaining = _MOST_BYTES
    with Memory(process) as memory:
        for line in lines:
            if "x" in line.permissions or "r" not in line.permissions or line.size > remaining:
                continue
            remaining -= line.size
            span = memory.span(line.start, line.end)
            data = bytes(memory.copy_words(span, line.start, line.end))
            pieces.append(_MemoryPiece(line.start, data, span.resident == line.size))
    return pieces


_WHOLE = {4: "<i", 8: "<q"}
_REAL = "DECLARE_double"


def match_setting(family: Mapping[str, Any], symbol: str) -> str | None:
    """Return the setting of a family that a symbol is the variable of; None if it is of none that
    is a number or a switch.

    gperftools has its flags among its exported symbols, jemalloc its ``opt_…`` in a library
    that is not stripped. Which symbols these are is data: ``variables`` in
    catalogue/tunables.toml.
    """
    match = re.match(family["variables"], symbol)
    name = match["name"] if match else None
    kind = family["settings"].get(name, {}).get("kind")
    return name if kind in ("count", "size", "number", "flag") else None


def decode_setting(family: Mapping[str, Any], symbol: str, raw: bytes) -> SettingInForce | None:
    """Decode the bytes of a setting's variable; None of a size that no number has."""
    if len(raw) == 1:
        on, off = (words[0] for words in family["flags"])
        return SettingInForce(value=on if raw[0] else off, is_set=True)
    if len(raw) not in _WHOLE:
        return None
    form = "<d" if _REAL in symbol else _WHOLE[len(raw)]
    (value,) = struct.unpack(form, raw)
    return SettingInForce(value=f"{value:.15g}" if form == "<d" else str(value), is_set=True)


# Bytes from an address on.
Piece = tuple[int, bytes]
_RECORD = struct.Struct("<qIIQQ")
_NAME = 16
_SET, _MOST_OPTIONS = 2, 256


def parse_option_table(
    pieces: Sequence[Piece], names: Collection[str]
) -> dict[str, SettingInForce]:
    """Parse the table in the ``pieces`` of a library's memory: the options by their names, the
    older ones, too. ``names``: those that may be in it.

    Its layout is in src/options.c, struct mi_option_desc_s, the same in branches 1, 2 and 3:

        value   long; sizes in KiB
        init    int: 0 not read yet, 1 the default, 2 set from outside
        option  int: its number
        name    the address of its name
        legacy  the address of an older name, or 0
    """
    by_address = {address: name for name in names for address in _find_texts(pieces, name.encode())}
    options: dict[str, SettingInForce] = {}
    for _, data in pieces:
        words = memoryview(data[: len(data) - len(data) % 8]).cast("Q")
        for at, word in enumerate(words):
            start = 8 * at - _NAME
            if word not in by_address or start < 0 or start + _RECORD.size > len(data):
                continue
            value, init, number, _, legacy = _RECORD.unpack_from(data, start)
            if init > _SET or number >= _MOST_OPTIONS:
                continue
            in_force = SettingInForce(value=str(value), is_set=init == _SET)
            for address in (word, legacy):
                if name := by_address.get(address):
                    options.setdefault(name, in_force)
    return options


def _find_texts(pieces: Sequence[Piece], text: bytes) -> list[int]:
    """Return the addresses at which a text stands, maybe as the end of a longer one: linkers merge
    texts with equal ends.
    """
    wanted = text + b"\0"
    addresses = []
    for start, data in pieces:
        at = data.find(wanted)
        while at >= 0:
            addresses.append(start + at)
            at = data.find(wanted, at + 1)
    return addresses


_TUNABLE_NAME = re.compile(rb"glibc\.[a-z0-9_]{1,32}\.[a-z0-9_]{1,48}\0")
_SAMPLE, _SAMPLE_ALIAS = b"glibc.malloc.perturb\0", b"MALLOC_PERTURB_\0"
# Its type: a signed number of 32 bits (0), from 0 to 255.
_SAMPLE_TYPE = struct.pack("<QQQ", 0, 0, 255)
_TEXT_TYPE = 3
_LONGEST_RECORD = 512
# Where the value and "is set" lie behind the type, by how far the alias is from its end.
_PLACES_BY_ALIAS = {16: (0, 8), 17: (0, 16), 33: (16, 32)}
_MOST_RECORDS = 256


class _Record(NamedTuple):
    """Offsets in a record, in bytes."""

    kind: int
    value: int
    is_set: int


def parse_tunable_list(data: bytes) -> dict[str, SettingInForce]:
    """Parse the loader's data, in which the list stands: the tunables by their whole names; none if
    it holds no list of a known layout.

    Its layout is that of elf/dl-tunable-types.h, struct _tunable, as glibc 2.33 and later have
    it; before, the names in it are pointers:

        name       char[]: glibc.malloc.arena_max
        type       at the next multiple of 8: code (int, padded), least and most: 24 bytes
        default    16 bytes, since 2.41 or so
        value      8 bytes, since 2.39 16; a number, or a text's address
        is set     a byte: the environment has given it a value that is within its bounds
        level      until 2.38, at the next multiple of 4: what a privileged program does with it
        alias      char[]: MALLOC_ARENA_MAX; empty for most

    How long names and aliases are depends on the version, so one known record shows where all
    parts lie.
    """
    layout = _find_layout(data)
    if layout is None:
        return {}
    tunables: dict[str, SettingInForce] = {}
    for match in _TUNABLE_NAME.finditer(data):
        record = data[match.start() : match.start() + layout.is_set + 1]
        if len(record) <= layout.is_set or len(tunables) >= _MOST_RECORDS:
            break
        (kind,) = struct.unpack_from("<I", record, layout.kind)
        (number,) = struct.unpack_from("<Q", record, layout.value)
        if kind > _TEXT_TYPE or record[layout.is_set] > 1:
            continue
        tunables[match[0][:-1].decode()] = SettingInForce(
            value=None if kind == _TEXT_TYPE else str(number), is_set=bool(record[layout.is_set])
        )
    return tunables


def _find_layout(data: bytes) -> _Record | None:
    """Find where the parts of a record lie, by the one of glibc.malloc.perturb."""
    start = data.find(_SAMPLE)
    if start < 0:
        return None
    record = data[start : start + _LONGEST_RECORD]
    kind, alias = record.find(_SAMPLE_TYPE, len(_SAMPLE)), record.find(_SAMPLE_ALIAS)
    end = kind + len(_SAMPLE_TYPE)
    places = _PLACES_BY_ALIAS.get(alias - end)
    if kind < 0 or places is None:
        return None
    return _Record(kind, *(end + place for place in places))
