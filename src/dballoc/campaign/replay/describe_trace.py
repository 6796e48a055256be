"""What a campaign and its report say of a trace, without the trace itself."""

import itertools
from pathlib import Path

import numpy as np

from dballoc.allocators.tunables import find_settings_in_environment
from dballoc.catalogue import allocators
from dballoc.experiment.model import TraceReplay
from dballoc.ground import readers
from dballoc.process.malloc.identify_malloc import find_catalogue_name
from dballoc.store.replay_facts import RecordedMark, RecordedTrace, ReplayFacts
from dballoc.trace.figures.live_curve import compute_peaks
from dballoc.trace.figures.size_classes import count_touched_bytes
from dballoc.trace.model import Trace
from dballoc.trace.recording.read_recording import LOST_END
from dballoc.trace.replay.thread_births import count_threads_at_once

# A trace comes from strangers: only so many characters of a text of it are shown.
_LONGEST_NAME = 100
_MOST_MARKS, _MOST_SETTINGS = 10_000, 100


def describe_trace(trace: Trace) -> RecordedTrace:
    """Return a trace in figures; its words made printable, and bounded."""
    facts, compiled = trace.facts, trace.compiled
    sizes = trace.objects.size.astype(np.int64)
    name = name_malloc(facts.allocator)
    peak_live, peak_touched = compute_peaks(trace, sizes, count_touched_bytes(trace))
    return RecordedTrace(
        program=_show(Path(facts.program).name),
        allocator=_show(name),
        allocator_version=_show(facts.allocator_version),
        settings=None if facts.settings is None else _list_settings(name, facts.settings),
        seconds=facts.seconds,
        events=sum(len(thread.kind) for thread in trace.threads),
        threads=len(trace.threads),
        peak_live=peak_live,
        peak_touched=peak_touched,
        threads_at_once=count_threads_at_once(trace),
        from_start=facts.from_start,
        dropped=facts.dropped,
        ended_by=_show(facts.ended_by),
        unknown_frees=compiled.unknown_frees,
        double_frees=compiled.double_frees,
        missed_frees=compiled.missed_frees,
        has_lost_end=any(note.startswith(LOST_END) for note in facts.not_seen),
        not_seen=tuple(_show(text) for text in facts.not_seen[:20]),
        marks=tuple(
            RecordedMark(t=m.time / 1e9, name=_show(m.name), truth=dict(m.truth))
            for m in trace.marks[:_MOST_MARKS]
        ),
    )


def name_malloc(library: str) -> str:
    """Return the catalogue's name of the malloc in a ``library``, or else the file's name."""
    return find_catalogue_name(library) or Path(library).name


def _list_settings(name: str, variables: tuple[str, ...]) -> dict[str, str]:
    """Return a malloc's settings by name; none of a malloc that the catalogue does not know."""
    if name not in allocators():
        return {}
    environment = dict(v.partition("=")[::2] for v in variables[:_MOST_SETTINGS])
    settings = find_settings_in_environment(name, environment)
    return {
        _show(key): _show(value)
        for key, value in itertools.islice(settings.items(), _MOST_SETTINGS)
    }


def describe_replay(
    recorded: RecordedTrace,
    replay: TraceReplay,
    decaying: tuple[str, ...],
    recorded_variant: str | None,
) -> ReplayFacts:
    """Return what the results say of the trace, and of how it is replayed. ``decaying``: the
    variants whose malloc gives memory back by the clock; ``recorded_variant``: the one whose malloc
    is the recorded one.
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
        recorded_variant=recorded_variant,
    )


def _show(text: str) -> str:
    return readers.one_line(readers.printable(text[:_LONGEST_NAME]))
