"""Frames for the addresses that ``perf script`` prints: names from the kernel's symbols and from
the target's files.
"""

from pathlib import Path

from dballoc.profile.model import Frame
from dballoc.profile.symbols import kernel_symbols
from dballoc.profile.symbols.symbols import Symbols

KERNEL = "[kernel]"
# The kernel has the upper half of the address space, on x86-64 and aarch64.
_KERNEL_START = 1 << 63


class PerfFrames:
    """Resolves addresses to frames. ``root``: the file system that the target sees."""

    def __init__(self, root: Path) -> None:
        self._symbols = Symbols(root)

    def resolve(self, address: int, file: str) -> Frame:
        """Return the function at an address. ``file``: as perf names it; an ``address`` in a file
        is an offset from its start.
        """
        if address >= _KERNEL_START:
            name = kernel_symbols.find_name(address)
            return Frame(name or f"{KERNEL}+{address:#x}", KERNEL, named=name is not None)
        if file.startswith("/"):
            return self._symbols.resolve_offset(file, address)
        return Frame(f"{file}+{address:#x}", file, named=False)
