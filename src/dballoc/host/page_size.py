"""The size of a process's pages, from the auxiliary vector that the kernel gave it.

All processes of a kernel have one size, 4 KiB on x86-64 and 4, 16 or 64 KiB on aarch64; but what we
are told of our own is the emulator's, where we ourselves run emulated.
"""

import struct

from dballoc import readers

# <linux/auxvec.h>
_AT_NULL, _AT_PAGESZ = 0, 6
_ENTRY = struct.Struct("=2Q")
# Bytes; a kernel's has some 300.
_MOST = 1 << 14


def read_page_size(pid: int) -> int | None:
    """Read the size of a process's pages, in bytes; None of a kernel thread, or if it is not
    plausible. OSError if the process is gone or not ours.
    """
    return parse_page_size(readers.of_process(f"/proc/{pid}/auxv", _MOST))


def parse_page_size(auxv: bytes) -> int | None:
    """Parse an auxiliary vector of 64 bits (getauxval(3)): AT_PAGESZ, None if it has none that is
    a power of two from 4 KiB to 64 KiB. Pure.
    """
    for kind, value in _ENTRY.iter_unpack(auxv[: len(auxv) // _ENTRY.size * _ENTRY.size]):
        if kind == _AT_NULL:
            return None
        if kind == _AT_PAGESZ:
            return int(value) if value in (1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16) else None
    return None
