"""The program and the libraries of a process in the order in which its loader looks a symbol up:
the link map (<link.h>, struct r_debug and struct link_map), read from the process's memory.

All of it is the process's word: addresses that lead nowhere, or in a circle, end the list.
"""

import struct
from collections.abc import Callable, Iterator

_DT_NULL, _DT_DEBUG = 0, 21
_ENTRY = struct.Struct("<QQ")
_LONGEST_SECTION = 1 << 16
# Of struct r_debug: r_map. Of struct link_map: l_ld and l_next.
_R_MAP, _L_LD, _L_NEXT = 8, 16, 24
# A server with all its plugins has some hundred.
_MOST_OBJECTS = 4096

# Returns that many bytes at an address, fewer where there are not as many.
ReadMemory = Callable[[int, int], bytes]


def iterate_objects(read: ReadMemory, address: int, size: int) -> Iterator[int]:
    """Yield the address of the dynamic section of each object, the main program's first.
    ``address``, ``size``: of the main program's own, in memory. OSError as ``read`` raises it.
    """
    debug = _find_debug_structure(read, address, size)
    link = _read_word(read, debug + _R_MAP) if debug else 0
    for _ in range(_MOST_OBJECTS):
        if link == 0:
            return
        yield _read_word(read, link + _L_LD)
        link = _read_word(read, link + _L_NEXT)


def _find_debug_structure(read: ReadMemory, address: int, size: int) -> int:
    """Return the address of the loader's struct r_debug; 0 if the section names none."""
    section = _read_at(read, address, min(size, _LONGEST_SECTION))
    for tag, value in _ENTRY.iter_unpack(section[: len(section) - len(section) % _ENTRY.size]):
        if tag == _DT_NULL:
            break
        if tag == _DT_DEBUG:
            return value
    return 0


def _read_word(read: ReadMemory, address: int) -> int:
    return int.from_bytes(_read_at(read, address, 8), "little")


def _read_at(read: ReadMemory, address: int, count: int) -> bytes:
    """Read bytes; none at an address that no process has."""
    return read(address, count) if address < 1 << 63 else b""
