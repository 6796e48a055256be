"""The bindings of a running process, read from outside: where its own slots for malloc and its kin point.

The executable's dynamic section lists its relocations; each of those that name a function tells the address of the slot
(GOT entry) that the loader has filled in. The slots are read from /proc/PID/mem, and /proc/PID/maps tells which file the
addresses in them belong to. Layout: System V ABI, "Dynamic Linking", and elf(5). Nothing is stopped or injected.
"""

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from dballoc.allocators.proof import SYMBOLS
from dballoc.host import loader

_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_PLTRELSZ, _DT_STRTAB, _DT_SYMTAB, _DT_RELA, _DT_RELASZ, _DT_JMPREL = 2, 5, 6, 7, 8, 23
# R_X86_64_64, GLOB_DAT, JUMP_SLOT; R_AARCH64_ABS64, GLOB_DAT, JUMP_SLOT.
_SLOTS = {62: {1, 6, 7}, 183: {257, 1025, 1026}}
_MOST_RELOCATIONS = 1 << 24


class Unreadable(Exception):
    """The process cannot be looked into: it is gone, is not ours, or is not a dynamic ELF executable of 64 bits."""


@dataclass(frozen=True)
class _Image:
    """The parts of an executable that matter here. ``loads``: (virtual address, size, file offset)."""

    data: bytes
    machine: int
    loads: list[tuple[int, int, int]]
    dynamic: dict[int, int]

    def at(self, address: int) -> int:
        """The file offset of a virtual address. Unreadable if no segment holds it."""
        for start, size, offset in self.loads:
            if start <= address < start + size:
                return offset + address - start
        raise Unreadable("the executable's dynamic section leads outside of it")


def refusal(pid: int, error: OSError) -> str:
    """Why a process could not be looked into, and what to do, in one line."""
    if isinstance(error, PermissionError):
        return f"process {pid}: {error.strerror}; only root and its own user may look into it: run this as one of them"
    if not Path(f"/proc/{pid}").exists():
        return f"process {pid}: No such process"
    if isinstance(error, FileNotFoundError | ProcessLookupError):
        return f"process {pid}: it has no executable: it is the kernel's own, or is just ending"
    return f"process {pid}: {error.strerror}"


def mapped(pid: int) -> set[str]:
    """The files that a process has mapped. OSError if it cannot be read."""
    return {path for *_, path in _mappings(Path(f"/proc/{pid}/maps").read_text()) if path.startswith("/")}


def bindings(pid: int) -> dict[str, str]:
    """The file behind each of :data:`dballoc.allocators.proof.SYMBOLS` that the executable imports.

    ``?`` for a slot that points nowhere. A symbol that the executable does not import, or has not called yet, is left
    out. Unreadable if the process cannot be read.
    """
    try:
        executable = loader.program(pid)
        started = executable == os.readlink(f"/proc/{pid}/exe")
        image = _parse(Path(f"/proc/{pid}/exe" if started else f"/proc/{pid}/root{executable}").read_bytes())
        mappings = _mappings(Path(f"/proc/{pid}/maps").read_text())
        bias = _bias(image, mappings, executable)
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            found = {}
            for name, slot, defined in _slots(image):
                owner = _owner(mappings, _read_slot(memory.fileno(), bias + slot))
                # A slot that still leads to the executable's own stub waits for its first call (lazy binding).
                if defined or owner != executable:
                    found[name] = owner
            return found
    except OSError as error:
        raise Unreadable(refusal(pid, error)) from None
    except Unreadable as error:
        raise Unreadable(f"process {pid}: {error}") from None
    except (struct.error, IndexError) as error:
        raise Unreadable(f"process {pid}: its executable is damaged: {error}") from None


def _parse(data: bytes) -> _Image:
    if data[:4] != b"\x7fELF" or data[4] != 2 or data[5] != 1:
        raise Unreadable("not an ELF executable of 64 bits, little-endian")
    machine = struct.unpack_from("<H", data, 18)[0]
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    loads, dynamic = [], {}
    for i in range(count):
        kind, _, offset, address, _, in_file, _, _ = struct.unpack_from("<IIQQQQQQ", data, table + i * size)
        if kind == _PT_LOAD:
            loads.append((address, in_file, offset))
        elif kind == _PT_DYNAMIC:
            dynamic = dict(struct.iter_unpack("<QQ", data[offset : offset + in_file - in_file % 16]))
    if not dynamic or machine not in _SLOTS:
        raise Unreadable("a static executable, or one of an architecture that dballoc does not know")
    return _Image(data, machine, loads, dynamic)


def _slots(image: _Image) -> list[tuple[str, int, bool]]:
    """(symbol, virtual address of its slot, whether the executable defines it itself) of the symbols that matter."""
    symbols, strings = image.at(image.dynamic[_DT_SYMTAB]), image.at(image.dynamic[_DT_STRTAB])
    wanted = {name.encode() + b"\0": name for name in SYMBOLS}
    kinds = _SLOTS[image.machine]
    found = []
    for where, how_long in ((_DT_RELA, _DT_RELASZ), (_DT_JMPREL, _DT_PLTRELSZ)):
        if where not in image.dynamic:
            continue
        start, size = image.at(image.dynamic[where]), image.dynamic[how_long]
        if size // 24 > _MOST_RELOCATIONS:
            raise Unreadable("an executable with an absurd number of relocations")
        for slot, info, _ in struct.iter_unpack("<QQq", image.data[start : start + size - size % 24]):
            if info & 0xFFFFFFFF not in kinds or not info >> 32:
                continue
            name, _, _, section = struct.unpack_from("<IBBH", image.data, symbols + (info >> 32) * 24)
            text = image.data[strings + name : strings + name + 32]
            for spelling, symbol in wanted.items():
                if text.startswith(spelling):
                    found.append((symbol, slot, section != 0))
    return found


def _mappings(maps: str) -> list[tuple[int, int, int, str]]:
    """(start, end, file offset, path) of every line of /proc/PID/maps; an empty path for anonymous memory."""
    lines = (line.split(maxsplit=5) for line in maps.splitlines())
    spans = (([int(x, 16) for x in parts[0].split("-")], parts) for parts in lines)
    return [(a, b, int(parts[2], 16), parts[5] if len(parts) > 5 else "") for (a, b), parts in spans]


def _bias(image: _Image, mappings: list[tuple[int, int, int, str]], executable: str) -> int:
    """What the loader added to the executable's virtual addresses."""
    page = os.sysconf("SC_PAGE_SIZE")
    address, _, offset = min(image.loads)
    for start, _, at, path in mappings:
        if path == executable and at == offset - offset % page:
            return start - (address - address % page)
    raise Unreadable("the executable is not in its own maps")


def _read_slot(memory: int, address: int) -> int:
    value: int = struct.unpack("<Q", os.pread(memory, 8, address))[0]
    return value


def _owner(mappings: list[tuple[int, int, int, str]], address: int) -> str:
    return next((path or "?" for start, end, _, path in mappings if start <= address < end), "?")
