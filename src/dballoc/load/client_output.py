"""Read a client's output: sysbench's with our hook, or HammerDB's driver's. Pure but for opening
the file.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dballoc.ground import readers

_BUCKET = re.compile(r"^\s*(\d{1,12}\.\d{1,12}) \|\**\s+(\d{1,15})\s*$", re.MULTILINE | re.ASCII)
# The most bytes that one read of a growing file takes: more than a load of months would write.
_MOST = 256 * readers.MIB


@dataclass(frozen=True, kw_only=True)
class IntervalReport:
    """A report of the hook. ``clock``: CLOCK_MONOTONIC at its end; latency in seconds, None where
    the client reports none; counts are those within the interval.
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
        """Return the events per second."""
        return self.events / self.seconds

    @property
    def qps(self) -> float:
        """Return the statements per second."""
        return self.queries / self.seconds


@dataclass(frozen=True, kw_only=True)
class Total:
    """Totals of the whole run. Latencies in seconds, None where the client reports none."""

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
    """Convert a latency to the store's unit."""
    return None if seconds is None else seconds * 1e3


class Follower:
    """Reads a growing file of JSON lines, complete lines only.

    sysbench calls its report hooks from two threads, and from both at once when a run ends just as
    a report is due; about one run in some thousand has two lines with the same clock. A line that
    cannot be parsed, or is no later than the one before, is left out.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.total: Total | None = None
        self._offset = 0
        self._last = -math.inf

    def new(self) -> Iterator[IntervalReport]:
        """Return the intervals written since the last call."""
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
                case IntervalReport() as interval if interval.clock > self._last:
                    self._last = interval.clock
                    yield interval


def _read(line: bytes) -> IntervalReport | Total | None:
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
        return IntervalReport(
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
    """Parse a time that a clock can show. ValueError, TypeError."""
    if isinstance(value, bool) or not 0 <= value < 1e12:
        raise ValueError(value)
    return value


def _above(seconds: float) -> float:
    """Parse a number of seconds that can be a divisor. ValueError."""
    if seconds < 1e-9:
        raise ValueError(seconds)
    return seconds


def _count(value: float) -> int:
    return int(_seconds(value))


def _latency(value: float | None) -> float | None:
    return None if value is None else _seconds(value)


def parse_histogram(output: str) -> list[tuple[float, int]]:
    """Parse sysbench's ``--histogram`` into (milliseconds, count) per bucket; a bucket's value is
    its upper bound. sysbench prints three decimals, so narrow buckets below 0.05 ms have equal
    values; these are added up.
    """
    _, _, rest = output.partition("Latency histogram")
    buckets: dict[float, int] = {}
    for ms, count in _BUCKET.findall(rest):
        buckets[float(ms)] = buckets.get(float(ms), 0) + int(count)
    return list(buckets.items())


def percentile(histogram: list[tuple[float, int]], share: float) -> float | None:
    """Return the milliseconds below which ``share`` (0..1) of the events lie; None without events.
    A bucket is 2.5 % wide, which bounds the error.
    """
    total = sum(count for _, count in histogram)
    cumulated = 0
    for ms, count in histogram:
        cumulated += count
        if total and cumulated >= share * total:
            return ms
    return None


def reason(output: str) -> str:
    """Return the line that says why sysbench ended: its last FATAL, else its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("FATAL", "ALERT", "PANIC"))]
    return (fatal or lines or ["it printed nothing"])[-1]
