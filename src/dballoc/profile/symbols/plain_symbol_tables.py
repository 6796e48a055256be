"""Look up functions of one ELF file by its symbol tables alone, where the library symbolic is not
installed; run in a sandbox. The functions are those of
:mod:`dballoc.profile.symbols.symbol_tables`, but for lines and inlined functions.

pyelftools finds the tables. Symbols (elf(5), ``Elf64_Sym``) are 24 bytes: name, as an offset in the
table of strings; info, the low four bits of which are the type; other; section; address; size.

A table is kept as: magic, how many functions, bytes of names (8 bytes each, little-endian); the
functions' addresses, by which they are sorted, counted from the file's base; their sizes; where
each name begins (8 bytes each); the names, each ended by a zero.
"""

import os
import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section

from dballoc.profile.symbols import cpp_names
from dballoc.profile.symbols.elf_notes import UnreadableElf
from dballoc.profile.symbols.mapped_file import compute_checksum, describe, format_name

_SYMBOL = struct.Struct("<IBBHQQ")
_FUNCTION_TYPES = (2, 10)  # STT_FUNC, STT_GNU_IFUNC
_TABLES = ("SHT_SYMTAB", "SHT_DYNSYM")

_HEADER = struct.Struct("<8s2Q")
_MAGIC = b"dballoc1"

# MySQL has 0.4 million; names of a hostile file grow without bounds.
_MOST_SYMBOLS, _MOST_NAMES = 4 << 20, 256 << 20

# While there is still a file system.
cpp_names.load_demangler()


@dataclass(frozen=True, kw_only=True)
class _FunctionTable:
    """The functions of a file, sorted by address: parallel columns, for there are many."""

    starts: "array[int]"
    sizes: "array[int]"
    offsets: "array[int]"
    names: bytes

    def find_name(self, address: int) -> str:
        """Return the symbol of the function at an address; empty if there is none."""
        at = bisect_right(self.starts, address) - 1
        if at < 0 or address - self.starts[at] >= self.sizes[at]:
            return ""
        start = self.offsets[at]
        return self.names[start : self.names.find(b"\0", start)].decode("utf-8", "backslashreplace")


# The table of this child's file.
_state: dict[str, _FunctionTable] = {}


def make_table(source: int, *more: Any) -> None:
    """Make the table of a file: ``make_table(source[, kept], lines, section_names)``, as in
    :mod:`dballoc.profile.symbols.symbol_tables`; lines are not to be had here.
    """
    kept = more[:-2]
    try:
        with open(os.dup(source), "rb") as file:
            file.seek(0)
            table = _read_functions(ELFFile(file))
    except UnreadableElf:
        raise
    # pyelftools raises all kinds of errors for a broken file, those of its parser and Python's own.
    except Exception:
        raise UnreadableElf("not a whole ELF file") from None
    _state["table"] = table
    for fd in kept:
        with os.fdopen(os.dup(fd), "wb") as file:
            file.write(_HEADER.pack(_MAGIC, len(table.starts), len(table.names)))
            for column in (table.starts, table.sizes, table.offsets):
                column.tofile(file)
            file.write(table.names)


def read_table(kept: int) -> None:
    """Read a table that :func:`make_table` wrote. Raises UnreadableElf if it is not one."""
    with open(os.dup(kept), "rb") as file:
        file.seek(0)
        content = file.read()
    magic, count, size = _HEADER.unpack(content[: _HEADER.size].ljust(_HEADER.size))
    if magic != _MAGIC or len(content) != _HEADER.size + 3 * 8 * count + size:
        raise UnreadableElf("not a table of this version")
    edges = [_HEADER.size + 8 * count * column for column in range(4)]
    starts, sizes, offsets = (array("Q", content[start : start + 8 * count]) for start in edges[:3])
    _state["table"] = _FunctionTable(
        starts=starts, sizes=sizes, offsets=offsets, names=content[edges[3] :]
    )


def look_up(address: int, module: str) -> list[list[Any]]:
    """Return the function at an address: [name, no source file, line 0]; none if no symbol has it.
    ``module``: the file's name.
    """
    if "table" not in _state:
        raise UnreadableElf("their parser had to be stopped")
    symbol = _state["table"].find_name(address)
    return [[format_name(symbol, module), "", 0]] if symbol else []


def _read_functions(elf: ELFFile) -> _FunctionTable:
    """Read the functions of all symbol tables. Raises UnreadableElf if there are too many."""
    if elf.elfclass != 64 or not elf.little_endian:
        raise UnreadableElf("not an ELF file of 64 bits, little-endian")
    base = next((s["p_vaddr"] for s in elf.iter_segments("PT_LOAD")), 0)
    names = b""
    # By address: size, where the name begins. Of several names the first, as symbolic does.
    functions: dict[int, tuple[int, int]] = {}
    for kind in _TABLES:
        for section in elf.iter_sections(kind):
            strings = elf.get_section(section["sh_link"]).data()
            if len(names) + len(strings) >= _MOST_NAMES:
                raise UnreadableElf("its symbols have too many names")
            for name, address, size in _iterate_functions(section):
                if name < len(strings) and address >= base:
                    functions.setdefault(address, (size, len(names) + name))
            names += strings + b"\0"
    rows = sorted(functions.items())
    return _FunctionTable(
        starts=array("Q", (address - base for address, _ in rows)),
        sizes=array("Q", (size for _, (size, _) in rows)),
        offsets=array("Q", (offset for _, (_, offset) in rows)),
        names=names,
    )


def _iterate_functions(section: Section) -> Iterator[tuple[int, int, int]]:
    """Yield (offset of the name, address, size) of the functions of a symbol table that are in this
    file and have a size.
    """
    if section["sh_size"] > _MOST_SYMBOLS * _SYMBOL.size:
        raise UnreadableElf("it has too many symbols")
    data = section.data()
    for name, info, _, index, address, size in _SYMBOL.iter_unpack(
        data[: len(data) // _SYMBOL.size * _SYMBOL.size]
    ):
        if info & 15 in _FUNCTION_TYPES and index and address and size:
            yield name, address, size


SANDBOXED = {
    function.__name__: function
    for function in (describe, compute_checksum, make_table, read_table, look_up)
}
