"""The process that ``dballoc profile heap`` reads, and its flags on when to read it."""

from collections.abc import Callable
from pathlib import Path

from dballoc.cli.profile_parts.heap_report import FUNCTION
from dballoc.cli.shared.safe_output import Console
from dballoc.cli.shared.size_and_duration_flags import duration
from dballoc.explain import find_server
from dballoc.ground.errors import UsageError
from dballoc.instruments.ways_in.preload_socket import HEAP_PROBE
from dballoc.profile.amounts import format_amount
from dballoc.profile.heap import heap_profile, session_owners
from dballoc.profile.heap.probe_client import Probe, SavedSnapshot
from dballoc.profile.heap.probe_snapshot import Snapshot
from dballoc.profile.heap.snapshot_series import ProbedProcess


def check_flags(by: str, period: str | None, count: int | None, at_peak: bool) -> float | None:
    """Return the period in seconds, None without. Raises UsageError for flags that do not fit."""
    if by != FUNCTION and by not in session_owners.FIND_OWNER:
        raise UsageError(f"--by {by}: must be function, user, connection or digest")
    if (count or at_peak) and period is None:
        raise UsageError("--count and --at-peak need --period too, like --period 10s")
    seconds = duration(period, "--period") if period is not None else None
    if seconds is not None and seconds < 0.1:
        raise UsageError(f"--period {period}: must be at least 100ms")
    return seconds


def begin_sampling(
    out_dir: Path | None, server: find_server.ServerFlags, interval: int | None, reset: bool
) -> ProbedProcess:
    """Find the probe that the flags name, set its sampling interval, in bytes, and reset its sums,
    where asked to. Raises UsageError if there is no such probe.
    """
    probe = Probe(find_server.find_preload(HEAP_PROBE, out_dir, server))
    if interval is not None:
        probe.set_interval(interval)
    if reset:
        probe.reset()
    return ProbedProcess(probe, probe.place.process.read_name() or "process")


def read_saved_snapshot(path: Path, by: str, asks_live_process: bool) -> ProbedProcess:
    """Return the process that left a snapshot. Raises UsageError for flags that need a live
    process.
    """
    if asks_live_process or by != FUNCTION:
        raise UsageError("--snapshot is of a program that has ended: no flag that asks it fits")
    return ProbedProcess(SavedSnapshot(path), path.stem)


def make_progress_printer(quiet: bool, many: bool) -> Callable[[Snapshot], None]:
    """Return a function that prints a line for each snapshot to standard error."""
    console = Console(stderr=True, highlight=False)

    def print_live(snapshot: Snapshot) -> None:
        if many and not quiet:
            live = heap_profile.sum_blocks(snapshot.blocks)
            console.print(
                f"live {format_amount(live.bytes, 'bytes')} ± {format_amount(live.error, 'bytes')}",
                style="dim",
            )

    return print_live
