"""``dballoc exec``: run a program under the heap probe, or under the recorder."""

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from dballoc.allocators import host_requirements
from dballoc.cli.shared.size_and_duration_flags import size
from dballoc.experiment.durations_and_sizes import format_size
from dballoc.ground.errors import Failure, UsageError
from dballoc.ground.files.caller_umask import get_caller_umask
from dballoc.instruments.ways_in import preload
from dballoc.instruments.ways_in.preload_socket import HEAP_PROBE, RECORDER, PreloadKind
from dballoc.process.malloc import preload_obstacles
from dballoc.profile.heap.probe_client import AT_EXIT_VARIABLE

_Command = Annotated[
    list[str], typer.Argument(metavar="COMMAND...", help="A program and its arguments, after --.")
]
_Probe = Annotated[
    Literal["heap", "trace"],
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
        help="heap: sample one in SIZE bytes, on average. "
        f"[default: {format_size(HEAP_PROBE.size)}]",
        show_default=False,
    ),
]
_Limit = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="trace: end a recording when its file has SIZE bytes. "
        f"[default: {format_size(RECORDER.size)}]",
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
    if obstacle := preload_obstacles.find_preload_obstacle(
        os.environ, host_requirements.read_host()
    ) or preload_obstacles.find_start_obstacle(os.environ):
        raise UsageError(obstacle)
    if probe == "heap":
        kind, written = HEAP_PROBE, interval
        if limit is not None:
            raise UsageError("--limit only goes with --probe trace")
    else:
        kind, written = RECORDER, limit
        if interval is not None:
            raise UsageError("--interval only goes with --probe heap")
        if at_exit:
            raise UsageError("--at-exit only goes with --probe heap; a recording is always left")
    most = kind.size if written is None else size(written, kind.flag)
    executable, environ = preload.prepare_launch(kind, command, out, os.environ, most, idle)
    if at_exit:
        environ[AT_EXIT_VARIABLE] = "1"
    preload.make_directory(out, command)
    print(f"dballoc: {_describe_launch(kind, out, most, idle)}", file=sys.stderr, flush=True)
    os.umask(get_caller_umask())
    try:
        os.execve(executable, list(command), environ)  # noqa: S606  # the user's own command
    except OSError as error:
        raise Failure(f"{executable}: {error.strerror}") from None


def _describe_launch(kind: PreloadKind, out: Path, most: int, idle: bool) -> str:
    """Return what is loaded, and how to ask it."""
    quoted = shlex.quote(str(out.absolute()))
    if kind is HEAP_PROBE:
        sampling = "idle until asked" if idle else f"one sample in {format_size(most)}"
        return f"heap probe, {sampling}; ask it: dballoc profile heap --out-dir {quoted}"
    if idle:
        return f"recorder, idle; start it: dballoc record --out-dir {quoted}"
    return (
        f"recorder, every allocation, up to {format_size(most)}, into {out.absolute()}/"
        "PID.recording; end it before the program does: "
        f"dballoc record --stop --out-dir {quoted}"
    )
