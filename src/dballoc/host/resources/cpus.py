"""List the CPUs that dballoc may use, and move running processes to some of them."""

import contextlib
import os
from collections.abc import Collection

from dballoc.host.process.handle import Process


def list_available_cpus() -> frozenset[int]:
    """List the CPUs that this process may use."""
    return frozenset(os.sched_getaffinity(0))


_ROUNDS = 20


def move_threads(pid: int, cpus: Collection[int]) -> None:
    """Move every thread of a process and of its descendants to these CPUs, in rounds until one
    finds no new thread: a thread inherits the CPUs of the one that made it, which may not have been
    moved yet. A process that has ended is left alone.
    """
    moved: set[int] = set()
    for _ in range(_ROUNDS):
        new = _list_threads([pid]) - moved
        if not new:
            return
        for thread in new:
            try:
                os.sched_setaffinity(thread, cpus)
            except ProcessLookupError:
                pass
        moved |= new


def _list_threads(pids: list[int]) -> set[int]:
    """List the threads of processes and of their descendants; none of one that has ended."""
    threads: set[int] = set()
    for process in map(Process.at, pids):  # their children are appended meanwhile
        # It, or a thread of it, may have ended meanwhile; the next round lists the others.
        with contextlib.suppress(OSError):
            for thread in process.list_threads():
                threads.add(thread)
                pids += map(int, process.read_text(f"task/{thread}/children").split())
    return threads
