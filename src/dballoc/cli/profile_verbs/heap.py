"""``dballoc profile heap``: which code holds live memory, what grows, and who owns it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from dballoc import readers
from dballoc.catalogue import wrappers
from dballoc.cli.profile_verbs.massif import (
    THRESHOLD,
    AllocatorsFlag,
    DepthFlag,
    ThresholdFlag,
    TimeUnitFlag,
    make_options,
    print_massif,
)
from dballoc.cli.shared.safe_output import Console, safe
from dballoc.cli.shared.server_flags import LoginPath, Pid, Service, Socket
from dballoc.cli.shared.size_and_duration_flags import duration, size
from dballoc.errors import Failure, UsageError
from dballoc.explain import find_server
from dballoc.profile import flamegraph
from dballoc.profile.amounts import format_amount, format_signed_amount
from dballoc.profile.formats import export
from dballoc.profile.formats.massif import DEPTH
from dballoc.profile.formats.profile_file import save_profile
from dballoc.profile.heap import (
    heap_profile,
    malloc_latency,
    probe_client,
    session_owners,
    snapshot_series,
)
from dballoc.profile.heap.heap_profile import Estimate, FunctionGrowth, HeapRow
from dballoc.profile.heap.probe_client import Probe, SavedSnapshot
from dballoc.profile.heap.probe_snapshot import Snapshot
from dballoc.profile.heap.snapshot_series import ProbedProcess, SnapshotSeries
from dballoc.servers.running import credentials, running_server

_FUNCTION = "function"


@dataclass(kw_only=True)
class _HeapReport:
    """What is printed of a series of snapshots: the last ``snapshot``, the estimate of all its
    ``live`` bytes and its ``rows`` by function or owner, the ``growth`` since the first one;
    ``spent``, ``times`` and ``time_of``: time in malloc and free, in all, by size and by function;
    ``named``: the share of frames with names; ``attributed``: the share of live bytes that have an
    owner, None by function.
    """

    pid: int
    name: str
    snapshot: Snapshot
    live: Estimate
    rows: list[HeapRow]
    growth: list[FunctionGrowth]
    spent: malloc_latency.LatencySummary
    times: list[malloc_latency.SizeLatency]
    time_of: list[heap_profile.TimeSpent]
    named: float
    attributed: float | None
    by: str
    files: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


_OutDir = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The process whose probe listens there.")
]
_SnapshotFile = Annotated[
    Path | None,
    typer.Option(
        "--snapshot", metavar="FILE", help="What a program left at its end (exec --at-exit)."
    ),
]
_Period = Annotated[
    str | None, typer.Option(metavar="TIME", help="Take a snapshot every TIME, and show what grew.")
]
_Count = Annotated[
    int | None,
    typer.Option(metavar="N", help="How many snapshots; default: until Ctrl-C.", min=2),
]
_AtPeak = Annotated[
    bool, typer.Option("--at-peak", help="Also take one at every new peak of live memory.")
]
_By = Annotated[
    str, typer.Option(metavar="WHAT", help="function, user, connection or digest (statement).")
]
_Rows = Annotated[int, typer.Option(metavar="N", help="Lines of a table.", min=1)]
_Interval = Annotated[
    str | None, typer.Option(metavar="SIZE", help="From now on sample one in SIZE bytes.")
]
_Stop = Annotated[
    bool, typer.Option("--stop", help="Afterwards stop sampling, until --interval starts it again.")
]
_Reset = Annotated[
    bool,
    typer.Option("--reset", help="First reset the sums: allocated bytes, time in malloc."),
]
_Times = Annotated[
    bool,
    typer.Option("--times", help="Also show the time in malloc and free, by size and function."),
]
_Out = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Keep profiles and flame graphs there.")
]
_AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
_AsMassif = Annotated[
    bool,
    typer.Option(
        "--massif",
        help="Print the snapshots as massif's ms_print does; see dballoc profile massif.",
    ),
]


def heap_(
    pid: Pid = None,
    socket: Socket = None,
    service: Service = None,
    out_dir: _OutDir = None,
    snapshot_file: _SnapshotFile = None,
    period: _Period = None,
    count: _Count = None,
    at_peak: _AtPeak = False,
    by: _By = _FUNCTION,
    rows: _Rows = 20,
    interval: _Interval = None,
    stop: _Stop = False,
    reset: _Reset = False,
    times: _Times = False,
    login_path: LoginPath = None,
    out: _Out = None,
    as_json: _AsJson = False,
    as_massif: _AsMassif = False,
    threshold: ThresholdFlag = THRESHOLD,
    depth: DepthFlag = DEPTH,
    time_unit: TimeUnitFlag = "ms",
    allocators: AllocatorsFlag = None,
) -> None:
    """Show which code holds live memory in a process under the heap probe, what grows, and which
    sessions own it.

    Start the process with dballoc exec --probe heap --out DIR -- COMMAND. All numbers are estimates
    from samples, with one standard error.
    """
    seconds = _check_flags(by, period, count, at_peak)
    if as_massif and (as_json or by != _FUNCTION):
        raise UsageError("--massif goes neither with --json nor with --by")
    options = make_options(threshold, depth, time_unit, allocators)
    if not as_massif and options != make_options(THRESHOLD, DEPTH, "ms", ()):
        raise UsageError("--threshold, --depth, --time-unit and --alloc-fn only go with --massif")
    new_interval = size(interval, "--interval") if interval is not None else None
    if snapshot_file is None:
        probe = _find_probe(out_dir, pid, socket, service)
        process = _begin_sampling(probe, new_interval, reset)
    else:
        live = (pid, socket, service, out_dir, period, interval, reset or None, stop or None)
        process = _read_saved_snapshot(snapshot_file, by, any(flag is not None for flag in live))
    series = snapshot_series.take_series(
        process, seconds, count, at_peak, _make_progress_printer(as_json, seconds is not None)
    )
    if stop:
        process.stop_sampling()
    report = _make_report(process, series, by, login_path)
    if out is not None:
        report.files = _save_profiles(series, report, out)
    if as_json:
        print(json.dumps(_make_document(report), indent=1))
    elif as_massif:
        print_massif(series.profiles_with_peak, heap_profile.LIVE, options)
        _print_notes(Console(), report)
    else:
        _print_report(Console(), report, rows, times)


def _check_flags(by: str, period: str | None, count: int | None, at_peak: bool) -> float | None:
    """Return the period in seconds, None without. UsageError for flags that do not fit."""
    if by != _FUNCTION and by not in session_owners.FIND_OWNER:
        raise UsageError(f"--by {by}: must be function, user, connection or digest")
    if (count or at_peak) and period is None:
        raise UsageError("--count and --at-peak need --period too, like --period 10s")
    seconds = duration(period, "--period") if period is not None else None
    if seconds is not None and seconds < 0.1:
        raise UsageError(f"--period {period}: must be at least 100ms")
    return seconds


def _find_probe(
    out_dir: Path | None, pid: int | None, socket: str | None, service: str | None
) -> Probe:
    """Find the probe that the options name. UsageError if they contradict each other, or there is
    no such probe.
    """
    if out_dir is None:
        return probe_client.find_probe_of_process(find_server.find_server_pid(pid, socket, service))
    if any(option is not None for option in (pid, socket, service)):
        raise UsageError("give --out-dir, or one of --pid, --socket and --service")
    return probe_client.find_probe_in_directory(out_dir)


def _begin_sampling(probe: Probe, interval: int | None, reset: bool) -> ProbedProcess:
    if interval is not None:
        probe.set_interval(interval)
    if reset:
        probe.reset()
    return ProbedProcess(probe, _read_process_name(probe.pid))


def _read_saved_snapshot(path: Path, by: str, asks_live_process: bool) -> ProbedProcess:
    """Return the process that left a snapshot. UsageError if more is asked than that can tell."""
    if asks_live_process or by != _FUNCTION:
        raise UsageError("--snapshot is of a program that has ended: no flag that asks it fits")
    return ProbedProcess(SavedSnapshot(path), path.stem)


def _make_progress_printer(quiet: bool, many: bool) -> Callable[[Snapshot], None]:
    """Return what prints a line for each snapshot of a series to standard error."""
    console = Console(stderr=True, highlight=False)

    def print_live(snapshot: Snapshot) -> None:
        if many and not quiet:
            live = heap_profile.sum_blocks(snapshot.blocks)
            console.print(
                f"live {format_amount(live.bytes, 'bytes')} ± {format_amount(live.error, 'bytes')}",
                style="dim",
            )

    return print_live


def _make_report(
    process: ProbedProcess, series: SnapshotSeries, by: str, login_path: str | None
) -> _HeapReport:
    last = series.last
    patterns = wrappers()
    dominant_frames = {
        number: heap_profile.find_dominant_frame(stack, patterns)
        for number, stack in series.stacks.items()
    }
    notes = [*process.symbols.notes]
    attributed_share = None
    if by == _FUNCTION:
        rows = heap_profile.rank_functions(last, dominant_frames)
    else:
        rows, owner_notes = _rank_owners(process.probe.pid, last, by, login_path)
        notes += owner_notes
        bytes_attributed = sum(row.live.bytes for row in rows if row.name != session_owners.UNKNOWN)
        attributed_share = bytes_attributed / (sum(row.live.bytes for row in rows) or 1.0)
    grown = (
        heap_profile.rank_growth(series.first, last, dominant_frames)
        if last is not series.first
        else []
    )
    if series.ended and series.ended != "interrupted":
        notes.append(f"ended early: {series.ended}")
    if not last.interval and not last.blocks:
        notes.append("the probe is idle and samples nothing; --interval 512K starts it")
    if lost := last.lost_blocks + last.lost_stacks:
        notes.append(
            f"{lost} samples did not fit into the probe's tables; a larger --interval takes fewer"
        )
    return _HeapReport(
        pid=process.probe.pid,
        name=process.name,
        snapshot=last,
        live=heap_profile.sum_blocks(last.blocks),
        rows=rows,
        growth=grown,
        spent=malloc_latency.summarize_calls(last),
        times=malloc_latency.summarize_by_size(last),
        time_of=heap_profile.rank_functions_by_time(last, dominant_frames),
        named=heap_profile.compute_named_share(last, series.stacks),
        attributed=attributed_share,
        by=by,
        notes=notes,
    )


def _rank_owners(
    pid: int, last: Snapshot, by: str, login_path: str | None
) -> tuple[list[HeapRow], list[str]]:
    """Return what is alive by session owner, and notes on what the server could not tell. Failure
    if it cannot be asked.
    """
    try:
        server = running_server.look(pid, "process")
        with running_server.talking(
            server, running_server.given(server), credentials.find(login_path)
        ) as cursor:
            sessions, session_notes = session_owners.read_sessions(cursor, pid)
    except running_server.NoWord as error:
        raise Failure(
            f"--by {by}: cannot ask the server which sessions its threads belong to: {error}"
        ) from None
    rows = heap_profile.rank_owners(
        last.blocks, lambda block: session_owners.FIND_OWNER[by](sessions, block)
    )
    return rows, session_notes


def _save_profiles(series: SnapshotSeries, report: _HeapReport, out: Path) -> list[Path]:
    files: list[Path] = []

    def write(name: str, data: bytes) -> None:
        (out / name).write_bytes(data)
        files.append(out / name)

    try:
        out.mkdir(parents=True, exist_ok=True)
        for i, profile in enumerate(series.profiles, 1):
            files.append(out / f"heap-{i}.profile.json.gz")
            save_profile(profile, files[-1])
        title = f"live heap of {report.name}"
        views = [(f"snapshot {i}", p) for i, p in enumerate(series.profiles, 1)][-1:]
        if series.peak is not None and len(series.profiles) > 1:
            files.append(out / "peak.profile.json.gz")
            save_profile(series.peak, files[-1])
            views.insert(0, ("peak", series.peak))
        write(
            "heap.html",
            flamegraph.render_page(views, heap_profile.LIVE, title).encode(
                "utf-8", "backslashreplace"
            ),
        )
        if len(series.profiles) > 1:
            page = flamegraph.render_difference_page(
                series.profiles[0],
                series.profiles[-1],
                heap_profile.LIVE,
                f"growth of the heap of {report.name}",
            )
            write("growth.html", page.encode("utf-8", "backslashreplace"))
            write(
                "massif.out",
                export.export_profiles(series.profiles_with_peak, heap_profile.LIVE, "massif"),
            )
    except OSError as error:
        raise Failure(f"{error.filename or out}: cannot be written: {error.strerror}") from None
    return files


def _make_document(report: _HeapReport) -> dict[str, Any]:
    def estimate_fields(e: Estimate) -> dict[str, Any]:
        return {
            "bytes": e.bytes,
            "error": e.error,
            "objects": e.objects,
            "objects_error": e.objects_error,
            "samples": e.samples,
        }

    return {
        "pid": report.pid,
        "interval": report.snapshot.interval,
        "live": estimate_fields(report.live),
        "by": report.by,
        "attributed": report.attributed,
        "complete": report.snapshot.complete,
        "named": report.named,
        "rows": [
            {
                "name": r.name,
                "module": r.module,
                "live": estimate_fields(r.live),
                "allocated": r.allocated,
            }
            for r in report.rows
        ],
        "growth": [
            {
                "name": g.name,
                "module": g.module,
                "change": estimate_fields(g.change),
                "after": g.after,
            }
            for g in report.growth
        ],
        "malloc": asdict(report.spent)
        | {
            "sizes": [asdict(row) for row in report.times],
            "functions": [asdict(row) for row in report.time_of],
        },
        "lost": report.snapshot.lost_blocks + report.snapshot.lost_stacks,
        "files": [str(f) for f in report.files],
        "notes": report.notes,
    }


def _print_report(console: Console, report: _HeapReport, max_rows: int, times: bool) -> None:
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
    _print_notes(console, report)


def _print_notes(console: Console, report: _HeapReport) -> None:
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


def _print_rows(console: Console, report: _HeapReport, max_rows: int) -> None:
    by_function = report.by == _FUNCTION
    table = _make_table(
        (
            "alive",
            "±",
            "share",
            "blocks",
            "samples",
            *(("allocated",) if by_function else ()),
            report.by,
        ),
        left_columns=1,
    )
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
    table = _make_table(("growth", "±", "alive now", "blocks", "function"), left_columns=1)
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
    table = _make_table(
        ("", "bytes", "calls", "mean", "p50", "p99", "longest timed"), left_columns=0
    )
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
    table = _make_table(
        ("in malloc and free", "of all", "stalled", "of all", "function"), left_columns=1
    )
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


def _make_table(headings: Sequence[str], left_columns: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for i, heading in enumerate(headings):
        table.add_column(
            heading,
            justify="left" if left_columns and i >= len(headings) - left_columns else "right",
        )
    return table


def _format_name(name: str, module: str) -> Text:
    name, module = safe(name), safe(module)
    return (
        Text(f"{name}  ", overflow="fold").append(module, style="dim")
        if module
        else Text(name, overflow="fold")
    )


def _read_process_name(pid: int) -> str:
    try:
        return readers.text_of_process(f"/proc/{pid}/comm").strip()
    except OSError:
        return "process"
