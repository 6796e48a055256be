"""``dballoc profile heap``: which code's memory is alive, which grows, whose it is."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from dballoc import readers
from dballoc.catalogue import wrappers
from dballoc.cli.shared.safe_output import Console, safe
from dballoc.cli.shared.size_and_duration_flags import duration, size
from dballoc.errors import Failure, UsageError
from dballoc.explain import find_server
from dballoc.profile import flamegraph
from dballoc.profile.amounts import amount, signed
from dballoc.profile.formats import export
from dballoc.profile.formats.profile_file import save
from dballoc.profile.heap import (
    heap_profile,
    malloc_latency,
    probe_client,
    session_owners,
    snapshot_series,
)
from dballoc.profile.heap.heap_profile import Estimate, Grown, Row
from dballoc.profile.heap.probe_snapshot import Snapshot
from dballoc.profile.heap.snapshot_series import Series, Watch
from dballoc.servers.running import credentials, running_server

_FUNCTION = "function"


@dataclass(kw_only=True)
class _Found:
    """What is printed."""

    pid: int
    name: str
    snapshot: Snapshot
    whole: Estimate
    rows: list[Row]
    growth: list[Grown]
    spent: malloc_latency.Summary
    times: list[malloc_latency.Row]
    time_of: list[heap_profile.Spent]
    named: float
    attributed: float | None
    by: str
    files: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def heap_(
    pid: Annotated[int | None, typer.Option(metavar="PID", help="The process.", min=1)] = None,
    socket: Annotated[
        str | None, typer.Option(metavar="PATH", help="The server that listens there.")
    ] = None,
    service: Annotated[
        str | None, typer.Option(metavar="UNIT", help="The main process of a systemd unit.")
    ] = None,
    out_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The process whose probe listens there.")
    ] = None,
    period: Annotated[
        str | None, typer.Option(metavar="TIME", help="A snapshot every so often, and what grew.")
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(metavar="N", help="So many snapshots; default: until Ctrl-C.", min=2),
    ] = None,
    at_peak: Annotated[
        bool, typer.Option("--at-peak", help="Also whenever more is alive than ever.")
    ] = False,
    by: Annotated[
        str, typer.Option(metavar="WHAT", help="function, user, connection or digest (statement).")
    ] = _FUNCTION,
    rows: Annotated[int, typer.Option(metavar="N", help="Lines of a table.", min=1)] = 20,
    interval: Annotated[
        str | None, typer.Option(metavar="SIZE", help="From now on one sample in so many bytes.")
    ] = None,
    stop: Annotated[
        bool, typer.Option("--stop", help="Then sample nothing more, until --interval asks for it.")
    ] = False,
    reset: Annotated[
        bool,
        typer.Option("--reset", help="First set the sums to 0: allocated bytes, time in malloc."),
    ] = False,
    times: Annotated[
        bool,
        typer.Option("--times", help="Also the time in malloc and free, by size and by function."),
    ] = False,
    login_path: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Login path that the server is asked with, beside ~/.my.cnf."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep profiles and flame graphs there.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Say which code's memory is alive in a process under the heap probe, which grows, and whose it
    is.

    Start it so: dballoc exec --probe heap --out DIR -- COMMAND. Figures are estimates from samples,
    with one standard error.
    """
    if by != _FUNCTION and by not in session_owners.BY:
        raise UsageError(f"--by {by}: it is function, user, connection or digest")
    if (count or at_peak) and period is None:
        raise UsageError("--count and --at-peak go with --period, like --period 10s")
    seconds = duration(period, "--period") if period is not None else None
    if seconds is not None and seconds < 0.1:
        raise UsageError("--period: at least 100ms")
    asked = size(interval, "--interval") if interval is not None else None
    if out_dir is not None and any(given is not None for given in (pid, socket, service)):
        raise UsageError("give --out-dir, or one of --pid, --socket and --service")
    there = (
        probe_client.of_directory(out_dir)
        if out_dir is not None
        else probe_client.of_process(find_server.find(pid, socket, service))
    )
    if asked is not None:
        there.set_interval(asked)
    if reset:
        there.reset()
    watch = Watch(there, _name(there.pid))
    series_ = snapshot_series.run(
        watch, seconds, count, at_peak, _telling(as_json, seconds is not None)
    )
    if stop:
        there.set_interval(0)
    found = _found(watch, series_, by, login_path)
    if out is not None:
        found.files = _keep(series_, found, out)
    if as_json:
        print(json.dumps(_as_json(found), indent=1))
    else:
        _print(Console(), found, rows, times)


def _telling(quiet: bool, many: bool) -> Any:
    """A line for each snapshot of a series, on standard error."""
    console = Console(stderr=True, highlight=False)

    def told(snapshot: Snapshot) -> None:
        if many and not quiet:
            live = heap_profile.whole(snapshot.blocks)
            console.print(
                f"live {amount(live.bytes, 'bytes')} ± {amount(live.error, 'bytes')}", style="dim"
            )

    return told


def _found(watch: Watch, taken: Series, by: str, login_path: str | None) -> _Found:
    last = taken.last
    patterns = wrappers()
    owner = {
        number: heap_profile.dominant(stack, patterns) for number, stack in taken.stacks.items()
    }
    notes = [*watch.symbols.notes]
    attributed = None
    if by == _FUNCTION:
        rows = heap_profile.by_function(last, owner)
    else:
        rows = _by_owner(watch.probe.pid, last, by, login_path, notes)
        known = sum(row.live.bytes for row in rows if row.name != session_owners.UNKNOWN)
        attributed = known / (sum(row.live.bytes for row in rows) or 1.0)
    grown = heap_profile.growth(taken.first, last, owner) if last is not taken.first else []
    if taken.ended and taken.ended != "interrupted":
        notes.append(f"ended early: {taken.ended}")
    if not last.interval and not last.blocks:
        notes.append("the probe is idle: --interval 512K makes it sample")
    if lost := last.lost_blocks + last.lost_stacks:
        notes.append(
            f"{lost} samples had no room in the probe's tables: a larger --interval needs less"
        )
    return _Found(
        pid=watch.probe.pid,
        name=watch.name,
        snapshot=last,
        whole=heap_profile.whole(last.blocks),
        rows=rows,
        growth=grown,
        spent=malloc_latency.summary(last),
        times=malloc_latency.rows(last),
        time_of=heap_profile.time_by_function(last, owner),
        named=heap_profile.named_share(last, taken.stacks),
        attributed=attributed,
        by=by,
        notes=notes,
    )


def _by_owner(
    pid: int, last: Snapshot, by: str, login_path: str | None, notes: list[str]
) -> list[Row]:
    try:
        server = running_server.look(pid, "process")
        with running_server.talking(
            server, running_server.given(server), credentials.find(login_path)
        ) as cursor:
            sessions, said = session_owners.read(cursor, pid)
    except running_server.NoWord as error:
        raise Failure(
            f"--by {by}: the server does not say whose threads they are: {error}"
        ) from None
    notes += said
    return heap_profile.by_owner(last.blocks, lambda block: session_owners.BY[by](sessions, block))


def _keep(taken: Series, found: _Found, out: Path) -> list[Path]:
    files: list[Path] = []

    def text(name: str, data: bytes) -> None:
        (out / name).write_bytes(data)
        files.append(out / name)

    try:
        out.mkdir(parents=True, exist_ok=True)
        for i, profile in enumerate(taken.profiles, 1):
            files.append(out / f"heap-{i}.profile.json.gz")
            save(profile, files[-1])
        title = f"live heap of {found.name}"
        shown = [(f"snapshot {i}", p) for i, p in enumerate(taken.profiles, 1)][-1:]
        if taken.peak is not None and len(taken.profiles) > 1:
            files.append(out / "peak.profile.json.gz")
            save(taken.peak, files[-1])
            shown.insert(0, ("peak", taken.peak))
        text(
            "heap.html",
            flamegraph.page(shown, heap_profile.LIVE, title).encode("utf-8", "backslashreplace"),
        )
        if len(taken.profiles) > 1:
            page = flamegraph.difference(
                taken.profiles[0],
                taken.profiles[-1],
                heap_profile.LIVE,
                f"growth of the heap of {found.name}",
            )
            text("growth.html", page.encode("utf-8", "backslashreplace"))
            with_peak = {id(p): p for p in (*taken.profiles, taken.peak) if p is not None}
            text("massif.out", export.export(list(with_peak.values()), heap_profile.LIVE, "massif"))
    except OSError as error:
        raise Failure(f"{error.filename or out}: cannot be written: {error.strerror}") from None
    return files


def _as_json(found: _Found) -> dict[str, Any]:
    def estimate(e: Estimate) -> dict[str, Any]:
        return {
            "bytes": e.bytes,
            "error": e.error,
            "objects": e.objects,
            "objects_error": e.objects_error,
            "samples": e.samples,
        }

    return {
        "pid": found.pid,
        "interval": found.snapshot.interval,
        "live": estimate(found.whole),
        "by": found.by,
        "attributed": found.attributed,
        "complete": found.snapshot.complete,
        "named": found.named,
        "rows": [
            {"name": r.name, "module": r.module, "live": estimate(r.live), "allocated": r.allocated}
            for r in found.rows
        ],
        "growth": [
            {"name": g.name, "module": g.module, "change": estimate(g.change), "after": g.after}
            for g in found.growth
        ],
        "malloc": asdict(found.spent)
        | {
            "sizes": [asdict(row) for row in found.times],
            "functions": [asdict(row) for row in found.time_of],
        },
        "lost": found.snapshot.lost_blocks + found.snapshot.lost_stacks,
        "files": [str(f) for f in found.files],
        "notes": found.notes,
    }


def _print(console: Console, found: _Found, most: int, times: bool) -> None:
    live, last = found.whole, found.snapshot
    console.print(
        Text(
            f"{safe(found.name)} (process {found.pid}): {amount(live.bytes, 'bytes')} ± "
            f"{amount(live.error, 'bytes')} alive in "
            f"{amount(live.objects, 'objects')} ± {amount(live.objects_error, 'objects')} blocks",
            style="bold",
        )
    )
    sampling = (
        f"one sample in {amount(last.interval, 'bytes')}"
        if last.interval
        else "not sampled any more"
    )
    console.print(
        f"{sampling}, {live.samples:,} of them alive; probe loaded {last.now - last.began:,.0f} s "
        "ago, sums of "
        f"{last.now - last.reset:,.0f} s; stacks complete {last.complete:.1%}, frames with names "
        f"{found.named:.1%}"
    )
    _print_spent(console, found.spent)
    console.print()
    _print_rows(console, found, most)
    if found.growth:
        console.print()
        _print_growth(console, found.growth, most)
    if times:
        console.print()
        _print_times(console, found.times)
        console.print()
        _print_time_of(console, found.time_of, most)
    for path in found.files:
        console.print(Text(f"· {path}", style="dim"))
    for note in found.notes:
        console.print(Text(f"· {safe(note)}", style="dim"))


def _print_spent(console: Console, spent: malloc_latency.Summary) -> None:
    if not spent.timed:
        return
    share = f", {spent.share:.1%} of the process's CPU" if spent.share is not None else ""
    console.print(
        f"in malloc and free: {spent.seconds:,.1f} s{share}; {spent.stalls:,} calls of more than "
        f"{malloc_latency.STALLED // 1000} µs waited {spent.stalled_seconds:,.1f} s "
        f"({spent.timed:,} calls timed)"
    )


def _print_rows(console: Console, found: _Found, most: int) -> None:
    plain = found.by == _FUNCTION
    table = _table(
        ("alive", "±", "share", "blocks", "samples", *(("allocated",) if plain else ()), found.by),
        left=1,
    )
    whole = found.whole.bytes or 1.0
    for row in found.rows[:most]:
        cells = [
            amount(row.live.bytes, "bytes"),
            amount(row.live.error, "bytes"),
            f"{row.live.bytes / whole:.1%}",
            amount(row.live.objects, "objects"),
            f"{row.live.samples:,}",
        ]
        table.add_row(
            *cells,
            *([amount(row.allocated, "bytes")] if plain else []),
            _label(row.name, row.module),
        )
    console.print(table)
    if len(found.rows) > most:
        console.print(Text(f"and {len(found.rows) - most} more; --rows shows them", style="dim"))
    if found.attributed is not None:
        console.print(f"attributed: {found.attributed:.1%} of the live bytes")


def _print_growth(console: Console, growth: Sequence[Grown], most: int) -> None:
    console.print(
        Text("what grew since the first snapshot; first what is surest to have", style="bold")
    )
    table = _table(("growth", "±", "alive now", "blocks", "function"), left=1)
    for row in growth[:most]:
        change = row.change
        table.add_row(
            signed(change.bytes, "bytes"),
            amount(change.error, "bytes"),
            amount(row.after, "bytes"),
            signed(change.objects, "objects"),
            _label(row.name, row.module),
        )
    console.print(table)


def _print_times(console: Console, rows: Sequence[malloc_latency.Row]) -> None:
    table = _table(("", "bytes", "calls", "mean", "p50", "p99", "longest timed"), left=0)
    for row in rows:
        spans = (row.mean, row.p50, row.p99, row.longest)
        sizes = f"{row.sizes[0]:,} to {row.sizes[1] - 1:,}" if row.sizes[0] else "0"
        table.add_row(
            row.operation, sizes, f"{row.calls:,}", *(amount(ns / 1e9, "seconds") for ns in spans)
        )
    console.print(table)


def _print_time_of(console: Console, rows: Sequence[heap_profile.Spent], most: int) -> None:
    table = _table(("in malloc and free", "of all", "stalled", "of all", "function"), left=1)
    short, stalled = (
        sum(getattr(row, name) for row in rows) or 1.0 for name in ("seconds", "stalled")
    )
    for row in rows[:most]:
        table.add_row(
            amount(row.seconds, "seconds"),
            f"{row.seconds / short:.1%}",
            amount(row.stalled, "seconds"),
            f"{row.stalled / stalled:.1%}",
            _label(row.name, row.module),
        )
    console.print(table)


def _table(headings: Sequence[str], left: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="left" if left and i >= len(headings) - left else "right")
    return table


def _label(name: str, module: str) -> Text:
    name, module = safe(name), safe(module)
    return (
        Text(f"{name}  ", overflow="fold").append(module, style="dim")
        if module
        else Text(name, overflow="fold")
    )


def _name(pid: int) -> str:
    try:
        return readers.text_of_process(f"/proc/{pid}/comm").strip()
    except OSError:
        return "process"
