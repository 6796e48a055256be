"""The stacks of a process's threads: where each thread's stack pointer is."""

import os

from dballoc import readers
from dballoc.process_memory.read_limits import Effort, Work


def pointers(pid: int, effort: Effort) -> list[int]:
    """The stack pointers of all threads that wait, of as many as a look may read; one that runs
    tells nothing (proc_pid_syscall(5)). OSError as usual.
    """
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        if effort.over or not effort.spend(Work.THREADS):
            break
        try:
            words = readers.text_of_process(f"/proc/{pid}/task/{task}/syscall").split()
        except OSError:
            continue
        if len(words) >= 3:
            found.append(int(words[-2], 16))
    return found


def count(pid: int) -> int:
    """How many threads there are."""
    return len(os.listdir(f"/proc/{pid}/task"))
