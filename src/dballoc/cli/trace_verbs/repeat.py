"""``dballoc trace repeat``: a long trace from stretches."""

from pathlib import Path
from typing import Annotated

import typer

from dballoc.cli.shared.safe_output import safe
from dballoc.cli.trace_verbs.written_trace import OutFlag, write_and_tell
from dballoc.errors import UsageError
from dballoc.trace.changes.compose_traces import Leftovers, Stretch, compose_traces, count_events
from dballoc.trace.changes.cut_trace import cut_trace
from dballoc.trace.changes.day_file import MOST_TIMES, Day, StretchRow, read_day
from dballoc.trace.changes.moments import find_moment
from dballoc.trace.changes.trace_parts import get_duration
from dballoc.trace.model import Trace
from dballoc.trace.trace_file.read_trace import LIMITS, read_trace


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
