"""``dballoc exec``: run a program under the heap probe, or under the recorder."""

import os
import shlex
import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from dballoc.allocators import host_requirements
from dballoc.cli.shared.size_and_duration_flags import size
from dballoc.errors import Failure, UsageError
from dballoc.experiment.durations_and_sizes import format_size
from dballoc.files.caller_umask import get_caller_umask
from dballoc.host.preload import preload_launch
from dballoc.host.preload.preload_launch import Launch
from dballoc.process_memory import host_obstacles
from dballoc.profile.heap import probe_client, probe_launch
from dballoc.trace.recorder import recorder_launch

_DEFAULT_INTERVAL = format_size(probe_launch.DEFAULT_INTERVAL)
_DEFAULT_LIMIT = format_size(recorder_launch.DEFAULT_LIMIT)


class ProbeKind(Enum):
    """What can be loaded into a program."""

    HEAP = "heap"
    TRACE = "trace"


_Command = Annotated[
    list[str], typer.Argument(metavar="COMMAND...", help="A program and its arguments, after --.")
]
_Probe = Annotated[
    ProbeKind,
    typer.Option(
        help="heap: sample allocations, for dballoc profile heap. trace: record every one of "
        "them, for dballoc trace compile."
    ),
]
_Out = Annotated[
    Path,
    typer.Option(
        metavar="DIR",
        help="Directory for the probe's socket and the recordings; the program's user owns it.",
    ),
]
_Interval = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help=f"heap: sample one in SIZE bytes, on average. [default: {_DEFAULT_INTERVAL}]",
        show_default=False,
    ),
]
_Limit = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help=f"trace: end a recording when its file has SIZE bytes. [default: {_DEFAULT_LIMIT}]",
        show_default=False,
    ),
]
_Idle = Annotated[
    bool,
    typer.Option("--idle", help="Do nothing until profile heap --interval, or record, starts it."),
]

_AtExit = Annotated[
    bool,
    typer.Option(
        "--at-exit",
        help="heap: when the program ends, it leaves DIR/PID.snapshot, for profile heap "
        "--snapshot.",
    ),
]


def exec_(
    command: _Command,
    probe: _Probe,
    out: _Out,
    interval: _Interval = None,
    limit: _Limit = None,
    idle: _Idle = False,
    at_exit: _AtExit = False,
) -> None:
    """Run a program under a probe: mariadbd, mysqld, or any other that is dynamically linked.

    LD_PRELOAD is set for this program alone: the probe first, then what it was set to before. The
    program replaces dballoc and keeps its PID.
    """
    if obstacle := host_obstacles.find_preload_obstacle(
        os.environ, host_requirements.read_host()
    ) or host_obstacles.find_start_obstacle(os.environ):
        raise UsageError(obstacle)
    if probe is ProbeKind.HEAP:
        if limit is not None:
            raise UsageError("--limit only goes with --probe trace")
        launch, note = _prepare_heap_probe(command, out, interval or _DEFAULT_INTERVAL, idle)
        if at_exit:
            launch.environ[probe_client.AT_EXIT_VARIABLE] = "1"
    else:
        if interval is not None:
            raise UsageError("--interval only goes with --probe heap")
        if at_exit:
            raise UsageError("--at-exit only goes with --probe heap; a recording is always left")
        launch, note = _prepare_recorder(command, out, limit or _DEFAULT_LIMIT, idle)
    preload_launch.make_directory(out, command)
    print(f"dballoc: {note}", file=sys.stderr, flush=True)
    os.umask(get_caller_umask())
    try:
        os.execve(launch.executable, list(command), launch.environ)  # noqa: S606  # the user's own command
    except OSError as error:
        raise Failure(f"{launch.executable}: {error.strerror}") from None


def _prepare_heap_probe(
    command: Sequence[str], out: Path, interval: str, idle: bool
) -> tuple[Launch, str]:
    """Return how to run the command, and what to tell of it."""
    sampling_interval = 0 if idle else size(interval, "--interval")
    launch = probe_launch.prepare_launch(command, out, sampling_interval, os.environ)
    sampling = "idle until asked" if idle else f"one sample in {format_size(sampling_interval)}"
    how_to_ask = f"ask it: dballoc profile heap --out-dir {shlex.quote(str(out.absolute()))}"
    return launch, f"heap probe, {sampling}; {how_to_ask}"


def _prepare_recorder(
    command: Sequence[str], out: Path, limit: str, idle: bool
) -> tuple[Launch, str]:
    """Return how to run the command, and what to tell of it."""
    most = size(limit, "--limit")
    launch = recorder_launch.prepare_launch(command, out, most, idle, os.environ)
    quoted = shlex.quote(str(out.absolute()))
    if idle:
        return launch, f"recorder, idle; start it: dballoc record --out-dir {quoted}"
    return launch, (
        f"recorder, every allocation, up to {format_size(most)}, into {out.absolute()}/"
        "PID.recording; end it before the program does: "
        f"dballoc record --stop --out-dir {quoted}"
    )
