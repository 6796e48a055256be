"""``dballoc trace cut``: a stretch of a trace."""

from typing import Annotated

import typer

from dballoc.cli.trace_verbs.written_trace import (
    OutFlag,
    TraceArgument,
    last_time,
    write_and_tell,
)
from dballoc.errors import UsageError
from dballoc.trace.changes.cut_trace import cut_trace
from dballoc.trace.changes.moments import Moment, find_moment, parse_moment
from dballoc.trace.changes.trace_parts import get_duration
from dballoc.trace.trace_file.read_trace import read_trace


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
