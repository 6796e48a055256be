"""The engine's JSON document as figures. Pure."""

import json
from typing import Any

from dballoc import readers
from dballoc.errors import Failure
from dballoc.trace.replay.replay_result import (
    OPERATIONS,
    OperationFigures,
    ReplayCurve,
    ReplayFault,
    ReplayFigures,
    ReplayMoment,
    ThreadFigures,
    WaitFigures,
)

# Samples above this share of them are cut to it for the time in malloc: in one of ten thousand, the
# thread lost its CPU in between, and that is the other threads' time.
_CUT = 0.999


def parse_fault(text: str) -> ReplayFault | None:
    """Parse what the engine says of a replay that it ended itself, as it came to no end; None if it
    says nothing of that kind.
    """
    try:
        fault = json.loads(text)["fault"]
        return ReplayFault(kind="hang", text=readers.printable(fault["text"]))
    except (ValueError, KeyError, TypeError):
        return None


def find_failed_allocations(figures: ReplayFigures) -> ReplayFault | None:
    """Return the fault of a malloc that has returned no memory; None if it always has."""
    if not figures.failed:
        return None
    return ReplayFault(
        kind="no memory",
        text=f"{figures.failed} allocations returned no memory, the first of "
        f"{figures.failed_size} bytes",
    )


def parse_figures(text: str, engine_memory: int, marks: tuple[str, ...]) -> ReplayFigures:
    """Parse the engine's document. ``engine_memory``: anonymous bytes of the engine itself, taken
    off every heap; ``marks``: their names. Failure if it is none.
    """
    try:
        document = json.loads(text)
        return _make_figures(document, engine_memory, marks)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise Failure(f"the replay's engine printed no figures: {error!r:.200}") from None


def _make_figures(
    document: dict[str, Any], engine_memory: int, marks: tuple[str, ...]
) -> ReplayFigures:
    operations = tuple(_make_operation(row) for row in document["operations"])
    curve = document["curve"]
    peak, end, idle = document["peak"], document["end"], document.get("idle")
    # The sampler may have missed the moment, and left pages out: what was read at marks and at the
    # end is exact.
    highest = max(peak[2], end[2], *(anonymous for _, anonymous, _ in document["marks"]))
    return ReplayFigures(
        events=sum(operation.calls for operation in operations),
        seconds=document["nanoseconds"] / 1e9,
        cpu=document["cpu"] / 1e9,
        malloc_seconds=_sum_malloc_time(operations),
        minor_faults=document["minor_faults"],
        major_faults=document["major_faults"],
        engine_memory=engine_memory,
        peak_heap=_take_off(highest, engine_memory),
        peak_live=document["live_peak"],
        end_heap=_take_off(end[2], engine_memory),
        end_live=end[3],
        idle_heap=_take_off(idle[2], engine_memory) if idle else None,
        failed=document["failed"],
        failed_size=document["failed_size"],
        lateness=document["lateness"] / 1e9,
        clock=document["clock"],
        handover_waits=_make_waits(document["waits"][0]),
        window_waits=_make_waits(document["waits"][1]),
        operations=tuple(operation for operation in operations if operation.calls),
        moments=tuple(
            ReplayMoment(name=name, time=time, heap=_take_off(anonymous, engine_memory), live=live)
            for name, (time, anonymous, live) in zip(marks, document["marks"], strict=True)
        ),
        curve=ReplayCurve(
            time=tuple(point[0] for point in curve),
            seconds=tuple(point[1] / 1e9 for point in curve),
            heap=tuple(_take_off(point[2], engine_memory) for point in curve),
            live=tuple(point[3] for point in curve),
        ),
        live_curve=tuple((time, live) for time, live in document["live_curve"]),
        threads=tuple(
            ThreadFigures(live=row[0], calls=tuple(row[1:])) for row in document["threads"]
        ),
    )


def _take_off(anonymous: int, engine_memory: int) -> int:
    return max(0, anonymous - engine_memory)


def _make_operation(row: list[Any]) -> OperationFigures:
    operation, largest, calls, sampled, nanoseconds, buckets = row
    return OperationFigures(
        operation=OPERATIONS[operation],
        largest=largest or None,
        calls=calls,
        sampled=sampled,
        nanoseconds=nanoseconds,
        buckets=tuple((upper, count) for upper, count in buckets),
    )


def _make_waits(row: list[int]) -> WaitFigures:
    count, nanoseconds, cpu = row
    return WaitFigures(count=count, seconds=nanoseconds / 1e9, cpu=cpu / 1e9)


def _sum_malloc_time(operations: tuple[OperationFigures, ...]) -> float:
    """Estimate the seconds in malloc's functions: of each operation and size class, its calls times
    the mean of its samples, of which the slowest are cut.
    """
    seconds = 0.0
    for operation in operations:
        if not operation.sampled:
            continue
        most = operation.quantile(_CUT) or 0
        cut = sum(min(upper, most) * count for upper, count in operation.buckets)
        seconds += min(operation.nanoseconds, cut) / operation.sampled * operation.calls / 1e9
    return seconds
