"""The host settings that dballoc may change: the only ones that it writes, whatever a request or a
journal names.
"""

import os
from collections.abc import Mapping
from typing import NamedTuple

_THP = "/sys/kernel/mm/transparent_hugepage"


class HostSetting(NamedTuple):
    """A file of the kernel's, and the values that may be written to it."""

    path: str
    values: tuple[str, ...]


def _list_huge_page_sizes() -> dict[str, HostSetting]:
    """Return the switch of each size of huge pages, ``thp_64K``: from the smallest on a kernel with
    pages of 4 KiB to the largest on one with pages of 64 KiB. A kernel has some of them (6.8 and
    later), and those for pages in memory alone have a file ``enabled``.
    """
    modes = ("always", "inherit", "madvise", "never")
    sizes = [2**exponent for exponent in range(4, 20)]  # KiB
    return {
        f"thp_{kib}K" if kib < 1024 else f"thp_{kib // 1024}M": HostSetting(
            f"{_THP}/hugepages-{kib}kB/enabled", modes
        )
        for kib in sizes
    }


# By name: ``thp``, the mode; ``thp_defrag``; and the switch of each size.
HOST_SETTINGS: Mapping[str, HostSetting] = {
    "thp": HostSetting(f"{_THP}/enabled", ("always", "madvise", "never")),
    "thp_defrag": HostSetting(
        f"{_THP}/defrag", ("always", "defer", "defer+madvise", "madvise", "never")
    ),
    **_list_huge_page_sizes(),
}


def read_setting(path: str) -> str:
    """Read the value of a /sys file; of ``always [madvise] never`` the chosen one."""
    with open(path) as f:
        text = f.readline(4096).strip()
    start, end = text.find("["), text.find("]")
    return text[start + 1 : end] if 0 <= start < end else text


def write_setting(path: str, value: str) -> None:
    """Write a /sys file, which must exist, in one call: it has the old value or the new one."""
    setting = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.write(setting, f"{value}\n".encode())
    finally:
        os.close(setting)
