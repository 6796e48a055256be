"""Read what the client wrote: sysbench with our hook, or HammerDB's driver. Pure but for opening
the file.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dballoc import readers

_BUCKET = re.compile(r"^\s*(\d{1,12}\.\d{1,12}) \|\**\s+(\d{1,15})\s*$", re.MULTILINE | re.ASCII)
# Of one look at a growing file: what a load of months would write.
_MOST = 256 * readers.MIB


@dataclass(frozen=True, kw_only=True)
class Interval:
    """One report of the hook. ``clock``: CLOCK_MONOTONIC at its end; latency in seconds, None where
    the client tells none; counts within it.
    """

    clock: float
    elapsed: float
    seconds: float
    threads: int
    events: int
    queries: int
    latency: float | None
    errors: int
    reconnects: int

    @property
    def tps(self) -> float:
        """Events per second."""
        return self.events / self.seconds

    @property
    def qps(self) -> float:
        """Statements per second."""
        return self.queries / self.seconds


@dataclass(frozen=True, kw_only=True)
class Total:
    """The whole run. Latencies in seconds, None where the client tells none."""

    clock: float
    seconds: float
    events: int
    queries: int
    latency_min: float | None
    latency_avg: float | None
    latency_max: float | None
    errors: int
    reconnects: int


def milliseconds(seconds: float | None) -> float | None:
    """A latency in the store's unit."""
    return None if seconds is None else seconds * 1e3


class Follower:
    """Reads a growing file of JSON lines, complete lines only.

    sysbench calls its report hooks from two threads, and when a run ends as a report is due, from
    both at once. Seen once in some thousand runs: two lines of one clock. What cannot be read, or
    is no later than the one before, is left out.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.total: Total | None = None
        self._offset = 0
        self._last = -math.inf

    def new(self) -> Iterator[Interval]:
        """The intervals written since the last call."""
        try:
            with self.path.open("rb") as f:
                f.seek(self._offset)
                text = f.read(_MOST)
        except FileNotFoundError:
            return
        complete = text[: text.rfind(b"\n") + 1]
        self._offset += len(complete)
        for line in complete.splitlines():
            match _read(line):
                case Total() as total:
                    self.total = total
                case Interval() as interval if interval.clock > self._last:
                    self._last = interval.clock
                    yield interval


def _read(line: bytes) -> Interval | Total | None:
    try:
        record = readers.document(line)
        queries = sum(_count(record[key]) for key in ("reads", "writes", "other"))
        events, errors, reconnects = (
            _count(record[key]) for key in ("events", "errors", "reconnects")
        )
        clock, elapsed = _seconds(record["clock"]), _seconds(record["time_total"])
        if record["kind"] == "total":
            low, mean, high = (
                _latency(record[f"latency_{which}"]) for which in ("min", "avg", "max")
            )
            return Total(
                clock=clock,
                seconds=_above(elapsed),
                events=events,
                queries=queries,
                latency_min=low,
                latency_avg=mean,
                latency_max=high,
                errors=errors,
                reconnects=reconnects,
            )
        return Interval(
            clock=clock,
            elapsed=elapsed,
            seconds=_above(_seconds(record["time_interval"])),
            threads=_count(record["threads_running"]),
            events=events,
            queries=queries,
            latency=_latency(record["latency_pct"]),
            errors=errors,
            reconnects=reconnects,
        )
    except (readers.Unfit, ValueError, KeyError, TypeError):
        return None


def _seconds(value: float) -> float:
    """A time that a clock can show. ValueError, TypeError."""
    if isinstance(value, bool) or not 0 <= value < 1e12:
        raise ValueError(value)
    return value


def _above(seconds: float) -> float:
    """One that something can be divided by."""
    if seconds < 1e-9:
        raise ValueError(seconds)
    return seconds


def _count(value: float) -> int:
    return int(_seconds(value))


def _latency(value: float | None) -> float | None:
    return None if value is None else _seconds(value)


def parse_histogram(output: str) -> list[tuple[float, int]]:
    """(milliseconds, count) per bucket of sysbench's ``--histogram``; a bucket's value is its upper
    bound.

    Three decimals are printed, so the narrow buckets below 0.05 ms come out alike; those are added
    up.
    """
    _, _, rest = output.partition("Latency histogram")
    buckets: dict[float, int] = {}
    for ms, count in _BUCKET.findall(rest):
        buckets[float(ms)] = buckets.get(float(ms), 0) + int(count)
    return list(buckets.items())


def percentile(histogram: list[tuple[float, int]], share: float) -> float | None:
    """Milliseconds below which ``share`` (0..1) of the events lie; None without events.

    A bucket is 2.5 % wide, so that is the error's bound.
    """
    total = sum(count for _, count in histogram)
    cumulated = 0
    for ms, count in histogram:
        cumulated += count
        if total and cumulated >= share * total:
            return ms
    return None


def reason(output: str) -> str:
    """The line in which sysbench says why it ended: its last FATAL, else its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("FATAL", "ALERT", "PANIC"))]
    return (fatal or lines or ["it printed nothing"])[-1]
