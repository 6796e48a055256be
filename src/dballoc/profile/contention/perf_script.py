"""What ``perf script`` prints, as events. Pure.

perf is asked for addresses alone, not for names, which are a target's own: names are found by
:mod:`dballoc.profile.contention.perf_frames`. Lines as perf 6 writes them with ``-F
  pid,tid,time,event,ip,dso,trace
--ns --show-switch-events --show-lost-events``; an address in a file counts from the file's start:

    16440/16443 36498.348283279:   context-switches:            a sample; its call stack follows,
    innermost frame first <tab>ffffffff821f8c03 ([kernel.kallsyms]) <tab>           891f4
    (/usr/lib/x86_64-linux-gnu/libc.so.6) <empty line> 16440/16443 36498.348290920:
    PERF_RECORD_SWITCH OUT preempt 16440/16443 36498.348295502: PERF_RECORD_SWITCH IN 16440/16443
    36498.348274432: sched:sched_wakeup: comm=c pid=16444 prio=139 target_cpu=000 ffffffff813a82d5 …
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
# Where the unwinder found that there is nothing more.
_NO_ADDRESS = 2**64 - 1


class Sampled(NamedTuple):
    """An event with a call stack (outermost frame first; empty where it was not asked for).
    ``time``: nanoseconds; ``target``: the thread that is woken, 0 for other events.
    """

    time: int
    pid: int
    tid: int
    event: str
    target: int
    stack: tuple[Frame, ...]


class Switch(NamedTuple):
    """A thread leaves (``out``) or gets a CPU. ``preempted``: it leaves while it could go on."""

    time: int
    tid: int
    out: bool
    preempted: bool


class Lost(NamedTuple):
    """Records that perf could not write."""

    time: int
    records: int


Event = Sampled | Switch | Lost

# The function at an address of a file, by perf's name for that file.
Resolve = Callable[[int, str], Frame]

# Frames of one stack; perf itself stops at 127.
_MOST_FRAMES = 1024


def parse(lines: Iterable[str], resolve: Resolve) -> Iterator[Event]:
    """The events, in the order of the lines. What is not understood is passed over."""
    frames = _FrameCache(resolve)
    pending: Sampled | None = None
    stack: list[Frame] = []
    for line in lines:
        if line[:1] == "\t":
            if pending is not None and len(stack) < _MOST_FRAMES and (frame := frames.read(line)):
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
    # A tracepoint's name has a colon within, and what follows it.
    name, _, trace = rest.partition(": ")
    woken = _TARGET.search(trace)
    return Sampled(
        time, int(match[1]), int(match[2]), name.rstrip(": "), int(woken[1]) if woken else 0, ()
    )


class _FrameCache:
    """Frames by line: a function is on thousands of stacks."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._known: dict[str, Frame | None] = {}

    def read(self, line: str) -> Frame | None:
        if line not in self._known:
            place = parse_frame(line)
            self._known[line] = self._resolve(*place) if place else None
        return self._known[line]


def parse_frame(line: str) -> tuple[int, str] | None:
    """The address and the file of a line of a call stack; None if it is none."""
    match = _FRAME.fullmatch(line.rstrip("\n"))
    if not match or int(match[1], 16) == _NO_ADDRESS:
        return None
    return int(match[1], 16), match[2]
