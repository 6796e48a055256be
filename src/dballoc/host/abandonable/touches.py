"""What a child touches at this moment of a target, in memory that its parent sees; and what it
leaves out, because an earlier child waited for it in vain.

In a process that is no such child, as in a campaign that reads its own servers, nothing is noted
and nothing left out.
"""

import contextlib
import errno
import math
import mmap
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from dballoc.host.abandonable.blocking_mounts import Mount, Mounts, read_mounts
from dballoc.host.process.handle import Process
from dballoc.host.process.maps import MapsLine, parse_line, read_maps_text

_SIZE, _TEXT_AT = 4096, 64
_SINCE, _ADDRESS, _LENGTH, _PATIENCE = range(4)
# A parser that reads a whole file may take so many times as long as one touch.
_PARSING = 3
_ROOT_OF = re.compile(r"(/proc/(?:[0-9]+|self))/root")


class NotAnswering(TimeoutError):
    """It is not touched again, because it did not answer. OSError, with the reason as strerror."""

    def __init__(self, title: str, seconds: float) -> None:
        super().__init__(errno.ETIMEDOUT, f"{title} did not answer within {seconds:g} s")
        self._parts = title, seconds

    def __reduce__(self) -> tuple[type["NotAnswering"], tuple[str, float]]:
        return NotAnswering, self._parts


class Touch(NamedTuple):
    """A touch under way. ``since``: seconds of the monotonic clock; ``patience``: seconds that it
    may take; ``title``: the file system, empty for memory; ``address``: of memory.
    """

    since: float
    patience: float
    title: str
    address: int

    def describe(self) -> str:
        """Return what is touched, for a message."""
        return self.title or f"its memory at {self.address:x}"


@dataclass(frozen=True)
class Skips:
    """What did not answer: file systems by title, and addresses. ``everything``: every file system
    that may block.
    """

    titles: frozenset[str] = frozenset()
    addresses: frozenset[int] = frozenset()
    everything: bool = False

    def __bool__(self) -> bool:
        return bool(self.titles or self.addresses or self.everything)

    def add(self, touch: Touch) -> "Skips":
        """Return these, and that one."""
        if touch.title:
            return Skips(self.titles | {touch.title}, self.addresses, self.everything)
        return Skips(self.titles, self.addresses | {touch.address}, self.everything)


class TouchRecord:
    """Memory that a process shares with the children that it forks later: the touch under way.
    ``patience``: seconds that one may take.
    """

    def __init__(self, patience: float) -> None:
        self._patience = round(1e9 * patience)
        self._memory = mmap.mmap(-1, _SIZE)
        self.words = memoryview(self._memory)[:_TEXT_AT].cast("Q")

    def begin(self, title: str, times: int = 1) -> None:
        """Note that a file system is touched from now on, which may take so many times as long."""
        text = title.encode(errors="replace")[: _SIZE - _TEXT_AT]
        self.words[_SINCE] = 0
        self._memory[_TEXT_AT : _TEXT_AT + len(text)] = text
        self.words[_LENGTH] = len(text)
        self.words[_PATIENCE] = times * self._patience
        self.words[_SINCE] = time.monotonic_ns()

    def begin_address(self, address: int) -> None:
        """Note that memory is touched from now on."""
        self.words[_LENGTH] = 0
        self.words[_PATIENCE] = self._patience
        self.words[_ADDRESS] = address
        self.words[_SINCE] = time.monotonic_ns()

    def end(self) -> None:
        """Note that nothing is touched any more."""
        self.words[_SINCE] = 0

    def read(self) -> Touch | None:
        """Return the touch under way, None without one."""
        since = self.words[_SINCE]
        if not since:
            return None
        text = self._memory[_TEXT_AT : _TEXT_AT + min(self.words[_LENGTH], _SIZE - _TEXT_AT)]
        return Touch(
            since=since / 1e9,
            patience=self.words[_PATIENCE] / 1e9,
            title=text.decode(errors="replace"),
            address=self.words[_ADDRESS],
        )


@dataclass(kw_only=True)
class _TouchLog:
    """What this process notes and leaves out, as a child that can be given up. ``mounts``: the file
    systems of a process, read once a look; ``titles``: those that open files lie on, by descriptor;
    ``notes``: what was left out.
    """

    record: TouchRecord
    skips: Skips
    patience: float
    deadline: float = math.inf
    mounts: dict[str, Mounts] = field(default_factory=dict)
    titles: dict[int, str] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)

    def refuse(self, title: str, size: int = 0) -> NotAnswering:
        error = NotAnswering(title, self.patience)
        left_out = f"the {size / 2**20:,.1f} MiB mapped there are" if size else "what lies there is"
        self.notes[f"{error.strerror}: {left_out} counted, and not looked into"] = None
        return error

    def read_mounts(self, home: str) -> Mounts:
        if home not in self.mounts:
            self.mounts[home] = read_mounts(home)
        return self.mounts[home]

    def skips_mount(self, mount: Mount) -> bool:
        return self.skips.everything or mount.title in self.skips.titles


_child: _TouchLog | None = None


def become_child(record: TouchRecord, skips: Skips, patience: float) -> None:
    """Note and leave out from now on."""
    global _child
    _child = _TouchLog(record=record, skips=skips, patience=patience)


def is_child() -> bool:
    """Whether this process is a child that can be given up."""
    return _child is not None


def begin_look(seconds: float) -> None:
    """Begin a look that has so many seconds."""
    assert _child
    _child.deadline = time.monotonic() + seconds
    _child.mounts.clear()
    _child.notes.clear()


def count_seconds_left() -> float:
    """Return the seconds until this child is given up; infinity in any other process."""
    return _child.deadline - time.monotonic() if _child else math.inf


def list_notes() -> list[str]:
    """Return a line for each thing that was left out of the look."""
    return list(_child.notes) if _child else []


def begin_path(root: str, path: str) -> str:
    """Note that a file is touched, until :func:`end_touch`, and return the title of its file
    system; empty if that surely answers. Raises NotAnswering if it did not.

    ``root``: the directory, like /proc/PID/root, in which ``path`` is absolute and without links.
    """
    if not _child:
        return ""
    home = _ROOT_OF.fullmatch(root)
    mounts = _child.read_mounts(home[1] if home else "/proc/self")
    mount = mounts.find(path if home else f"{root.rstrip('/')}{path}".rstrip("/") or "/")
    if not mount.may_block:
        _child.record.end()
        return ""
    if _child.skips_mount(mount):
        _child.record.end()
        raise _child.refuse(mount.title)
    _child.record.begin(mount.title)
    return mount.title


def begin_address(address: int) -> None:
    """Note that memory of the target is touched, until :func:`end_touch`."""
    if _child:
        _child.record.begin_address(address)


def end_touch() -> None:
    """Note that nothing is touched any more."""
    if _child:
        _child.record.end()


def remember_file(descriptor: int, title: str) -> None:
    """Remember which file system an open file lies on, for :func:`touching_file`."""
    if _child:
        _child.titles[descriptor] = title


@contextlib.contextmanager
def touching_file(descriptor: int) -> Iterator[None]:
    """Note while the body reads a file that :func:`remember_file` knows."""
    if _child and (title := _child.titles.get(descriptor)):
        _child.record.begin(title, _PARSING)
    try:
        yield
    finally:
        end_touch()


class SkippedRange(NamedTuple):
    """A mapping that is not to be read. ``size``: bytes of all such mappings with its title."""

    start: int
    end: int
    title: str
    size: int


def find_skipped_ranges(process: Process) -> list[SkippedRange]:
    """Return the mappings of a process that are not to be read. Raises OSError if the process is
    gone.
    """
    if not _child or not _child.skips:
        return []
    lines = list(filter(None, map(parse_line, read_maps_text(process).split("\n"))))
    mounts = _child.read_mounts(str(process.home))
    # A page that waited, of a mapping of a file: nothing of that file system is read again.
    devices = {line.device for line in lines if _holds_any(line, _child.skips.addresses)}
    ranges: list[tuple[int, int, str]] = []
    for line in lines:
        mount = mounts.find_blocking_device(line.device)
        if mount and (_child.skips_mount(mount) or line.device in devices):
            ranges.append((line.start, line.end, mount.title))
        elif _holds_any(line, _child.skips.addresses):
            title = f"its memory at {line.start:x}-{line.end:x} ({line.path or 'anonymous'})"
            ranges.append((line.start, line.end, title))
    sizes: Counter[str] = Counter()
    for start, end, title in ranges:
        sizes[title] += end - start
    return [SkippedRange(start, end, title, sizes[title]) for start, end, title in ranges]


def refuse_memory(skipped: SkippedRange) -> NotAnswering:
    """Return the error for memory that is not to be read, and note that it is left out."""
    assert _child
    return _child.refuse(skipped.title, skipped.size)


def _holds_any(line: MapsLine, addresses: frozenset[int]) -> bool:
    return any(line.start <= address < line.end for address in addresses)
