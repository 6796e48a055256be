"""The host settings that dballoc may change: the only ones that it writes, whatever a request or a
journal names.
"""

import os
from collections.abc import Mapping
from typing import NamedTuple


class HostSetting(NamedTuple):
    """A file of the kernel's, and the values that may be written to it."""

    path: str
    values: tuple[str, ...]


HOST_SETTINGS: Mapping[str, HostSetting] = {
    "thp": HostSetting(
        "/sys/kernel/mm/transparent_hugepage/enabled", ("always", "madvise", "never")
    ),
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
