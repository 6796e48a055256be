"""Run a verb that reads files of others in a child. They may lie on a file system that never
answers: a process that waits for it in the kernel ends neither by Ctrl-C nor by SIGKILL, so a
parent must wait for it, and give it up.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence

from dballoc.host.abandonable.look_limits import unanswered_seconds
from dballoc.host.process.handle import SYSTEM_TICKS, USER_TICKS, Process

_RESULTS = frozenset(("combine", "compare", "deploy", "import", "report"))
_OF_PROFILES = frozenset(("diff", "export", "massif"))
_OF_SAVED_LOOKS = ("--from", "--diff")

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_EVERY = 0.25  # seconds between looks at the child
# Seconds after a signal until it is sent to the child, and until the child is given up.
_SECONDS_TO_PASS_ON, _SECONDS_TO_END = 0.2, 0.8


def reads_files_of_others(words: Sequence[str]) -> bool:
    """Whether a command line reads results, saved looks or profiles, which others may have made.
    Pure.
    """
    verb, *rest = words or [""]
    return (
        verb in _RESULTS
        or (verb == "profile" and rest[:1] != [] and rest[0] in _OF_PROFILES)
        or (verb == "explain" and any(word.split("=")[0] in _OF_SAVED_LOOKS for word in rest))
    )


def run_interruptibly(work: Callable[[], None]) -> None:
    """Run ``work``, which ends by SystemExit, in a child, and end as it does. Ctrl-C ends it within
    a second, and a file system that does not answer within its limit ends it with status 1.
    """
    # If our parent ignores SIGCHLD, no child could be waited for.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ended, held_by_child = os.pipe()  # its reader sees the end of the child
    watch = _Watch(ended, unanswered_seconds())
    parent, child = os.getpid(), os.fork()
    if child == 0:
        watch.restore_handlers()
        os.close(ended)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        work()
        return
    os.close(held_by_child)
    sys.exit(watch.follow(child))


class _Watch:
    """A parent that waits for its child. ``ended``: what the child's end closes; ``limit``: seconds
    without CPU time.
    """

    def __init__(self, ended: int, limit: float) -> None:
        self._ended, self._limit = ended, limit
        self._signal: tuple[int, float] | None = None
        self._handlers = {
            number: signal.signal(number, self._note_signal)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            if signal.getsignal(number) != signal.SIG_IGN
        }

    def restore_handlers(self) -> None:
        """Handle signals as before, in the child."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def follow(self, child: int) -> int:
        """Wait for the child, and return the exit status with which this process is to end."""
        poll = select.poll()
        poll.register(self._ended, select.POLLIN)
        process = Process.at(child)
        moved, usage, passed_on = time.monotonic(), [""], False
        while not poll.poll(1000 * (_EVERY if self._signal is None else 0.02)):
            now = time.monotonic()
            if self._signal:
                number, since = self._signal
                if now > since + _SECONDS_TO_END:
                    return _give_up(child, 128 + number)
                if now > since + _SECONDS_TO_PASS_ON and not passed_on:
                    passed_on = True  # a terminal sends Ctrl-C to both of us, kill to one
                    os.kill(child, number)
                continue
            used = _read_cpu_time(process)
            if used != usage or _waits_for_a_reader(process):
                moved, usage = now, used
            elif now > moved + self._limit:
                print(
                    "dballoc: a file that it reads is on a file system that has not answered for "
                    f"{self._limit:g} s; copy the files to a disk of this host",
                    file=sys.stderr,
                )
                return _give_up(child, 1)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code

    def _note_signal(self, number: int, _: object) -> None:
        self._signal = self._signal or (number, time.monotonic())


def _give_up(child: int, status: int) -> int:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    return status


def _read_cpu_time(process: Process) -> list[str]:
    """Return a process's CPU time as the kernel writes it (proc_pid_stat(5)). A wait for FUSE has
    the same state as any other; only CPU time that stands still shows it.
    """
    try:
        return process.read_stat()[USER_TICKS : SYSTEM_TICKS + 1]
    except OSError:
        return []


def _waits_for_a_reader(process: Process) -> bool:
    """Whether a process waits for the reader of its output (a pager), or was stopped (Ctrl-Z)."""
    try:
        place = process.read_text("wchan")
    except OSError:
        return False
    return any(word in place for word in ("pipe", "tty", "sock", "unix", "signal_stop"))
