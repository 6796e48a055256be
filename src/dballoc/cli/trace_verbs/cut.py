"""``dballoc trace cut``: a stretch of a trace."""

from typing import Annotated

import typer

from dballoc.cli.shared.size_and_duration_flags import duration
from dballoc.cli.trace_verbs.written_trace import (
    OutFlag,
    TraceArgument,
    last_time,
    write_and_tell,
)
from dballoc.errors import UsageError
from dballoc.trace.changes.cut_trace import cut_trace
from dballoc.trace.changes.trace_parts import get_duration
from dballoc.trace.trace_file.read_trace import read_trace


def cut(
    trace: TraceArgument,
    out: OutFlag,
    begin: Annotated[
        str, typer.Option("--from", metavar="DURATION", help="Since the trace's begin, like 10s.")
    ] = "0s",
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="DURATION", help="Like 60s; default: the trace's end."),
    ] = None,
) -> None:
    """Cut a stretch out of a trace, so that it can be replayed alone: what was alive when it begins
    is allocated first.
    """
    first = round(duration(begin, "--from") * 1e9)
    last = None if end is None else round(duration(end, "--to") * 1e9)
    source = read_trace(trace)
    if last is None:
        last = get_duration(source)
    if not first < last:
        raise UsageError(f"--from {begin}: is not before the stretch's end, {last / 1e9:,.6g} s")
    if first > last_time(source):
        raise UsageError(
            f"--from {begin}: the last event of {trace} is at {last_time(source) / 1e9:,.6g} s"
        )
    write_and_tell(cut_trace(source, first, last), out)
