"""A higher priority while a busy server is watched.

Beside hundreds of runnable threads one more of the same priority gets a hundredth of a CPU: perf
would take minutes to begin, and would end long after it should.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

# Nice values. Recording takes little CPU; reading a recording takes some seconds of one CPU, which
# the server may need.
RECORDING, READING = -20, -10


@contextmanager
def raise_priority(nice: int) -> Iterator[None]:
    """Run this thread, and what it starts, with that nice value (setpriority(2)); unchanged if that
    is not permitted.
    """
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    except PermissionError:
        nice = before
    try:
        yield
    finally:
        if nice != before:
            os.setpriority(os.PRIO_PROCESS, 0, before)


def make_nice_prefix(nice: int) -> list[str]:
    """Return the words to put before a command that another process starts for us."""
    return ["nice", "-n", str(nice)] if os.geteuid() == 0 else []
