"""Looking again and again at one server, never more often than the looks' own cost allows."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from dballoc import readers
from dballoc.errors import Failure
from dballoc.explain import explanation
from dballoc.explain.explanation import Explanation
from dballoc.process_memory.heaps.heap_probe_estimate import Sample, nobody
from dballoc.servers.running.credentials import Credentials

# More looks than this are not kept: every second one of them goes, so that a watch of days stays
# small.
_MOST = 1024


class Pace(NamedTuple):
    """A look ``every`` so many seconds, for ``span`` seconds (None: no end), for a ``share`` of a
    CPU at most.
    """

    every: float
    span: float | None
    share: float


@dataclass(frozen=True)
class Look:
    """``found``: judged in the light of the series; ``cost``: seconds of looking: of CPU, ours and
    the kernel's for us, and those in which the loadable function has asked the server's malloc,
    whose threads may wait for it; ``pause``: seconds until the next look.
    """

    found: Explanation
    series: list[Explanation]
    cost: float
    pause: float


def pause(every: float, cost: float, share: float) -> float:
    """Seconds between looks: as asked for, but no more of a CPU than that share."""
    return max(every, cost / share)


def watch(
    pid: int,
    who: Credentials | None,
    pace: Pace,
    wait: Callable[[float], bool],
    sample: Sample = nobody,
) -> Iterator[Look]:
    """A look, and another one after each pause. ``wait``: sleeps for so many seconds; False if the
    user has had enough.

    Failure when the process ends, or another one has its PID.
    """
    series: list[Explanation] = []
    born, began = _born(pid), time.monotonic()
    while True:
        started, cpu = time.monotonic(), time.process_time()
        try:
            found = explanation.explain(pid, who, sample=sample)
        except Failure:
            _born(pid)  # if that is why, in plain words
            raise
        if _born(pid) != born:
            raise Failure(f"process {pid} has ended, and another one has its number")
        cost = time.process_time() - cpu + found.within
        series = thinned([*series, found])
        left = pause(pace.every, cost, pace.share) - (time.monotonic() - started)
        yield Look(explanation.judged(series), series, cost, max(0.0, left))
        if pace.span is not None and time.monotonic() + left - began > pace.span:
            return
        if not wait(max(0.0, left)):
            return


def thinned(series: list[Explanation], most: int = _MOST) -> list[Explanation]:
    """Every second look, with the first and the last, once there are too many."""
    return series if len(series) <= most else [*series[:-1:2], series[-1]]


def _born(pid: int) -> str:
    """Field 22 of proc_pid_stat(5), the start in clock ticks: with the PID it names a process."""
    try:
        return readers.text_of_process(f"/proc/{pid}/stat").rpartition(")")[2].split()[19]
    except OSError:
        raise Failure(f"process {pid} has ended") from None
