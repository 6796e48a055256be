"""Read one server's memory again and again, no more often than the cost of a reading allows."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from dballoc.explain import explanation
from dballoc.explain.explanation import Explanation
from dballoc.ground.errors import Failure
from dballoc.host.abandonable.abandonable_work import read_cpu_seconds
from dballoc.host.process.handle import Process

# How many readings are kept: beyond that every second one is dropped, so that a watch of days stays
# small.
_MOST = 1024


Look = Callable[[Process], Explanation]


class WatchPace(NamedTuple):
    """How often to read: ``every`` so many seconds, for ``span`` seconds (None: no end), with at
    most a ``share`` of one CPU.
    """

    every: float
    span: float | None
    share: float


@dataclass(frozen=True)
class WatchReading:
    """One reading of a server. ``explanation``: it, with verdicts over the whole series; ``cost``:
    seconds that it took: CPU of this process and its parser, kernel included, and those in which
    the loadable function read the statistics of the server's malloc, whose threads may wait for it;
    ``pause``: seconds until the next reading.
    """

    explanation: Explanation
    series: list[Explanation]
    cost: float
    pause: float


def compute_pause(every: float, cost: float, share: float) -> float:
    """Return the seconds between readings: ``every``, or more, so that they take no more than
    ``share`` of a CPU.
    """
    return max(every, cost / share)


def watch(
    process: Process, look: Look, pace: WatchPace, wait: Callable[[float], bool]
) -> Iterator[WatchReading]:
    """Yield a reading, and another one after each pause. ``look``: takes one; ``wait``: sleeps for
    so many seconds; False if the user ends the watch.

    Raises Failure when the process ends, or another one has its PID.
    """
    series: list[Explanation] = []
    began = time.monotonic()
    while True:
        started, cpu = time.monotonic(), read_cpu_seconds()
        try:
            reading = look(process)
        except Failure:
            process.check_running()  # with a plainer message
            if series and process.has_no_memory():
                raise Failure(f"{process} has ended") from None
            raise
        process.check_running()
        cost = read_cpu_seconds() - cpu + reading.within
        series = thin_series([*series, reading])
        remaining = compute_pause(pace.every, cost, pace.share) - (time.monotonic() - started)
        yield WatchReading(explanation.judge_series(series), series, cost, max(0.0, remaining))
        if pace.span is not None and time.monotonic() + remaining - began > pace.span:
            return
        if not wait(max(0.0, remaining)):
            return


def thin_series(series: list[Explanation], most: int = _MOST) -> list[Explanation]:
    """Return every second reading, with the first and the last, once there are too many."""
    return series if len(series) <= most else [*series[:-1:2], series[-1]]
