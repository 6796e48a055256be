"""``dballoc trace info`` and ``verify``: what is in a trace, and whether it is whole."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.text import Text

from dballoc.cli.explain_parts.text_plot import draw_plot
from dballoc.cli.shared.safe_output import Console, print_json, safe, say
from dballoc.cli.trace_verbs.make_trace import TraceArgument, list_notes
from dballoc.document.terminal import start_list
from dballoc.ground.errors import Failure
from dballoc.ground.files.output_directory import OutputDirectory
from dballoc.ground.numbers import percent, with_unit
from dballoc.profile.amounts import format_amount
from dballoc.trace.figures.live_curve import find_highs, sample_curve
from dballoc.trace.figures.size_classes import SizeClass
from dballoc.trace.figures.trace_summary import TraceSummary, summarise_trace
from dballoc.trace.model import Trace
from dballoc.trace.recording.read_recording import is_recording, verify_recording
from dballoc.trace.trace_file.read_trace import read_trace, verify_trace

_HEIGHT = 8
_POINTS = 500


def info(
    trace: TraceArgument,
    rows: Annotated[int, typer.Option(help="Lines of each table.", min=1)] = 12,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
    chart: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the curve of what is alive there, as SVG and PNG."),
    ] = None,
) -> None:
    """Show what is in a trace: events, threads, memory alive over time, sizes, lifetimes, blocks
    that change threads.
    """
    source = read_trace(trace)
    summary = summarise_trace(source)
    if chart is not None:
        _write_chart(source, summary, trace.name, chart)
    if as_json:
        print_json(make_document(source, summary))
        return
    console = Console(highlight=False)
    _print_facts(console, source, summary)
    _print_curve(console, source, summary)
    _print_sizes(console, summary.sizes, rows)
    _print_handovers(console, source, summary, rows)
    for note in list_notes(source):
        console.print(f"· {note}", style="dim")


def _write_chart(trace: Trace, summary: TraceSummary, name: str, directory: Path) -> None:
    """Write the chart of the live curve. Raises Failure if it cannot be written."""
    # What draws takes a second to import.
    from dballoc.campaign.replay.describe_trace import describe_trace
    from dballoc.document.chart_files import write_chart
    from dballoc.questions.replay.charts import draw_live_curve

    ends, highs = find_highs(summary.curve, _POINTS)
    figure = draw_live_curve(
        list(zip((ends / 1e9).tolist(), highs.tolist(), strict=True)),
        [(mark.time / 1e9, mark.name) for mark in trace.marks],
        trace.facts.dropped,
    )
    try:
        # The files have no caption.
        origin = "; ".join([name, *describe_trace(trace).flaws])
        with OutputDirectory.open(directory, "--chart") as charts:
            write_chart(figure, safe(origin), charts)
    except OSError as error:
        raise Failure(f"--chart {directory}: cannot be written: {error.strerror}") from None


def make_document(trace: Trace, summary: TraceSummary) -> dict[str, Any]:
    """Return all figures, in bytes and seconds, for JSON. Pure."""
    facts, curve, handovers = trace.facts, summary.curve, summary.handovers
    ends, highs = find_highs(curve, _POINTS)
    return {
        "events": summary.events,
        "kinds": summary.kinds,
        "seconds": summary.seconds,
        "recorded_seconds": facts.seconds,
        "program": facts.program,
        "allocator": facts.allocator,
        "allocator_version": facts.allocator_version,
        "settings": facts.settings,
        "page_size": facts.page_size,
        "from_start": facts.from_start,
        "dropped": facts.dropped,
        "ended_by": facts.ended_by,
        "threads": [
            {
                "number": thread.number,
                "name": thread.name,
                "created_by": thread.created_by,
                "events": len(thread.kind),
            }
            for thread in trace.threads
        ],
        "objects": len(trace.objects.size),
        "peak": {"bytes": curve.peak_bytes, "seconds": curve.peak_time / 1e9},
        "end": {
            "bytes": summary.lifetimes.survivor_bytes,
            "blocks": summary.lifetimes.survivors,
        },
        "live": {"seconds": [t / 1e9 for t in ends.tolist()], "highest_bytes": highs.tolist()},
        "sizes": [vars(row) for row in summary.sizes],
        "lifetimes": vars(summary.lifetimes),
        "frees": {
            "known": handovers.frees,
            "by_another_thread": handovers.foreign,
            "bytes_by_another_thread": handovers.bytes,
            "unknown": trace.compiled.unknown_frees,
            "double": trace.compiled.double_frees,
            "missed": trace.compiled.missed_frees,
        },
        "handovers": [vars(pair) for pair in handovers.pairs[:1000]],
        "large_blocks": vars(summary.touched),
        "marks": [
            {
                "seconds": mark.time / 1e9,
                "name": mark.name,
                "live_bytes": int(sample_curve(curve, np.array([mark.time]))[0]),
                "truth": dict(mark.truth),
            }
            for mark in trace.marks
        ],
        "compiled": vars(trace.compiled),
        "notes": list_notes(trace),
    }


def _print_facts(console: Console, trace: Trace, summary: TraceSummary) -> None:
    facts, lifetimes = trace.facts, summary.lifetimes
    rate = f", {summary.events / summary.seconds:,.0f} a second" if summary.seconds else ""
    malloc = " ".join(filter(None, [facts.allocator or "some malloc", facts.allocator_version]))
    console.print(
        f"{facts.program or 'a program without a name'} on {malloc}: "
        f"{summary.events:,} events of {len(trace.threads):,} threads in "
        f"{format_amount(summary.seconds, 'seconds')}{rate}",
        style="bold",
    )
    console.print(
        f"peak {with_unit(summary.curve.peak_bytes)} alive at "
        f"{format_amount(summary.curve.peak_time / 1e9, 'seconds')}; at the end "
        f"{with_unit(lifetimes.survivor_bytes)} in {lifetimes.survivors:,} blocks; "
        f"ended by: {facts.ended_by}"
    )
    kinds = ", ".join(f"{name} {count:,}" for name, count in summary.kinds.items() if count)
    console.print(f"{kinds}; {facts.dropped:,} dropped")
    if facts.settings:
        console.print(f"environment: {', '.join(facts.settings)}")
    if lifetimes.p50 is not None and lifetimes.p99 is not None and lifetimes.longest is not None:
        console.print(
            f"lifetimes: half of the blocks up to {format_amount(lifetimes.p50, 'seconds')}, "
            f"99 % up to {format_amount(lifetimes.p99, 'seconds')}, the longest that was freed "
            f"{format_amount(lifetimes.longest, 'seconds')}"
        )
    touched = summary.touched
    if touched.blocks:
        console.print(
            f"large blocks (8 KiB and more): {touched.blocks:,} with {with_unit(touched.bytes)}, "
            f"{percent(touched.touched / touched.bytes)} of it touched"
        )


def _print_curve(console: Console, trace: Trace, summary: TraceSummary) -> None:
    if not len(summary.curve.time):
        return
    ends, highs = find_highs(summary.curve, max(20, min(console.width, 100) - 16))
    console.print()
    console.print("alive over time, the highest of each column", style="bold")
    lines = draw_plot(
        [0.0, *(ends / 1e9)],
        [highs[0] / 2**20, *(highs / 2**20)],
        min(console.width, 100),
        _HEIGHT,
        "MiB",
    )
    for line in lines:
        console.print(line, no_wrap=True, crop=False)
    for mark in trace.marks[:20]:
        console.print(f"  {format_amount(mark.time / 1e9, 'seconds'):>8}  {mark.name}")
    if len(trace.marks) > 20:
        console.print(f"  and {len(trace.marks) - 20:,} more marks")


def _print_sizes(console: Console, sizes: tuple[SizeClass, ...], rows: int) -> None:
    columns = ("bytes", "allocations", "of all bytes", "at the peak", "blocks", "lives p50", "p99")
    table = start_list(columns)
    total = sum(row.bytes for row in sizes) or 1
    shown = sorted(sorted(sizes, key=lambda row: -row.bytes)[:rows], key=lambda row: row.smallest)
    for row in shown:
        lives = [
            "" if seconds is None else format_amount(seconds, "seconds")
            for seconds in (row.lifetime_p50, row.lifetime_p99)
        ]
        table.add_row(
            Text(f"to {row.largest:,}", no_wrap=True),
            f"{row.allocations:,}",
            percent(row.bytes / total),
            with_unit(row.peak_bytes),
            f"{row.peak_blocks:,}",
            *lives,
        )
    console.print()
    console.print(table)
    if len(shown) < len(sizes):
        console.print(f"and {len(sizes) - len(shown)} more; --rows shows them", style="dim")


def _print_handovers(console: Console, trace: Trace, summary: TraceSummary, rows: int) -> None:
    handovers = summary.handovers
    console.print()
    share = percent(handovers.foreign / handovers.frees) if handovers.frees else "none"
    console.print(
        f"freed by another thread: {handovers.foreign:,} blocks, {share} of the frees", style="bold"
    )
    if not handovers.pairs:
        return
    names = ("allocated by", "freed by")
    table = start_list(("blocks", "bytes", *names), names)
    for pair in handovers.pairs[: min(rows, 8)]:
        threads = [trace.threads[index] for index in (pair.allocated_by, pair.freed_by)]
        named = [f"{thread.number} {thread.name}".strip() for thread in threads]
        table.add_row(f"{pair.blocks:,}", with_unit(pair.bytes), *named)
    console.print(table)


def verify(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A trace (.trace), or a raw recording.")
    ],
) -> None:
    """Check that a trace or a raw recording is whole, and say how far it is if it is not."""
    if is_recording(file):
        _verify_recording(file)
        return
    condition = verify_trace(file)
    if condition.complaint:
        raise Failure(
            f"{file}: {condition.complaint}; whole are its first {condition.blocks:,} blocks, "
            f"{condition.bytes:,} bytes, with {condition.events:,} of {condition.declared:,} events"
        )
    say(
        f"{file}: whole: {condition.events:,} events in {condition.blocks:,} blocks, "
        f"{condition.bytes:,} bytes; every checksum is right, and no block is freed twice or too "
        "early"
    )


def _verify_recording(file: Path) -> None:
    condition = verify_recording(file)
    extent = (
        f"{condition.events:,} events in {condition.chunks:,} chunks, {condition.bytes:,} bytes"
    )
    if condition.complaint:
        raise Failure(
            f"{file}: {condition.complaint}; whole are its first {condition.chunks:,} chunks: "
            f"{extent}; dballoc trace compile uses them"
        )
    end = (
        "the program was killed, or still runs"
        if condition.ended_by == "unknown"
        else f"ended by: {condition.ended_by}"
    )
    say(f"{file}: a raw recording, whole: {extent}; {condition.dropped:,} events dropped; {end}")
