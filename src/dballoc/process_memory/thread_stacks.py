"""The stacks of a process's threads: where each thread's stack pointer is."""

from dballoc.host.process_handle import Process
from dballoc.process_memory.read_limits import ReadBudget, Work


def read_stack_pointers(process: Process, budget: ReadBudget) -> list[int]:
    """Read the stack pointers of the threads that wait, of as many as one snapshot may read. A
    running thread shows none (proc_pid_syscall(5)). OSError if the process is gone or not ours.
    """
    pointers = []
    for task in process.list_threads():
        if budget.out_of_time or not budget.spend(Work.THREADS):
            break
        try:
            words = process.read_text(f"task/{task}/syscall").split()
        except OSError:
            continue
        if len(words) >= 3:
            pointers.append(int(words[-2], 16))
    return pointers


def count_threads(process: Process) -> int:
    """Return how many threads a process has. OSError if it is gone."""
    return len(process.list_threads())
