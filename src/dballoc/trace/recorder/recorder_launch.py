"""Run a program under the recorder of allocations."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from dballoc.errors import UsageError
from dballoc.experiment.durations_and_sizes import format_size
from dballoc.host.preload import preload_launch
from dballoc.host.preload.preload_launch import Launch
from dballoc.host.preload.preload_socket import RECORDER

# What a recording's file may take, bytes: by default, as much as compiles to a trace (some 80
# million events), and at least and at most.
DEFAULT_LIMIT = 512 << 20
LEAST_LIMIT, LARGEST_LIMIT = 2**20, 2**50


def find_recorder_library() -> Path:
    """Return the recorder's library. UsageError if the native parts are not built."""
    return preload_launch.find_library(RECORDER)


def check_limit(limit: int) -> None:
    """Check what a file may take. UsageError if no recorder takes that."""
    if not LEAST_LIMIT <= limit <= LARGEST_LIMIT:
        raise UsageError(
            f"--limit {format_size(limit)}: must be from {format_size(LEAST_LIMIT)} to "
            f"{format_size(LARGEST_LIMIT)}"
        )


def prepare_launch(
    command: Sequence[str], out: Path, limit: int, is_idle: bool, environ: Mapping[str, str]
) -> Launch:
    """Return how to run ``command`` under the recorder, with its files and its socket in ``out``.

    UsageError if there is no such program, or it cannot be recorded.
    """
    check_limit(limit)
    executable = preload_launch.find_executable(command, out, environ)
    directory = os.fspath(out.absolute())
    return Launch(executable, add_recorder_to_environment(environ, directory, limit, is_idle))


def add_recorder_to_environment(
    environ: Mapping[str, str], directory: str, limit: int, is_idle: bool
) -> dict[str, str]:
    """Return the environment with the recorder before all other preloads, and its files and its
    socket in ``directory``. UsageError as :func:`find_recorder_library`.
    """
    request = f"{'idle' if is_idle else 'start'}:{limit}:{directory}"
    return preload_launch.add_to_environment(environ, RECORDER, find_recorder_library(), request)
