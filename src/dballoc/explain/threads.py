"""The stacks of a process's threads: where each thread's stack pointer is."""

from pathlib import Path


def pointers(pid: int) -> list[int]:
    """The stack pointers of all threads that wait; one that runs tells nothing (proc_pid_syscall(5)). OSError as usual."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            words = (task / "syscall").read_text().split()
        except OSError:
            continue
        if len(words) >= 3:
            found.append(int(words[-2], 16))
    return found


def count(pid: int) -> int:
    """How many threads there are."""
    return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
