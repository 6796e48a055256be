"""What ``perf script`` prints, as events. Pure.

Lines as perf 6 writes them with ``-F comm,pid,tid,time,event,ip,sym,dso,trace --ns --show-switch-events --show-lost-events``:

    c 16440/16443 36498.348283279:   context-switches:            a sample; its call stack follows, innermost frame first
    <tab>ffffffff821f8c03 schedule ([kernel.kallsyms])
    <tab>           891f4 start_thread (/usr/lib/x86_64-linux-gnu/libc.so.6)
    <empty line>
    c 16440/16443 36498.348290920: PERF_RECORD_SWITCH OUT preempt
    c 16440/16443 36498.348295502: PERF_RECORD_SWITCH IN
    c 16440/16443 36498.348274432: sched:sched_wakeup: comm=c pid=16444 prio=139 target_cpu=000 ffffffff813a82d5 …
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dballoc.profile.model import Frame

# A thread's name may hold anything, so the last place that looks so is it; a name has 15 bytes at most, too few to look so.
_HEAD = re.compile(r"\s*(.*\S)\s+(-?\d+)/(-?\d+)\s+(\d+)\.(\d{6,9}):\s+(\S.*)")
_FRAME = re.compile(r"\s+([0-9a-f]+) (.*\S)\s*")
_TARGET = re.compile(r" pid=(\d+) prio=")
_LOST = re.compile(r"PERF_RECORD_LOST(?:_SAMPLES)?\D*(\d+)")
_VERSION = re.compile(r"@@?[A-Z][\w.]*$")
_SWITCH = "PERF_RECORD_SWITCH"
# Where the unwinder found that there is nothing more.
_NO_ADDRESS = 2**64 - 1


class Sampled(NamedTuple):
    """An event with a call stack (outermost frame first; empty where it was not asked for). ``time``: nanoseconds;
    ``target``: the thread that is woken, 0 for other events.
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


def parse(lines: Iterable[str]) -> Iterator[Event]:
    """The events, in the order of the lines. What is not understood is passed over."""
    frames = _Frames()
    open_: Sampled | None = None
    stack: list[Frame] = []
    for line in lines:
        if line[:1] == "\t":
            if open_ is not None and (frame := frames.read(line)):
                stack.append(frame)
            continue
        if open_ is not None:
            yield open_._replace(stack=tuple(reversed(stack)))
            open_, stack = None, []
        found = _event(line)
        if isinstance(found, Sampled):
            open_ = found
        elif found is not None:
            yield found
    if open_ is not None:
        yield open_._replace(stack=tuple(reversed(stack)))


def _event(line: str) -> Event | None:
    match = _HEAD.match(line)
    if not match:
        return None
    rest = match[6]
    time = int(match[4]) * 10**9 + int(match[5].ljust(9, "0"))
    if rest.startswith(_SWITCH):
        return Switch(time, int(match[3]), " OUT" in rest, "preempt" in rest)
    if lost := _LOST.match(rest):
        return Lost(time, int(lost[1]))
    if rest.startswith("PERF_RECORD_"):
        return None
    # A tracepoint's name has a colon within, and what follows it.
    name, _, trace = rest.partition(": ")
    woken = _TARGET.search(trace)
    return Sampled(time, int(match[2]), int(match[3]), name.rstrip(": "), int(woken[1]) if woken else 0, ())


class _Frames:
    """Frames by line: a function is on thousands of stacks."""

    def __init__(self) -> None:
        self._known: dict[str, Frame | None] = {}

    def read(self, line: str) -> Frame | None:
        try:
            return self._known[line]
        except KeyError:
            return self._known.setdefault(line, frame(line))


def frame(line: str) -> Frame | None:
    """One line of a call stack; None if it is none."""
    match = _FRAME.fullmatch(line.rstrip("\n"))
    if not match:
        return None
    if int(match[1], 16) == _NO_ADDRESS:
        return None
    function, path = _split(match[2])
    module = path.removesuffix(" (deleted)").rpartition("/")[2]
    if path.startswith("[") and path not in ("[unknown]", "[vdso]", "[vsyscall]", "[heap]", "[stack]"):
        module = "[kernel]"
    if function == "[unknown]":
        return Frame(f"{module or '[unknown]'}+0x{int(match[1], 16):x}", module, named=False)
    return Frame(plain(function), module)


def _split(text: str) -> tuple[str, str]:
    """Function and file of ``operator new(unsigned long) (/usr/lib/libstdc++.so.6)``: either may have brackets of its own."""
    at = max(text.rfind(" (/"), text.rfind(" (["))
    if at < 0:
        at = text.rfind(" (")
    if at < 0:
        return text, ""
    return text[:at], text[at + 2 :].removesuffix(")")


def plain(function: str) -> str:
    """A function's name without its symbol's version and glibc's mark of an internal alias."""
    return _VERSION.sub("", function).removeprefix("__GI_").removesuffix("@plt") or function
