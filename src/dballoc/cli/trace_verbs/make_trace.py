"""The verbs of ``dballoc trace`` that write a trace: without names, from a recording, a stretch of
one, from another tool's file, and a long one from stretches. They say what they wrote.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from dballoc.cli.shared.safe_output import safe, say
from dballoc.ground.errors import Failure, UsageError
from dballoc.ground.numbers import count, with_unit
from dballoc.trace.changes.anonymise_trace import LEFT, REMOVED, anonymise_trace
from dballoc.trace.changes.compose_traces import Leftovers, Stretch, compose_traces, count_events
from dballoc.trace.changes.cut_trace import cut_trace
from dballoc.trace.changes.day_file import MOST_TIMES, Day, StretchRow, read_day
from dballoc.trace.changes.moments import Moment, find_moment, parse_moment
from dballoc.trace.changes.trace_parts import get_duration
from dballoc.trace.compilation.compile_recording import RESOLUTION, compile_recording
from dballoc.trace.importers.import_trace import ImportFormat, import_trace
from dballoc.trace.model import Trace
from dballoc.trace.recording.read_recording import read_recording
from dballoc.trace.trace_file.check_trace import InvalidTrace, check_sizes
from dballoc.trace.trace_file.layout import SUFFIX
from dballoc.trace.trace_file.read_trace import LIMITS, read_trace
from dballoc.trace.trace_file.write_trace import write_trace

TraceArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A trace (.trace).")]
OutFlag = Annotated[
    Path, typer.Option("--out", "-o", metavar="FILE", help="The trace to write (.trace).")
]


def write_and_tell(trace: Trace, out: Path) -> None:
    """Write a trace, and print what it holds. Raises UsageError if its name is not a trace's, or it
    cannot be written; Failure if its sizes are beyond what a trace holds.
    """
    if out.suffix != SUFFIX:
        raise UsageError(f"--out {out}: the name of a trace ends in {SUFFIX}")
    try:
        check_sizes(trace.objects)
    except InvalidTrace as error:
        raise Failure(f"{out}: not written: {error}") from None
    size = write_trace(trace, out)
    events = sum(len(thread.kind) for thread in trace.threads)
    each = f", {size / events:.2f} bytes an event" if events else ""
    say(
        f"{out}: {events:,} {'event' if events == 1 else 'events'} of "
        f"{count(len(trace.threads), 'thread')} in {with_unit(size)}{each}"
    )
    for note in list_notes(trace):
        say(f"· {note}")


def list_notes(trace: Trace) -> list[str]:
    """Return sentences on what a trace lacks, and on what was made of the recording. Pure."""
    facts, compiled = trace.facts, trace.compiled
    notes = []
    if not facts.from_start:
        notes.append(
            "recorded from some moment on: what was alive before is not in it, so it gives no "
            "absolute verdict on memory"
        )
    if facts.dropped:
        notes.append(f"{facts.dropped:,} events are missing: every figure is of what is left")
    if not compiled.timed:
        notes.append("its times are not real: they say nothing but the order")
    for number, text in (
        (compiled.unknown_frees, "frees of blocks that it did not see allocated"),
        (compiled.double_frees, "frees of blocks that were free already"),
        (compiled.missed_frees, "frees were missed, and put where the address was used again"),
        (compiled.clock_steps, "stamps ran backwards, and were moved"),
    ):
        if number:
            notes.append(f"{number:,} {text}")
    large = compiled.touched_by_site + compiled.touched_by_size + compiled.touched_by_rule
    if large and compiled.touched_by_rule:
        notes.append(
            f"{compiled.touched_by_rule:,} of the recording's {large:,} large blocks had no sample "
            "of what is touched: whole if they live for a second and longer, else the first 32 KiB"
        )
    if compiled.resolution > 1:
        notes.append(f"times are rounded to {compiled.resolution} ns")
    return [*notes, *(f"not seen: {note}" for note in facts.not_seen), *compiled.history]


def last_time(trace: Trace) -> int:
    """Return when the last event is completed, in ns; 0 if there is none. Pure."""
    return int(
        np.max([thread.completed[-1] for thread in trace.threads if len(thread.kind)], initial=0)
    )


def anonymise(trace: TraceArgument, out: OutFlag) -> None:
    """Remove every name from a trace, to give it to others: of threads, marks and the program.

    A trace never holds what was in memory.
    """
    write_and_tell(anonymise_trace(read_trace(trace)), out)
    say(f"Removed: {REMOVED}")
    say(f"Left: {LEFT}")


def compile_(
    recording: Annotated[
        Path, typer.Argument(metavar="RECORDING", help="A raw recording (.recording).")
    ],
    out: OutFlag,
    resolution: Annotated[
        int,
        typer.Option(
            metavar="NS",
            help="Round times down to multiples of so many nanoseconds; 1 keeps them exact and "
            "makes the file a quarter larger, 100 a quarter smaller.",
            min=1,
            max=1_000_000,
        ),
    ] = RESOLUTION,
    seed: Annotated[
        int,
        typer.Option(help="Of the draw of which pages large blocks touch.", min=0, max=2**32),
    ] = 0,
) -> None:
    """Compile a raw recording to a trace: addresses become numbers, and the file shrinks to a
    quarter.
    """
    source = read_recording(recording)
    write_and_tell(compile_recording(source, resolution, seed), out)


def cut(
    trace: TraceArgument,
    out: OutFlag,
    begin: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="MOMENT",
            help="Since the trace's begin, like 10s, or a mark of it.",
        ),
    ] = "0s",
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="MOMENT", help="Like 60s, or a mark; default: its end."),
    ] = None,
) -> None:
    """Cut a stretch out of a trace, so that it can be replayed alone: what was alive when it begins
    is allocated first.
    """
    moments = _parse(begin, "--from"), None if end is None else _parse(end, "--to")
    source = read_trace(trace)
    first = find_moment(source, moments[0], "--from")
    last = get_duration(source) if moments[1] is None else find_moment(source, moments[1], "--to")
    if not first < last:
        raise UsageError(f"--from {begin}: is not before the stretch's end, {last / 1e9:,.6g} s")
    if first > last_time(source):
        raise UsageError(
            f"--from {begin}: the last event of {trace} is at {last_time(source) / 1e9:,.6g} s"
        )
    write_and_tell(cut_trace(source, first, last), out)


def _parse(text: str, flag: str) -> Moment:
    try:
        return parse_moment(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None


def import_foreign(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of another tool.")],
    out: OutFlag,
    form: Annotated[
        ImportFormat,
        typer.Option(
            "--format",
            help="glibc: the text of mtrace(), or the file of its malloc tracing (trace_run); "
            "android: the text of record_allocs (memory_replay).",
        ),
    ],
) -> None:
    """Make a trace of another tool's file; packed by gzip if its name ends in .gz (text only)."""
    write_and_tell(import_trace(file, form), out)


def repeat(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A trace (.trace), or the stretches of a day (.toml)."),
    ],
    out: OutFlag,
    times: Annotated[
        int | None, typer.Option(help="Of a trace: how often.", min=1, max=MOST_TIMES)
    ] = None,
    days: Annotated[
        int | None,
        typer.Option(
            help="Of the stretches of a day: how many such days follow one another.",
            min=1,
            max=MOST_TIMES,
        ),
    ] = None,
    leftovers: Annotated[
        Leftovers | None,
        typer.Option(
            help="What a stretch leaves alive and the next does not begin with: free it, so that "
            "each begins as it was recorded, or keep it, so that it adds up; default: free.",
        ),
    ] = None,
) -> None:
    """Compose a long trace from recorded stretches: one several times, or a day of dumps, backups
    and load.

    Memory that a stretch begins with takes over what the one before it left alive, size by size.
    """
    if file.suffix == ".toml":
        if times is not None:
            raise UsageError(f"--times: {file} says how often each stretch is repeated")
        day = read_day(file)
        day = day.model_copy(update={"days": day.days if days is None else days})
        traces = {row.trace: file.parent / row.trace for row in day.stretch}
    else:
        if days is not None:
            raise UsageError(f"--days: {file} is a trace, and no day of stretches; give --times")
        if times is None:
            raise UsageError(f"--times: how often is {file} to be repeated?")
        day = Day(stretch=[StretchRow(trace=str(file), times=times, mark=file.stem)])
        traces = {str(file): file}
    sources = {name: read_trace(path) for name, path in traces.items()}
    stretches = [_cut_stretch(row, sources[row.trace]) for row in day.stretch]
    events = day.days * count_events(stretches)
    if events > LIMITS.events:
        raise UsageError(
            f"{file}: comes to {events:,} events; a trace has at most {LIMITS.events:,}"
        )
    write_and_tell(compose_traces(stretches, leftovers or day.leftovers, day.days), out)


def _cut_stretch(row: StretchRow, source: Trace) -> Stretch:
    name = safe(row.trace)
    begin = find_moment(source, row.begin, name)
    end = get_duration(source) if row.end is None else find_moment(source, row.end, name)
    if not begin < end or begin >= get_duration(source):
        raise UsageError(f"{name}: there is nothing from {begin / 1e9:g} s to {end / 1e9:g} s")
    is_complete = begin == 0 and end >= get_duration(source)
    return Stretch(
        name=row.mark or Path(row.trace).stem,
        trace=source if is_complete else cut_trace(source, begin, end),
        times=row.times,
    )
