"""Which pages of an address range are resident, how many, huge, swapped out: the ioctl PAGEMAP_SCAN
of /proc/PID/pagemap (Linux
6.7; kernel documentation, admin-guide/mm/pagemap.rst).

Unlike smaps, which walks a whole mapping under the process's mmap lock, a call goes no further than
it is told to.
"""

import fcntl
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_ARGUMENT = struct.Struct("<12Q")
_WALK_END = 4 * 8
_SCAN = 3 << 30 | _ARGUMENT.size << 16 | ord("f") << 8 | 16  # _IOWR('f', 16, struct pm_scan_arg)
_PRESENT, _SWAPPED, _ZERO, _HUGE = 1 << 3, 1 << 4, 1 << 5, 1 << 6

# A call ends after so many resident pages, about 2 ms, and after so many bytes of which none are.
_MOST_PAGES = 32768
_STEP = 4 << 30
_REGIONS = 512


@dataclass(frozen=True)
class Counts:
    """Bytes of a range. ``resident``: as RSS counts, huge pages included; ``huge``: those mapped by
    2 MiB and more.
    """

    resident: int = 0
    huge: int = 0
    swap: int = 0


def count(pagemap: int, start: int, end: int) -> Counts:
    """Of whole pages from ``start`` to ``end``. ``pagemap``: a descriptor of it. OSError where the
    kernel has no such ioctl, or the process is gone.
    """
    resident = huge = swap = 0
    for found in _scan(
        pagemap, start, end, 0, _PRESENT | _SWAPPED, _PRESENT | _SWAPPED | _ZERO | _HUGE
    ):
        sizes, kinds = (found[:, 1] - found[:, 0]).astype(np.int64), found[:, 2].astype(np.int64)
        there = (kinds & (_PRESENT | _ZERO)) == _PRESENT
        resident += int(sizes[there].sum())
        huge += int(sizes[there & (kinds & _HUGE != 0)].sum())
        swap += int(sizes[kinds & _SWAPPED != 0].sum())
    return Counts(resident, huge, swap)


def runs(pagemap: int, start: int, end: int) -> Iterator[NDArray[np.int64]]:
    """The runs of resident pages, by address, in pieces: a row for each, its start and its end.
    What one call of the kernel ends with, the next one may go on with: neighbours may touch.
    ``pagemap`` and OSError: as for :func:`count`.
    """
    for found in _scan(pagemap, start, end, _PRESENT | _ZERO, 0, _PRESENT):
        yield found[:, :2].astype(np.int64)


def _scan(
    pagemap: int, start: int, end: int, whole: int, some: int, told: int
) -> Iterator[NDArray[np.uint64]]:
    """Rows of start, end and kind, of the pages that are ``whole`` (a page of zeros, if that is in
    it, means that they are none) and any of ``some`` (0: whatever); ``told``: kinds that are told
    apart.
    """
    regions = np.zeros((_REGIONS, 3), np.uint64)
    while start < end:
        argument = bytearray(
            _ARGUMENT.pack(
                _ARGUMENT.size,
                0,
                start,
                min(end, start + _STEP),
                0,
                regions.ctypes.data,
                _REGIONS,
                _MOST_PAGES,
                whole & _ZERO,
                whole,
                some,
                told,
            )
        )
        yield regions[: fcntl.ioctl(pagemap, _SCAN, argument, True)]
        (start,) = struct.unpack_from("<Q", argument, _WALK_END)
