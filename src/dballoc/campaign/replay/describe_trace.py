"""What a campaign and its report say of a trace, without the trace itself."""

from pathlib import Path

from dballoc import readers
from dballoc.analysis.replay.replay_facts import RecordedMark, RecordedTrace, ReplayFacts
from dballoc.experiment.model import TraceReplay
from dballoc.process_memory.identify_malloc import find_catalogue_name
from dballoc.trace.figures.live_curve import compute_live_curve
from dballoc.trace.model import Trace

# A trace comes from strangers: more of its words than this are not shown.
_LONGEST_NAME = 100
_MOST_MARKS = 10_000


def describe_trace(trace: Trace) -> RecordedTrace:
    """Return a trace in figures; its words made printable, and bounded."""
    facts = trace.facts
    return RecordedTrace(
        program=_show(Path(facts.program).name),
        allocator=_show(name_malloc(facts.allocator)),
        seconds=facts.seconds,
        events=sum(len(thread.kind) for thread in trace.threads),
        threads=len(trace.threads),
        peak_live=compute_live_curve(trace).peak_bytes,
        from_start=facts.from_start,
        dropped=facts.dropped,
        ended_by=_show(facts.ended_by),
        not_seen=tuple(_show(text) for text in facts.not_seen[:20]),
        marks=tuple(
            RecordedMark(t=m.time / 1e9, name=_show(m.name), truth=dict(m.truth))
            for m in trace.marks[:_MOST_MARKS]
        ),
    )


def name_malloc(library: str) -> str:
    """Return the catalogue's name of the malloc in a ``library``, or else the file's name."""
    return find_catalogue_name(library) or Path(library).name


def describe_replay(
    recorded: RecordedTrace, replay: TraceReplay, decaying: tuple[str, ...]
) -> ReplayFacts:
    """Return what the results say of the trace, and of how it is replayed. ``decaying``: the
    variants whose malloc gives memory back by the clock.
    """
    return ReplayFacts(
        **vars(recorded),
        trace=Path(replay.trace).name,
        sha256=replay.sha256,
        mode=replay.mode,
        speed=replay.speed,
        touch=replay.touch,
        window=replay.window,
        decaying=decaying,
    )


def _show(text: str) -> str:
    shortened = readers.printable(text[:_LONGEST_NAME])
    return "".join(letter if letter.isprintable() else "?" for letter in shortened)
