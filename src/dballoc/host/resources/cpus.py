"""List the CPUs that dballoc may use, and move running processes to some of them."""

import contextlib
import os
from collections.abc import Collection

from dballoc.ground import readers
from dballoc.host.process.handle import Process


def list_available_cpus() -> frozenset[int]:
    """List the CPUs that this process may use."""
    return frozenset(os.sched_getaffinity(0))


_ROUNDS = 20


def move_threads(pid: int, cpus: Collection[int]) -> None:
    """Move every thread of a process and of its descendants to these CPUs, in rounds until one
    finds no new thread: a thread inherits the CPUs of the one that made it, which may not have been
    moved yet. What a thread has started is looked up once, when it has been moved: what it starts
    from then on inherits its new CPUs. A process that has ended is left alone.
    """
    processes, moved = [pid], set[int]()
    for _ in range(_ROUNDS):
        new = {t: p for p in processes for t in _list_threads(p) if t not in moved}
        if not new:
            return
        for thread, process in new.items():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(thread, cpus)
            processes += _list_children(process, thread)
        moved |= new.keys()


def _list_threads(pid: int) -> list[int]:
    """List the threads of a process; none of one that has ended."""
    with contextlib.suppress(OSError):
        return Process.at(pid).list_threads()
    return []


def _list_children(pid: int, thread: int) -> list[int]:
    """List the processes that a thread has started; none of one that has ended."""
    with contextlib.suppress(OSError):
        return [int(c) for c in readers.of_process(f"/proc/{pid}/task/{thread}/children").split()]
    return []
