"""What a campaign and its report say of a trace, without the trace itself."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dballoc import readers
from dballoc.experiment.model import TraceReplay
from dballoc.process_memory.identify_malloc import find_catalogue_name
from dballoc.trace.model import NONE, Trace

# A trace comes from strangers: more of its words than this are not shown.
_LONGEST_NAME = 100
_MOST_MARKS = 10_000


@dataclass(frozen=True, kw_only=True)
class SummaryMark:
    """A mark of the trace: ``t`` in seconds since the trace began, ``truth`` in bytes."""

    t: float
    name: str
    truth: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class TraceSummary:
    """A trace in figures: ``program``: its file's name; ``allocator``: the catalogue's name of its
    malloc, or its file's; ``seconds`` as recorded, ``peak_live`` in bytes as asked for; the rest as
    in :class:`dballoc.trace.model.RecordingFacts`.
    """

    program: str
    allocator: str
    seconds: float
    events: int
    threads: int
    peak_live: int
    from_start: bool
    dropped: int
    ended_by: str
    not_seen: tuple[str, ...]
    marks: tuple[SummaryMark, ...]


def summarize_trace(trace: Trace) -> TraceSummary:
    """Return a trace in figures; its words made printable, and bounded."""
    facts = trace.facts
    return TraceSummary(
        program=_show(Path(facts.program).name),
        allocator=_show(name_malloc(facts.allocator)),
        seconds=facts.seconds,
        events=sum(len(thread.kind) for thread in trace.threads),
        threads=len(trace.threads),
        peak_live=find_peak_live(trace),
        from_start=facts.from_start,
        dropped=facts.dropped,
        ended_by=_show(facts.ended_by),
        not_seen=tuple(_show(text) for text in facts.not_seen[:20]),
        marks=tuple(
            SummaryMark(t=m.time / 1e9, name=_show(m.name), truth=dict(m.truth))
            for m in trace.marks[:_MOST_MARKS]
        ),
    )


def name_malloc(library: str) -> str:
    """Return the catalogue's name of the malloc in a ``library``, or else the file's name."""
    return find_catalogue_name(library) or Path(library).name


def find_peak_live(trace: Trace) -> int:
    """Return the most bytes that were allocated and not yet freed, as they were asked for."""
    sizes = trace.objects.size.astype(np.int64)
    times, changes = [], []
    for thread in trace.threads:
        born, freed = thread.object != NONE, thread.freed != NONE
        times += [thread.completed[born], thread.time[freed]]
        changes += [sizes[thread.object[born]], -sizes[thread.freed[freed]]]
    if not times:
        return 0
    time, change = np.concatenate(times), np.concatenate(changes)
    # At equal times what is freed comes first.
    order = np.lexsort((change, time))
    live = np.cumsum(change[order])
    return int(max(0, live.max(initial=0)))


def describe_replay(summary: TraceSummary, replay: TraceReplay) -> dict[str, Any]:
    """Return the fact ``replay`` of the results: the trace, and how it is replayed."""
    return {
        "trace": Path(replay.trace).name,
        "sha256": replay.sha256,
        "mode": replay.mode,
        "speed": replay.speed,
        "touch": replay.touch,
        "window": replay.window,
        **asdict(summary),
    }


def _show(text: str) -> str:
    shortened = readers.printable(text[:_LONGEST_NAME])
    return "".join(letter if letter.isprintable() else "?" for letter in shortened)
