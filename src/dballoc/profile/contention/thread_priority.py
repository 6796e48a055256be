"""A higher priority for the while of a look at a busy server.

Hundreds of runnable threads leave one more of the same priority a hundredth of a CPU: perf would
take minutes to begin, and its windows would last as long as it takes to be scheduled again.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

# For recording, which takes little; and for reading what was recorded, some seconds of one CPU,
# which the server may need.
RECORDING, READING = -20, -10


@contextmanager
def raise_priority(nice: int) -> Iterator[None]:
    """Let this thread, and what it starts, run with that nice value (setpriority(2)); as it is
    where that is not permitted.
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
    """The words before a command that another process starts for us."""
    return ["nice", "-n", str(nice)] if os.geteuid() == 0 else []
