"""End the orphans that become children of this process because their parents have ended (prctl(2),
PR_SET_CHILD_SUBREAPER).

Only direct children are signalled: their PIDs stay taken until we reap them, so that no signal hits
another process. When one of them dies, its children become ours in turn.
"""

import ctypes
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 36, 37  # <linux/prctl.h>

libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Make orphans among our descendants children of this process. Not inherited by a fork, kept by
    an exec.
    """
    set_subreaper(True)


def is_subreaper() -> bool:
    """Whether orphans among our descendants become children of this process."""
    flag = ctypes.c_int()
    if libc.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(flag), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_GET_CHILD_SUBREAPER)")
    return bool(flag.value)


def set_subreaper(on: bool) -> None:
    """Let orphans among our descendants become children of this process, or of an ancestor's."""
    if libc.prctl(PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def end_children(selects: Callable[[int], bool], patience: float) -> list[int]:
    """Kill and reap the children that ``selects`` picks, and those that become ours when they die.
    Return the PIDs that do not die within ``patience`` seconds.
    """
    deadline = time.monotonic() + patience
    # The kernel's list of children may skip some while others end: when it is empty, all of /proc
    # is searched.
    while picked := list(filter(selects, _list_children())) or list(
        filter(selects, _find_children_in_proc())
    ):
        for pid in picked:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        survivors = [pid for pid in picked if not reap_if_ended(pid)]
        if survivors and time.monotonic() > deadline:
            return survivors
        if survivors:
            time.sleep(0.001)
    return []


def reap_children(selects: Callable[[int], bool]) -> None:
    """Reap those of the children picked by ``selects`` that have ended by themselves."""
    for pid in filter(selects, _find_children_in_proc()):
        reap_if_ended(pid)


def reap_if_ended(pid: int) -> bool:
    """Reap a child if it has ended, and return whether it has; its PID may then be reused."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def read_session(pid: int) -> int:
    """Return the session of a process, 0 if it has ended."""
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def _list_children() -> list[int]:
    pids: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        try:
            pids += map(int, (task / "children").read_text().split())
        except OSError:
            continue  # a thread that has ended, or a kernel without the list
    return pids


def _find_children_in_proc() -> list[int]:
    us, pids = os.getpid(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1]) == us:
                    pids.append(int(entry.name))
            except (OSError, IndexError):
                continue  # it has just ended
    return pids
