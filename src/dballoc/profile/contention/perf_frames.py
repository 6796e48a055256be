"""Frames for the addresses that ``perf script`` prints: names from the kernel's symbols and from
the target's files.

A recording is read first, with a frame without a name for each place. Then the names of all places
are looked up at once: the target's files may never answer, so this is work for a child.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dballoc.errors import Failure
from dballoc.host.abandonable import touches
from dballoc.host.abandonable.abandonable_work import run_abandonable
from dballoc.host.abandonable.look_limits import symbol_limits
from dballoc.host.process_handle import Process
from dballoc.profile.model import Frame
from dballoc.profile.symbols import kernel_symbols
from dballoc.profile.symbols.symbols import Symbols

KERNEL = "[kernel]"
# The kernel has the upper half of the address space, on x86-64 and aarch64.
_KERNEL_START = 1 << 63


# An address, and the file that it is in.
Place = tuple[int, str]


@dataclass(frozen=True, kw_only=True)
class PlaceFrames:
    """The frames of places, in their order; ``left_out``: a line for each thing that did not
    answer.
    """

    frames: list[Frame]
    left_out: list[str]


class UnnamedFrames:
    """Gives each place a frame without a name. ``places``: by frame, all so far."""

    def __init__(self) -> None:
        self.places: dict[Frame, Place] = {}

    def resolve(self, address: int, file: str) -> Frame:
        """Return the frame of a place."""
        frame = Frame(f"{file}+{address:#x}", file, named=False)
        self.places[frame] = address, file
        return frame


def name_places(process: Process, places: Sequence[Place], is_ours: bool) -> PlaceFrames:
    """Look up the functions at places in the files of a process. ``is_ours``: it is a server of
    ours, whose files are read without a child that could be given up.
    """

    def look_up() -> PlaceFrames:
        frames = PerfFrames(process.root)
        return PlaceFrames(
            frames=[frames.resolve(*place) for place in places], left_out=touches.list_notes()
        )

    if is_ours:
        return look_up()
    try:
        return run_abandonable(look_up, symbol_limits(), f"the files of {process}")
    except Failure as error:
        unnamed = UnnamedFrames()
        return PlaceFrames(
            frames=[unnamed.resolve(*place) for place in places], left_out=[str(error)]
        )


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
