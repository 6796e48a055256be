"""Move running processes, thread by thread, to a set of CPUs."""

import os
from collections.abc import Collection
from pathlib import Path

_ROUNDS = 20


def move(pid: int, cpus: Collection[int]) -> None:
    """Every thread of a process; repeated until a round finds no new one, for a thread inherits the CPUs of the thread
    that made it, which may not have been moved yet. A process that has ended is left alone.
    """
    moved: set[str] = set()
    for _ in range(_ROUNDS):
        try:
            new = set(os.listdir(Path(f"/proc/{pid}/task"))) - moved
        except OSError:
            return
        if not new:
            return
        for thread in new:
            try:
                os.sched_setaffinity(int(thread), cpus)
            except ProcessLookupError:
                pass
        moved |= new
