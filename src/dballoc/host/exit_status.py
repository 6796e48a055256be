"""Wait for the end of a process, and tell in words how it ended."""

import signal
import subprocess
from typing import Any

_SECONDS_TO_DIE = 0.5  # Ctrl-C waits for it, too


def end_process(process: "subprocess.Popen[Any]", seconds: float) -> int:
    """Return the exit status of a process that ends within so many seconds, or is killed then. One
    that a file system which never answers keeps in the kernel is left to itself: SIGKILL's status.
    """
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    try:
        return process.wait(_SECONDS_TO_DIE)
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL


def describe_exit_status(status: int) -> str:
    """Return ``exit status 1``, or ``SIGKILL`` for the negative status of a signal."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:  # one of the real-time signals, which have no names
        return f"signal {-status}"
