"""Which pages of an address range are resident, huge or swapped out: the ioctl PAGEMAP_SCAN of
/proc/PID/pagemap (Linux 6.7; kernel documentation, admin-guide/mm/pagemap.rst).

Unlike smaps, which walks a whole mapping under the process's mmap lock, a call goes no further than
it is told to.
"""

import fcntl
import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from dballoc.process.resident_span import Runs

_ARGUMENT = struct.Struct("<12Q")
_REGION = struct.Struct("<3Q")  # struct page_region: start, end, categories
_WALK_END = 4 * 8
_SCAN = 3 << 30 | _ARGUMENT.size << 16 | ord("f") << 8 | 16  # _IOWR('f', 16, struct pm_scan_arg)
_PRESENT, _SWAPPED, _ZERO, _HUGE = 1 << 3, 1 << 4, 1 << 5, 1 << 6

# A call ends after that many resident pages (about 2 ms), and covers at most that many bytes.
_MOST_PAGES = 32768
_STEP = 4 << 30
_REGIONS = 512


@dataclass(frozen=True)
class PageCounts:
    """Bytes of an address range. ``resident``: as RSS counts them, huge pages included; ``huge``:
    those mapped in pages of 2 MiB and more.
    """

    resident: int = 0
    huge: int = 0
    swap: int = 0


def count_pages(pagemap: int, start: int, end: int) -> PageCounts:
    """Count the bytes in whole pages from ``start`` to ``end``. ``pagemap``: its file descriptor.
    Raises OSError where the kernel has no such ioctl, or the process is gone.
    """
    resident = huge = swap = 0
    for regions in _scan(
        pagemap,
        start,
        end,
        required=0,
        any_of=_PRESENT | _SWAPPED,
        returned=_PRESENT | _SWAPPED | _ZERO | _HUGE,
    ):
        for first, behind, categories in zip(*[iter(regions)] * 3, strict=True):
            size = behind - first
            if categories & (_PRESENT | _ZERO) == _PRESENT:
                resident += size
                huge += size if categories & _HUGE else 0
            swap += size if categories & _SWAPPED else 0
    return PageCounts(resident, huge, swap)


def iterate_resident_runs(pagemap: int, start: int, end: int) -> Iterator[Runs]:
    """Yield the runs of resident pages by address, some at a time.

    The first run of one call of the kernel may touch the last run of the call before. ``pagemap``
    and OSError: as for :func:`count_pages`.
    """
    for regions in _scan(
        pagemap, start, end, required=_PRESENT | _ZERO, any_of=0, returned=_PRESENT
    ):
        yield Runs(regions[::3], regions[1::3])


def _scan(
    pagemap: int, start: int, end: int, *, required: int, any_of: int, returned: int
) -> Iterator["array[int]"]:
    """Yield start, end and categories, one behind the other, of the ranges of pages that have all
    categories ``required`` (but not :data:`_ZERO`, which in it stands for pages that are not of
    zeros) and one ``any_of`` (0: any page will do). ``returned``: the categories that are told.
    """
    regions = array("Q", bytes(_REGION.size * _REGIONS))
    address, _ = regions.buffer_info()
    while start < end:
        # The fields of struct pm_scan_arg, in its order.
        fields = {
            "size": _ARGUMENT.size,
            "flags": 0,
            "start": start,
            "end": min(end, start + _STEP),
            "walk_end": 0,
            "vec": address,
            "vec_len": _REGIONS,
            "max_pages": _MOST_PAGES,
            "category_inverted": required & _ZERO,
            "category_mask": required,
            "category_anyof_mask": any_of,
            "return_mask": returned,
        }
        argument = bytearray(_ARGUMENT.pack(*fields.values()))
        yield regions[: 3 * fcntl.ioctl(pagemap, _SCAN, argument, True)]
        (start,) = struct.unpack_from("<Q", argument, _WALK_END)
