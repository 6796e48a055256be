"""Run a program under the heap probe."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from dballoc.errors import UsageError
from dballoc.experiment.durations_and_sizes import format_size
from dballoc.host.preload import preload_launch
from dballoc.host.preload.preload_launch import Launch
from dballoc.host.preload.preload_socket import HEAP_PROBE

LEAST_INTERVAL, LARGEST_INTERVAL = 2**10, 2**40
# The default sampling interval: one sample in so many bytes.
DEFAULT_INTERVAL = 512 << 10


def find_probe_library() -> Path:
    """Return the probe's library. UsageError if the native parts are not built."""
    return preload_launch.find_library(HEAP_PROBE)


def prepare_launch(
    command: Sequence[str], out: Path, interval: int, environ: Mapping[str, str]
) -> Launch:
    """Return how to run ``command`` under the probe, with one sample in ``interval`` bytes (0: an
    idle probe) and the probe's socket in ``out``.

    UsageError if there is no such program, or it cannot be profiled in this way.
    """
    if interval != 0 and not LEAST_INTERVAL <= interval <= LARGEST_INTERVAL:
        raise UsageError(
            f"--interval {format_size(interval)}: must be from {format_size(LEAST_INTERVAL)} to "
            f"{format_size(LARGEST_INTERVAL)}"
        )
    executable = preload_launch.find_executable(command, out, environ)
    directory = os.fspath(out.absolute())
    return Launch(executable, add_probe_to_environment(environ, directory, interval))


def add_probe_to_environment(
    environ: Mapping[str, str], directory: str, interval: int
) -> dict[str, str]:
    """Return the environment with the probe before all other preloads, and its socket in
    ``directory``. UsageError as :func:`find_probe_library`.
    """
    request = f"{interval}:{directory}"
    return preload_launch.add_to_environment(environ, HEAP_PROBE, find_probe_library(), request)
