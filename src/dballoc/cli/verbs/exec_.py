"""``dballoc exec``: run a program under the heap probe."""

import os
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from dballoc.cli.shared.size_and_duration_flags import size
from dballoc.errors import Failure
from dballoc.experiment.durations_and_sizes import format_size
from dballoc.profile.heap import probe_launch

_DEFAULT_INTERVAL = format_size(probe_launch.DEFAULT_INTERVAL)


class ProbeKind(Enum):
    """Probes that can be loaded into a program."""

    HEAP = "heap"


def exec_(
    command: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND...", help="A program and its arguments, after --."),
    ],
    probe: Annotated[
        ProbeKind, typer.Option(help="heap: sample allocations, for dballoc profile heap.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Directory for the probe's socket; the program's user owns it."
        ),
    ],
    interval: Annotated[
        str, typer.Option(metavar="SIZE", help="Sample one in SIZE bytes, on average.")
    ] = _DEFAULT_INTERVAL,
    idle: Annotated[
        bool,
        typer.Option("--idle", help="Sample nothing until profile heap --interval starts it."),
    ] = False,
) -> None:
    """Run a program under a probe: mariadbd, mysqld, or any other that is dynamically linked.

    LD_PRELOAD is set for this program alone: the probe first, then what it was set to before. The
    program replaces dballoc and keeps its PID.
    """
    sampling_interval = 0 if idle else size(interval, "--interval")
    launch = probe_launch.prepare_launch(command, out, sampling_interval, os.environ)
    probe_launch.make_directory(out, command)
    sampling = "idle until asked" if idle else f"one sample in {format_size(sampling_interval)}"
    print(
        f"dballoc: heap probe, {sampling}; ask it: dballoc profile heap --out-dir {out.absolute()}",
        file=sys.stderr,
        flush=True,
    )
    try:
        os.execve(launch.executable, list(command), launch.environ)  # noqa: S606  # the user's own command
    except OSError as error:
        raise Failure(f"{launch.executable}: {error.strerror}") from None
