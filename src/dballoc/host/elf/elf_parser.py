"""Parse ELF files of 64 bits from an open descriptor (elf(5); System V ABI, "Dynamic Linking").

For files of a process that may be hostile: :class:`dballoc.host.unprivileged.sandbox.Sandbox` runs
these functions in a child without rights. Each takes a descriptor and returns plain values;
ParseError with a short reason for a damaged or unsuitable file.
"""

import functools
import mmap
import os
import re
import struct
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

_PT_LOAD, _PT_DYNAMIC, _PT_INTERP, _PT_NOTE = 1, 2, 3, 4
_DT_PLTRELSZ, _DT_STRTAB, _DT_SYMTAB, _DT_RELA, _DT_RELASZ, _DT_JMPREL = 2, 5, 6, 7, 8, 23
_SHT_SYMTAB, _SHT_DYNSYM = 2, 11
_STT_OBJECT = 1
_NT_GNU_BUILD_ID, _NT_GNU_PROPERTY = 3, 5
_X86_ISA_1_NEEDED = 0xC0008002
_MOST_NOTE = 4096
_EM_X86_64, _EM_AARCH64 = 62, 183  # e_machine
# R_X86_64_64, GLOB_DAT, JUMP_SLOT; R_AARCH64_ABS64, GLOB_DAT, JUMP_SLOT.
_SLOTS = {_EM_X86_64: {1, 6, 7}, _EM_AARCH64: {257, 1025, 1026}}
_MOST_RELOCATIONS = 1 << 24
_MOST_HEADERS = 4096
_MOST_SLOTS = 4096
_MOST_NAME = 256
# "mov eax, imm32; ret", maybe behind endbr64 (Intel SDM, MOV, RET, ENDBR64).
_MOV_RET = re.compile(rb"(?:\xf3\x0f\x1e\xfa)?\xb8(.{4})\xc3", re.DOTALL)
# "movz w0, imm16", maybe "movk w0, imm16, lsl 16", and "ret", maybe behind "bti c" (Arm ARM C6.2):
# the number has bits 5 to 20 of an instruction.
_MOVZ, _MOVK, _RET, _BTI_C = 0x52800000, 0x72A00000, 0xD65F03C0, 0xD503245F
_NUMBER_BITS = 0xFFFF << 5
_LONGEST_RETURN = 16

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class ParseError(Exception):
    """The file is damaged or unsuitable; the text says why in a few words."""


def _raise_parse_errors(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Turn the errors that a damaged file leads to into ParseError: its numbers may point beyond
    its end.
    """

    @functools.wraps(function)
    def parse(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        try:
            return function(*arguments, **named)
        except (struct.error, IndexError, OverflowError, ValueError, OSError):
            raise ParseError("a damaged ELF file") from None

    return parse


@dataclass(frozen=True, kw_only=True)
class _ElfFile:
    """A parsed file. ``loads``: (virtual address, bytes in the file, file offset) of each segment
    that is loaded, and ``alignments`` their alignments; ``notes``: the same of each segment of
    notes; ``dynamic_at``: (virtual address, bytes) of the dynamic section.
    """

    data: mmap.mmap
    machine: int
    loads: list[tuple[int, int, int]]
    alignments: list[int]
    notes: list[tuple[int, int, int]]
    dynamic: dict[int, int]
    dynamic_at: tuple[int, int]
    interpreter: str

    def offset_of(self, address: int) -> int:
        """Return the file offset of a virtual address. ParseError if no loaded segment has it."""
        for start, size, offset in self.loads:
            if start <= address < start + size:
                return offset + address - start
        raise ParseError("its dynamic section points outside the file")


@_raise_parse_errors
def list_slots(fd: int, symbols: Collection[str]) -> dict[str, list]:
    """List the slots (GOT entries) that an executable has for some functions.

    ``slots``: [symbol, virtual address of the slot, whether the file defines the symbol itself];
    ``loads``: [virtual address, file offset] of each loaded segment; ``dynamic``: [virtual address,
    bytes] of the dynamic section, zeros without one; ``interpreter``: [whether it names a loader].
    """
    file = _parse(fd)
    if file.machine not in _SLOTS:
        raise ParseError("an executable of an architecture that dballoc does not know")
    slots: list[list[int | str | bool]] = []
    try:
        if not file.dynamic:
            return _describe_slots(file, slots)
        table = file.offset_of(file.dynamic[_DT_SYMTAB])
        strings = file.offset_of(file.dynamic[_DT_STRTAB])
        for address, symbol in _iterate_relocations(file):
            name, _, _, section = struct.unpack_from("<IBBH", file.data, table + symbol * 24)
            text = _read_name(file.data, strings + name)
            if text in symbols:
                slots.append([text, address, section != 0])
            if len(slots) > _MOST_SLOTS:
                raise ParseError("an executable with an absurd number of slots for malloc")
    except (KeyError, struct.error):
        raise ParseError("its dynamic section is damaged") from None
    return _describe_slots(file, slots)


def _describe_slots(file: _ElfFile, slots: list[list[int | str | bool]]) -> dict[str, list]:
    return {
        "slots": slots,
        "loads": [[start, offset] for start, _, offset in file.loads],
        "dynamic": list(file.dynamic_at),
        "interpreter": [True] if file.interpreter else [],
    }


@_raise_parse_errors
def find_export(fd: int, symbol: str) -> list[int] | None:
    """Find a symbol that a file exports: its virtual address, and that of the first page loaded."""
    file = _parse(fd)
    address = _find_symbol(file, symbol)
    return None if address is None or not file.loads else [address, _find_first_page(file)]


@_raise_parse_errors
def read_returned_number(fd: int, symbol: str) -> int | None:
    """Read the number that an exported function returns, if it does nothing else, from its machine
    code. Nothing is executed.
    """
    file = _parse(fd)
    address = _find_symbol(file, symbol)
    if address is None:
        return None
    offset = file.offset_of(address)
    return parse_returned_number(file.data[offset : offset + _LONGEST_RETURN], file.machine)


def parse_returned_number(code: bytes, machine: int) -> int | None:
    """Parse the code of a function, as ELF's number of the ``machine`` has it: the number that it
    returns, None if it does anything else. Pure.
    """
    if machine == _EM_X86_64:
        match = _MOV_RET.match(code)
        return int.from_bytes(match[1], "little") if match else None
    if machine != _EM_AARCH64:
        return None
    words = list(struct.unpack(f"<{len(code) // 4}I", code[: len(code) // 4 * 4]))
    if words[:1] == [_BTI_C]:
        del words[0]
    if _RET not in words:
        return None
    instructions = words[: words.index(_RET)]
    if [word & ~_NUMBER_BITS for word in instructions] not in ([_MOVZ], [_MOVZ, _MOVK]):
        return None
    halves = [(word & _NUMBER_BITS) >> 5 for word in instructions]
    return sum(half << 16 * i for i, half in enumerate(halves))


@_raise_parse_errors
def find_text(fd: int, pattern: str) -> str | None:
    """Find the first match of a pattern in a file's bytes: its first group, as ASCII, 100
    characters at most.
    """
    if os.fstat(fd).st_size == 0:
        return None
    with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as data:
        match = re.search(pattern.encode(), data)
        return match[1][:100].decode("ascii", "replace") if match else None


@_raise_parse_errors
def list_texts(fd: int, pattern: str, most: int) -> list[str]:
    """List at most ``most`` different matches of a pattern in a file's bytes."""
    if os.fstat(fd).st_size == 0:
        return []
    texts: dict[str, None] = {}
    with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as data:
        for match in re.finditer(pattern.encode(), data):
            texts[match[1][:100].decode("ascii", "replace")] = None
            if len(texts) >= most:
                break
    return list(texts)


@_raise_parse_errors
def read_interpreter(fd: int) -> str:
    """Read the loader that an executable names; empty for a library, or a static executable."""
    return _parse(fd).interpreter


@_raise_parse_errors
def read_build_id(fd: int) -> str:
    """Read the build-id that the linker wrote, in hexadecimal; empty if there is none."""
    for kind, value in _iterate_gnu_notes(_parse(fd), alignment=4):
        if kind == _NT_GNU_BUILD_ID:
            return value[:64].hex()
    return ""


@_raise_parse_errors
def read_host_needs(fd: int) -> dict[str, int]:
    """Read what a file needs of the host that loads it.

    ``alignment``: what its loaded segments are aligned to, in bytes, which is the largest page size
    that it can be mapped with, 0 if no segment has an alignment; ``isa``: the bits of the x86-64
    levels that it needs of the CPU, 0 where it names none.
    """
    file = _parse(fd)
    # 0 and 1 mean none (elf(5), p_align).
    alignments = [alignment for alignment in file.alignments if alignment > 1]
    return {"alignment": min(alignments, default=0), "isa": _find_needed_isa(file)}


def _find_needed_isa(file: _ElfFile) -> int:
    """Find the bits of the x86-64 levels (x86-64 psABI, "Program Property":
    GNU_PROPERTY_X86_ISA_1_NEEDED).
    """
    if file.machine != _EM_X86_64:
        return 0
    for kind, value in _iterate_gnu_notes(file, alignment=8):
        if kind != _NT_GNU_PROPERTY:
            continue
        offset = 0
        while offset + 8 <= len(value):
            name, size = struct.unpack_from("<II", value, offset)
            if name == _X86_ISA_1_NEEDED and size == 4 and offset + 12 <= len(value):
                bits: int = struct.unpack_from("<I", value, offset + 8)[0]
                return bits
            offset += 8 + -(-size // 8) * 8
    return 0


def _iterate_gnu_notes(file: _ElfFile, alignment: int) -> Iterator[tuple[int, bytes]]:
    """Yield (type, value) of the GNU notes of segments that are aligned so (elf(5), notes)."""
    for _, size, offset in file.notes:
        end = min(offset + size, len(file.data))
        while offset + 12 <= end:
            name_size, value_size, kind = struct.unpack_from("<III", file.data, offset)
            value = offset + 12 + -(-name_size // 4) * 4
            if file.data[offset + 12 : offset + 16] == b"GNU\0":
                yield kind, file.data[value : value + min(value_size, _MOST_NOTE)]
            offset = value + -(-value_size // alignment) * alignment


def _parse(fd: int) -> _ElfFile:
    if os.fstat(fd).st_size < 64:
        raise ParseError("not an ELF file of 64 bits, little-endian")
    data = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
    if data[:6] != b"\x7fELF\x02\x01":
        raise ParseError("not an ELF file of 64 bits, little-endian")
    machine, (table,) = struct.unpack_from("<H", data, 18)[0], struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    loads, alignments, notes, dynamic, dynamic_at = [], [], [], {}, (0, 0)
    interpreter = ""
    try:
        for i in range(min(count, _MOST_HEADERS)):
            kind, _, offset, address, _, in_file, _, alignment = struct.unpack_from(
                "<IIQQQQQQ", data, table + i * size
            )
            if kind == _PT_LOAD:
                loads.append((address, in_file, offset))
                alignments.append(alignment)
            elif kind == _PT_NOTE:
                notes.append((address, in_file, offset))
            elif kind == _PT_INTERP:
                path = data[offset : offset + min(in_file, _MOST_NOTE)]
                interpreter = path.rstrip(b"\0").decode(errors="replace")
            elif kind == _PT_DYNAMIC:
                section = data[offset : offset + min(in_file - in_file % 16, 1 << 16)]
                dynamic = dict(struct.iter_unpack("<QQ", section))
                dynamic_at = address, in_file
    except struct.error:
        raise ParseError("its program headers are damaged") from None
    return _ElfFile(
        data=data,
        machine=machine,
        loads=loads,
        alignments=alignments,
        notes=notes,
        dynamic=dynamic,
        dynamic_at=dynamic_at,
        interpreter=interpreter,
    )


def _iterate_relocations(file: _ElfFile) -> Iterator[tuple[int, int]]:
    """Yield (virtual address of the slot, number of its symbol) for every slot with a symbol."""
    kinds = _SLOTS[file.machine]
    for where, length in ((_DT_RELA, _DT_RELASZ), (_DT_JMPREL, _DT_PLTRELSZ)):
        if where not in file.dynamic:
            continue
        start, size = file.offset_of(file.dynamic[where]), file.dynamic[length]
        if size // 24 > _MOST_RELOCATIONS:
            raise ParseError("an executable with an absurd number of relocations")
        with memoryview(file.data) as view, view[start : start + size - size % 24] as table:
            for address, info, _ in struct.iter_unpack("<QQq", table):
                if info & 0xFFFFFFFF in kinds and info >> 32:
                    yield address, info >> 32


def _find_symbol(file: _ElfFile, symbol: str) -> int | None:
    """Find the virtual address of a symbol that the file defines, in its dynamic symbol table."""
    try:
        headers = _list_section_headers(file)
        for header in headers:
            if header[1] != _SHT_DYNSYM:
                continue
            strings = headers[header[6]][4]
            # It may be the end of a longer name, with which it shares its bytes.
            if file.data.find(symbol.encode() + b"\0", strings) < 0:
                return None
            for name, _, value, _ in _iterate_symbols(file, header):
                if _read_name(file.data, strings + name) == symbol:
                    return value
    except (struct.error, IndexError):
        raise ParseError("its section headers are damaged") from None
    return None


@_raise_parse_errors
def list_data_symbols(fd: int, pattern: str) -> dict[str, list]:
    """List the variables that a file defines whose names match a pattern from their beginning.

    ``symbols``: [name, virtual address, bytes]; ``first``: [virtual address of the first page
    loaded].
    """
    file = _parse(fd)
    matches = re.compile(pattern).match
    symbols: dict[str, list[int | str]] = {}
    try:
        headers = _list_section_headers(file)
        for header in headers:
            if header[1] not in (_SHT_SYMTAB, _SHT_DYNSYM):
                continue
            strings = headers[header[6]][4]
            for name, kind, value, size in _iterate_symbols(file, header):
                if kind & 15 != _STT_OBJECT or len(symbols) >= _MOST_SLOTS:
                    continue
                text = _read_name(file.data, strings + name)
                if matches(text):
                    symbols[text] = [text, value, size]
    except (struct.error, IndexError):
        raise ParseError("its section headers are damaged") from None
    return {"symbols": list(symbols.values()), "first": [_find_first_page(file)]}


def _list_section_headers(file: _ElfFile) -> list[tuple[int, ...]]:
    (table,) = struct.unpack_from("<Q", file.data, 40)
    size, count = struct.unpack_from("<HH", file.data, 58)
    return [
        struct.unpack_from("<IIQQQQIIQQ", file.data, table + i * size)
        for i in range(min(count, _MOST_HEADERS))
    ]


def _iterate_symbols(
    file: _ElfFile, header: tuple[int, ...]
) -> Iterator[tuple[int, int, int, int]]:
    """Yield (offset of the name, type and binding, virtual address, bytes) of each symbol that a
    table's file defines.
    """
    start, length = header[4], header[5]
    for at in range(start, start + min(length, _MOST_RELOCATIONS * 24) - 23, 24):
        name, info, _, section, value, size = struct.unpack_from("<IBBHQQ", file.data, at)
        if section:
            yield name, info, value, size


def _find_first_page(file: _ElfFile) -> int:
    """Find the virtual address of the first page that is loaded. Raises ParseError if there
    is none.
    """
    if not file.loads:
        raise ParseError("it loads nothing")
    page = os.sysconf("SC_PAGE_SIZE")
    return min(start for start, _, _ in file.loads) // page * page


def _read_name(data: mmap.mmap, offset: int) -> str:
    return data[offset : offset + _MOST_NAME].partition(b"\0")[0].decode("ascii", "replace")


SANDBOXED = {
    function.__name__: function
    for function in (
        list_slots,
        read_interpreter,
        find_export,
        list_data_symbols,
        read_returned_number,
        find_text,
        list_texts,
        read_build_id,
        read_host_needs,
    )
}
