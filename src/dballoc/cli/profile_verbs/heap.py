"""``dballoc profile heap``: which code holds live memory, what grows, and who owns it."""

from pathlib import Path
from typing import Annotated

import typer

from dballoc.cli.profile_verbs.massif import (
    THRESHOLD,
    AllocatorsFlag,
    DepthFlag,
    ThresholdFlag,
    TimeUnitFlag,
    make_options,
    print_massif,
)
from dballoc.cli.shared import flags
from dballoc.cli.shared.safe_output import Console, print_json
from dballoc.cli.shared.server_flags import LoginPath, Pid, Service, Socket
from dballoc.cli.shared.size_and_duration_flags import size
from dballoc.ground.errors import UsageError
from dballoc.profile.formats.massif import DEPTH, MassifOptions

_FUNCTION = "function"

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
    as_json: flags.AsJson = False,
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
    # Here: --help needs none of it.
    from dballoc.cli.profile_parts import heap_report, heap_table, probed_series
    from dballoc.explain.find_server import ServerFlags
    from dballoc.profile.heap import heap_profile, snapshot_series

    seconds = probed_series.check_flags(by, period, count, at_peak)
    options = make_options(threshold, depth, time_unit, allocators)
    _check_massif_flags(as_massif, as_json or by != _FUNCTION, options)
    new_interval = size(interval, "--interval") if interval is not None else None
    if snapshot_file is None:
        server = ServerFlags(pid, socket, service)
        process = probed_series.begin_sampling(out_dir, server, new_interval, reset)
    else:
        live = (pid, socket, service, out_dir, period, interval, reset or None, stop or None)
        asks_live = any(flag is not None for flag in live)
        process = probed_series.read_saved_snapshot(snapshot_file, by, asks_live)
    progress = probed_series.make_progress_printer(as_json, seconds is not None)
    series = snapshot_series.take_series(process, seconds, count, at_peak, progress)
    if stop:
        process.stop_sampling()
    report = heap_report.make_report(process, series, by, login_path)
    if out is not None:
        report.files = heap_report.save_profiles(series, report, out)
    if as_json:
        print_json(heap_report.make_document(report))
    elif as_massif:
        print_massif(series.profiles_with_peak, heap_profile.LIVE, options)
        heap_table.print_notes(Console(), report)
    else:
        heap_table.print_report(Console(), report, rows, times)


def _check_massif_flags(as_massif: bool, has_another_form: bool, options: MassifOptions) -> None:
    if as_massif and has_another_form:
        raise UsageError("--massif goes neither with --json nor with --by")
    if not as_massif and options != make_options(THRESHOLD, DEPTH, "ms", ()):
        raise UsageError("--threshold, --depth, --time-unit and --alloc-fn only go with --massif")
