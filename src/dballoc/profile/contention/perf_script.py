"""Parse what ``perf script`` prints into events. Pure.

perf prints addresses without names, as the files with the names are the target's;
:mod:`dballoc.profile.contention.contention` finds the names. These are perf 6's lines with ``-F
pid,tid,time,event,ip,dso,trace --ns --show-switch-events --show-lost-events``. A sample's call
stack follows it, the innermost frame first, then an empty line; an address in a file is an offset
from its start::

    16440/16443 36498.348283279:   context-switches:
    <tab>ffffffff821f8c03 ([kernel.kallsyms])
    <tab>           891f4 (/usr/lib/x86_64-linux-gnu/libc.so.6)

    16440/16443 36498.348290920: PERF_RECORD_SWITCH OUT preempt
    16440/16443 36498.348295502: PERF_RECORD_SWITCH IN
    16440/16443 36498.348274432: sched:sched_wakeup: comm=c pid=16444 prio=139 target_cpu=000
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from dballoc.profile.model import Frame

_HEAD = re.compile(r"\s*(-?\d{1,10})/(-?\d{1,10})\s+(\d{1,12})\.(\d{6,9}):\s+(\S.*)", re.ASCII)
_FRAME = re.compile(r"\s+([0-9a-f]{1,16}) \((.*)\)\s*")
_TARGET = re.compile(r" pid=(\d{1,10}) prio=", re.ASCII)
_LOST = re.compile(r"PERF_RECORD_LOST(?:_SAMPLES)?\D*(\d{1,18})", re.ASCII)
_SWITCH = "PERF_RECORD_SWITCH"
# perf's mark for the end of a stack.
_NO_ADDRESS = 2**64 - 1


class Sampled(NamedTuple):
    """An event with a call stack, the outermost frame first; empty if none was recorded. ``time``:
    nanoseconds; ``target``: the thread that is woken, 0 for other events.
    """

    time: int
    pid: int
    tid: int
    event: str
    target: int
    stack: tuple[Frame, ...]


class Switch(NamedTuple):
    """A thread leaves (``out``) or gets a CPU. ``preempted``: it leaves but could have run on."""

    time: int
    tid: int
    out: bool
    preempted: bool


class Lost(NamedTuple):
    """Records that perf could not write."""

    time: int
    records: int


Event = Sampled | Switch | Lost

# Returns the function at an address of a file, which is named as perf names it.
Resolve = Callable[[int, str], Frame]

# A stack is cut off at so many frames; perf itself stops at 127.
_MOST_FRAMES = 1024


def parse_events(lines: Iterable[str], resolve: Resolve) -> Iterator[Event]:
    """Parse events, in the order of the lines. Lines in no known form are skipped."""
    frames = _FrameCache(resolve)
    pending: Sampled | None = None
    stack: list[Frame] = []
    for line in lines:
        if line[:1] == "\t":
            if (
                pending is not None
                and len(stack) < _MOST_FRAMES
                and (frame := frames.resolve_line(line))
            ):
                stack.append(frame)
            continue
        if pending is not None:
            yield pending._replace(stack=tuple(reversed(stack)))
            pending, stack = None, []
        event = _parse_event(line)
        if isinstance(event, Sampled):
            pending = event
        elif event is not None:
            yield event
    if pending is not None:
        yield pending._replace(stack=tuple(reversed(stack)))


def _parse_event(line: str) -> Event | None:
    match = _HEAD.match(line)
    if not match:
        return None
    rest = match[5]
    time = int(match[3]) * 10**9 + int(match[4].ljust(9, "0"))
    if rest.startswith(_SWITCH):
        return Switch(time, int(match[2]), " OUT" in rest, "preempt" in rest)
    if lost := _LOST.match(rest):
        return Lost(time, int(lost[1]))
    if rest.startswith("PERF_RECORD_"):
        return None
    # A tracepoint's name contains a colon; its fields follow after another one.
    name, _, trace = rest.partition(": ")
    woken = _TARGET.search(trace)
    return Sampled(
        time, int(match[1]), int(match[2]), name.rstrip(": "), int(woken[1]) if woken else 0, ()
    )


class _FrameCache:
    """Resolves each line of a call stack once: a function is on thousands of stacks."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._by_line: dict[str, Frame | None] = {}

    def resolve_line(self, line: str) -> Frame | None:
        if line not in self._by_line:
            place = parse_frame(line)
            self._by_line[line] = self._resolve(*place) if place else None
        return self._by_line[line]


def parse_frame(line: str) -> tuple[int, str] | None:
    """Parse a line of a call stack into address and file; None if it is not a frame."""
    match = _FRAME.fullmatch(line.rstrip("\n"))
    if not match or int(match[1], 16) == _NO_ADDRESS:
        return None
    return int(match[1], 16), match[2]
