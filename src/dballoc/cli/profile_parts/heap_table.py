"""The report of ``dballoc profile heap`` on a terminal."""

from collections.abc import Sequence

from rich.text import Text

from dballoc.cli.profile_parts.heap_report import FUNCTION, HeapReport
from dballoc.cli.shared.safe_output import Console, safe
from dballoc.document.terminal import start_list
from dballoc.profile.amounts import format_amount, format_signed_amount
from dballoc.profile.heap import heap_profile, malloc_latency
from dballoc.profile.heap.heap_profile import FunctionGrowth


def print_report(console: Console, report: HeapReport, max_rows: int, times: bool) -> None:
    """Print the report as tables of ``max_rows`` at most; ``times``: also of the time in malloc
    and free.
    """
    live, last = report.live, report.snapshot
    console.print(
        Text(
            f"{safe(report.name)} (process {report.pid}): {format_amount(live.bytes, 'bytes')} ± "
            f"{format_amount(live.error, 'bytes')} alive in "
            f"{format_amount(live.objects, 'objects')} ± "
            f"{format_amount(live.objects_error, 'objects')} blocks",
            style="bold",
        )
    )
    sampling = (
        f"one sample in {format_amount(last.interval, 'bytes')}"
        if last.interval
        else "not sampled any more"
    )
    console.print(
        f"{sampling}, {live.samples:,} samples alive; probe loaded {last.now - last.began:,.0f} s "
        f"ago, sums since {last.now - last.reset:,.0f} s ago; {last.complete:.1%} of the stacks "
        f"complete, {report.named:.1%} of the frames named"
    )
    _print_spent(console, report.spent)
    console.print()
    _print_rows(console, report, max_rows)
    if report.growth:
        console.print()
        _print_growth(console, report.growth, max_rows)
    if times:
        console.print()
        _print_times(console, report.times)
        console.print()
        _print_time_of(console, report.time_of, max_rows)
    print_notes(console, report)


def print_notes(console: Console, report: HeapReport) -> None:
    """Print the files that were written, and what a reader must know."""
    for path in report.files:
        console.print(Text(f"· {path}", style="dim"))
    for note in report.notes:
        console.print(Text(f"· {safe(note)}", style="dim"))


def _print_spent(console: Console, spent: malloc_latency.LatencySummary) -> None:
    if not spent.timed:
        return
    share = f", {spent.share:.1%} of the process's CPU" if spent.share is not None else ""
    console.print(
        f"in malloc and free: {spent.seconds:,.1f} s{share}; {spent.stalls:,} calls of more than "
        f"{malloc_latency.STALL_NANOSECONDS // 1000} µs waited {spent.stalled_seconds:,.1f} s "
        f"({spent.timed:,} calls timed)"
    )


def _print_rows(console: Console, report: HeapReport, max_rows: int) -> None:
    by_function = report.by == FUNCTION
    allocated = ("allocated",) if by_function else ()
    headings = ("alive", "±", "share", "blocks", "samples", *allocated, report.by)
    table = start_list(headings, {report.by})
    live_bytes = report.live.bytes or 1.0
    for row in report.rows[:max_rows]:
        cells = [
            format_amount(row.live.bytes, "bytes"),
            format_amount(row.live.error, "bytes"),
            f"{row.live.bytes / live_bytes:.1%}",
            format_amount(row.live.objects, "objects"),
            f"{row.live.samples:,}",
        ]
        table.add_row(
            *cells,
            *([format_amount(row.allocated, "bytes")] if by_function else []),
            _format_name(row.name, row.module),
        )
    console.print(table)
    if len(report.rows) > max_rows:
        console.print(
            Text(f"and {len(report.rows) - max_rows} more; --rows shows them", style="dim")
        )
    if report.attributed is not None:
        console.print(f"attributed: {report.attributed:.1%} of the live bytes")


def _print_growth(console: Console, growth: Sequence[FunctionGrowth], max_rows: int) -> None:
    console.print(Text("what grew since the first snapshot, the surest growth first", style="bold"))
    table = start_list(("growth", "±", "alive now", "blocks", FUNCTION), {FUNCTION})
    for row in growth[:max_rows]:
        change = row.change
        table.add_row(
            format_signed_amount(change.bytes, "bytes"),
            format_amount(change.error, "bytes"),
            format_amount(row.after, "bytes"),
            format_signed_amount(change.objects, "objects"),
            _format_name(row.name, row.module),
        )
    console.print(table)


def _print_times(console: Console, rows: Sequence[malloc_latency.SizeLatency]) -> None:
    table = start_list(("", "bytes", "calls", "mean", "p50", "p99", "longest timed"))
    for row in rows:
        spans = (row.mean, row.p50, row.p99, row.longest)
        sizes = f"{row.sizes[0]:,} to {row.sizes[1] - 1:,}" if row.sizes[0] else "0"
        table.add_row(
            row.operation,
            sizes,
            f"{row.calls:,}",
            *(format_amount(ns / 1e9, "seconds") for ns in spans),
        )
    console.print(table)


def _print_time_of(console: Console, rows: Sequence[heap_profile.TimeSpent], max_rows: int) -> None:
    headings = ("in malloc and free", "of all", "stalled", "of all", FUNCTION)
    table = start_list(headings, {FUNCTION})
    short, stalled = (
        sum(getattr(row, name) for row in rows) or 1.0 for name in ("seconds", "stalled")
    )
    for row in rows[:max_rows]:
        table.add_row(
            format_amount(row.seconds, "seconds"),
            f"{row.seconds / short:.1%}",
            format_amount(row.stalled, "seconds"),
            f"{row.stalled / stalled:.1%}",
            _format_name(row.name, row.module),
        )
    console.print(table)


def _format_name(name: str, module: str) -> Text:
    name, module = safe(name), safe(module)
    return (
        Text(f"{name}  ", overflow="fold").append(module, style="dim")
        if module
        else Text(name, overflow="fold")
    )
