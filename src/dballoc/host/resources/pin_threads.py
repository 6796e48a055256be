"""Move running processes, thread by thread, to a set of CPUs."""

import os
from collections.abc import Collection
from pathlib import Path

_ROUNDS = 20


def move_threads(pid: int, cpus: Collection[int]) -> None:
    """Move every thread of a process and of its descendants to these CPUs, in rounds until one
    finds no new thread: a thread inherits the CPUs of the one that made it, which may not have been
    moved yet. A process that has ended is left alone.
    """
    moved: set[int] = set()
    for _ in range(_ROUNDS):
        new = _list_threads(pid) - moved
        if not new:
            return
        for thread in new:
            try:
                os.sched_setaffinity(thread, cpus)
            except ProcessLookupError:
                pass
        moved |= new


def _list_threads(pid: int) -> set[int]:
    """List the threads of a process and of its descendants; none if it has ended."""
    threads: set[int] = set()
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            threads.add(int(task.name))
            for child in (task / "children").read_text().split():
                threads |= _list_threads(int(child))
    except OSError:  # it, or a thread of it, has ended meanwhile; the next round lists the others
        pass
    return threads
