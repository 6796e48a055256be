"""Run others' programs to query them: as the server user, without a way to more rights, for a
bounded time.

A server that prints its version, a loader that lists its settings, a malloc in a short-lived
process, a script that is checked: all of these execute foreign code, which must not run as root.
"""

import contextlib
import ctypes
import os
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dballoc.host.exit_status import end_process
from dballoc.host.guardian import reaping
from dballoc.host.process.handle import Process
from dballoc.host.unprivileged.server_user import ServerUser, read_owner_and_parent, server_user

PATIENCE = 60.0
# Bytes of each of its two streams; the bindings of a large server are some megabytes.
_MOST = 64 << 20
_PIECE = 1 << 16
_POLL = 0.02
# A process that was killed has ended by then, unless it is stuck in the kernel.
_SECONDS_TO_END = 2.0
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38  # <linux/prctl.h>
# Rounds of the search for processes that have left its session: each may find children of those
# that the one before ended.
_ROUNDS = 1000

_libc = ctypes.CDLL(None, use_errno=True)


class Unanswered(Exception):
    """The program could not be started, took too long, or printed too much; the text says which."""


@dataclass(frozen=True)
class ProgramOutput:
    """What a program printed, and its exit status, negative for a signal."""

    status: int
    stdout: str
    stderr: str


def run_unprivileged(
    argv: Sequence[str | os.PathLike[str]],
    env: Mapping[str, str] | None = None,
    patience: float = PATIENCE,
    user: ServerUser | None = None,
) -> ProgramOutput:
    """Run a command to its end: as the server user without other groups, in ``/``, with no input,
    no core file and no terminal, and with nothing of our environment but PATH, to which ``env``
    adds. Raises Unanswered if it cannot start, or exceeds ``patience`` seconds or the bound of its
    output.
    """
    runner = user or server_user()
    arguments = [os.fspath(word) for word in argv]
    credentials = (
        {} if runner.uid is None else {"user": runner.uid, "group": runner.uid, "extra_groups": []}
    )
    with _adopting_orphans(runner.uid):
        try:
            process = subprocess.Popen(
                arguments,
                env=make_environment(env or {}),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                umask=0o077,
                preexec_fn=lambda: _give_up_rights(patience),
                **credentials,  # type: ignore[call-overload]
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise Unanswered(
                f"{arguments[0]}: {getattr(error, 'strerror', None) or error}"
            ) from None
        try:
            streams = _read_streams(process, time.monotonic() + patience, patience)
        finally:
            _end_process_group(process)
    return ProgramOutput(process.returncode, *(part.decode(errors="replace") for part in streams))


def make_environment(more: Mapping[str, str]) -> dict[str, str]:
    """Make the environment of such a process: our PATH, and ``more``."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), **more}


def _give_up_rights(patience: float) -> None:
    """Drop rights in the child, after its change of user, which clears PDEATHSIG (prctl(2))."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A process that leaves its group is not ended with it: bound its CPU time as well.
    seconds = int(patience) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def _read_streams(
    process: "subprocess.Popen[bytes]", deadline: float, patience: float
) -> tuple[bytes, bytes]:
    """Read what it prints until it has ended. What a child that still has the streams open prints
    later is left out.
    """
    assert process.stdout
    assert process.stderr
    parts = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    with selectors.DefaultSelector() as streams:
        for stream in parts:
            streams.register(stream, selectors.EVENT_READ)
        ended = False
        while streams.get_map():
            if time.monotonic() > deadline:
                raise Unanswered(f"no answer in {patience:.0f} s")
            ready = streams.select(_POLL)
            if ended and not ready:
                break
            for key, _ in ready:
                piece = os.read(key.fd, _PIECE)
                parts[key.fd] += piece
                if not piece:
                    streams.unregister(key.fd)
                elif len(parts[key.fd]) > _MOST:
                    raise Unanswered(f"it prints more than {_MOST >> 20} MiB")
            ended = ended or _has_ended(process)
    while not _has_ended(process):
        if time.monotonic() > deadline:
            raise Unanswered(f"no answer in {patience:.0f} s")
        time.sleep(_POLL)
    return bytes(parts[process.stdout.fileno()]), bytes(parts[process.stderr.fileno()])


@contextlib.contextmanager
def _adopting_orphans(uid: int | None) -> Iterator[None]:
    """Make processes that leave its session children of this process when their parents end, and
    end them with the rest.
    """
    was_subreaper = reaping.is_subreaper()
    reaping.become_subreaper()
    try:
        yield
    finally:
        _end_adopted(uid)
        reaping.set_subreaper(was_subreaper)


def _end_adopted(uid: int | None) -> None:
    """End all children of this process that run as the server user, and their children. Where
    servers run as our own user, they cannot be told from others, and are left.
    """
    stuck: set[int] = set()
    for _ in range(_ROUNDS if uid is not None else 0):
        adopted = [
            pid
            for pid in _list_children()
            if pid not in stuck
            and (status := read_owner_and_parent(Process.at(pid)))
            and status[0] == uid
        ]
        if not adopted:
            return
        for pid in adopted:
            try:
                os.kill(pid, signal.SIGKILL)
                until = time.monotonic() + _SECONDS_TO_END
                # One does not end that waits for a file system that never answers.
                while os.waitpid(pid, os.WNOHANG) == (0, 0):
                    if time.monotonic() > until:
                        stuck.add(pid)
                        break
                    time.sleep(_POLL)
            except OSError:
                pass


def _list_children() -> list[int]:
    lists = Path("/proc/self/task").glob("*/children")
    return [int(word) for each in lists for word in each.read_text().split()]


def _has_ended(process: "subprocess.Popen[bytes]") -> bool:
    """Whether it has ended, without reaping it: as long as it is a zombie, its PID and process
    group are not reused.
    """
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end_process_group(process: "subprocess.Popen[bytes]") -> None:
    """Kill it and its process group, then reap it; one that waits for a file system that never
    answers is left to itself.
    """
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        pass
    for stream in (process.stdout, process.stderr):
        assert stream
        stream.close()
    end_process(process, _SECONDS_TO_END)
