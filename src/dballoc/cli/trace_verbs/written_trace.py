"""Write the trace that a verb made, and say so; flags that several verbs share."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from dballoc.cli.shared.safe_output import say
from dballoc.errors import Failure, UsageError
from dballoc.numbers import count, with_unit
from dballoc.trace.model import Trace
from dballoc.trace.trace_file.check_trace import InvalidTrace, check_sizes
from dballoc.trace.trace_file.layout import SUFFIX
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
