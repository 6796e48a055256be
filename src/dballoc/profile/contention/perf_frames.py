"""Frames for the addresses that ``perf script`` prints: the kernel's names, and those of the
target's files.
"""

from pathlib import Path

from dballoc.profile.model import Frame
from dballoc.profile.symbols import kernel_symbols
from dballoc.profile.symbols.symbols import Symbols

KERNEL = "[kernel]"
# The kernel has the upper half of addresses, on x86-64 and aarch64.
_KERNEL_START = 1 << 63


class PerfFrames:
    """``root``: the file system that the target sees."""

    def __init__(self, root: Path) -> None:
        self._symbols = Symbols(root)

    def resolve(self, address: int, file: str) -> Frame:
        """The function at an address. ``file``: as perf calls it; in a file of its own it counts
        from the file's start.
        """
        if address >= _KERNEL_START:
            name = kernel_symbols.find_name(address)
            return Frame(name or f"{KERNEL}+{address:#x}", KERNEL, named=name is not None)
        if file.startswith("/"):
            return self._symbols.resolve_offset(file, address)
        return Frame(f"{file}+{address:#x}", file, named=False)
