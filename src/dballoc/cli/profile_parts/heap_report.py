"""What ``dballoc profile heap`` tells of a series of snapshots, its JSON and its files."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dballoc.catalogue import wrappers
from dballoc.ground.errors import Failure
from dballoc.ground.files.output_directory import OutputDirectory
from dballoc.host.abandonable.abandonable_work import run_abandonable
from dballoc.host.process.handle import Process
from dballoc.profile import flamegraph
from dballoc.profile.formats import export
from dballoc.profile.formats.profile_file import pack_profile
from dballoc.profile.heap import heap_profile, malloc_latency, session_owners
from dballoc.profile.heap.heap_profile import Estimate, FunctionGrowth, HeapRow
from dballoc.profile.heap.probe_client import Probe, SavedSnapshot
from dballoc.profile.heap.probe_snapshot import Snapshot
from dballoc.profile.heap.snapshot_series import ProbedProcess, SnapshotSeries
from dballoc.servers.running import credentials, running_server
from dballoc.servers.running.credentials import Credentials

FUNCTION = "function"


@dataclass(kw_only=True)
class HeapReport:
    """The printed report on a series of snapshots: the last ``snapshot``, the estimate of all its
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


def make_report(
    process: ProbedProcess, series: SnapshotSeries, by: str, login_path: str | None
) -> HeapReport:
    """Sum up a series by function, or by the owners that ``by`` names. Raises Failure if the server
    cannot tell who they are.
    """
    last = series.last
    patterns = wrappers()
    dominant_frames = {
        number: heap_profile.find_dominant_frame(stack, patterns)
        for number, stack in series.stacks.items()
    }
    notes = [*process.notes]
    attributed_share = None
    if by == FUNCTION:
        rows = heap_profile.rank_functions(last, dominant_frames)
    else:
        rows, owner_notes = _rank_owners(process.probe, last, by, login_path)
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
    return HeapReport(
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
    probe: Probe | SavedSnapshot, last: Snapshot, by: str, login_path: str | None
) -> tuple[list[HeapRow], list[str]]:
    """Return what is alive by session owner, and notes on what the server could not tell. Raises
    Failure if it cannot be asked.
    """
    login = credentials.find(login_path)
    assert isinstance(probe, Probe)  # a saved snapshot has no owners
    process = probe.place.process
    try:
        sessions, session_notes = run_abandonable(lambda: _read_sessions(process, login), process)
    except running_server.NoWord as error:
        raise Failure(
            f"--by {by}: cannot ask the server which sessions its threads belong to: {error}"
        ) from None
    rows = heap_profile.rank_owners(
        last.blocks, lambda block: session_owners.FIND_OWNER[by](sessions, block)
    )
    return rows, session_notes


def _read_sessions(
    process: Process, login: Credentials
) -> tuple[dict[int, session_owners.ServerThread], list[str]]:
    server = running_server.look(process, "process")
    with running_server.talking(server, running_server.given(server), login) as cursor:
        return session_owners.read_sessions(cursor, process)


def save_profiles(series: SnapshotSeries, report: HeapReport, out: Path) -> list[Path]:
    """Write the profiles, flame graphs and massif.out into a directory; return their paths. Raises
    UsageError if the directory is not ours alone; Failure if one cannot be written.
    """
    try:
        with OutputDirectory.open(out) as directory:
            for name, content in _render_files(series, report).items():
                directory.write(name, content)
                report.files.append(out / name)
    except OSError as error:
        raise Failure(f"{error.filename or out}: cannot be written: {error.strerror}") from None
    return report.files


def _render_files(series: SnapshotSeries, report: HeapReport) -> dict[str, bytes]:
    profiles = series.profiles
    files = {
        f"heap-{i}.profile.json.gz": pack_profile(profile) for i, profile in enumerate(profiles, 1)
    }
    title = f"live heap of {report.name}"
    views = [(f"snapshot {i}", p) for i, p in enumerate(profiles, 1)][-1:]
    if series.peak is not None and len(profiles) > 1:
        files["peak.profile.json.gz"] = pack_profile(series.peak)
        views.insert(0, ("peak", series.peak))
    page = flamegraph.render_page(views, heap_profile.LIVE, title)
    files["heap.html"] = page.encode("utf-8", "backslashreplace")
    if len(profiles) > 1:
        page = flamegraph.render_difference_page(
            profiles[0], profiles[-1], heap_profile.LIVE, f"growth of the heap of {report.name}"
        )
        files["growth.html"] = page.encode("utf-8", "backslashreplace")
        files["massif.out"] = export.export_profiles(
            series.profiles_with_peak, heap_profile.LIVE, "massif"
        )
    return files


def make_document(report: HeapReport) -> dict[str, Any]:
    """Return the report as --json prints it."""

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
