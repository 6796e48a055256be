"""The client of the guardian (:mod:`dballoc.host.guardian.guardian`): spawn, wait, signal, change
host settings.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Self

from dballoc.ground.errors import Failure
from dballoc.host import portable
from dballoc.host.exit_status import describe_exit_status
from dballoc.host.guardian import guardian, reaping
from dballoc.host.settings.machine_lock import Hold
from dballoc.host.settings.settings_journal import BadJournal

# Seconds without a message from the guardian after which it counts as hung: after a request; at its
# end, when it kills and waits itself; while it removes directories, which may be large.
_ANSWER = 120.0
_END = guardian.END_PATIENCE + 20.0
_REMOVAL = 600.0

_GUARDIANS: set[int] = set()


def list_guardians() -> frozenset[int]:
    """Return the PIDs of this process's guardians that run."""
    return frozenset(_GUARDIANS)


class GuardianEnded(Failure):
    """The guardian has ended before its time: it was killed, or its lease has run out."""


@dataclass(frozen=True)
class Lease:
    """What a guardian must hear from time to time: a stamp from ``descriptor``, the reading end of
    a pipe, at least every ``seconds``.
    """

    descriptor: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Exit:
    """How a child ended: ``status`` is negative for a signal; CPU in seconds over its whole
    life.
    """

    status: int
    user: float
    system: float
    voluntary: int
    involuntary: int

    @property
    def words(self) -> str:
        """``exit status 1`` or ``SIGKILL``."""
        return describe_exit_status(self.status)


def _describe_target(arguments: Mapping[str, Any]) -> str:
    """Describe what a request is about, for an error."""
    match arguments:
        case {"path": path}:
            return str(path)
        case {"name": name, "value": value}:
            return f"{name} to {value}"
        case {"argv": [program, *_]}:
            return str(program)
        case {"child": child}:
            return f"child {child}"
    return "the host's settings"


class Custody:
    """A guardian process and the requests to it. Leaving the ``with`` block ends its children and
    restores the host.
    """

    def __init__(
        self,
        keep_open: Sequence[int] = (),
        hold: Hold | None = None,
        adopt: bool = False,
        lease: Lease | None = None,
    ) -> None:
        """``keep_open``: descriptors that the guardian holds too until it has cleaned up (the
        results directory's lock). ``hold``: the machine's lock; host settings may be changed if it
        is exclusive. ``adopt``: should the guardian be killed, the processes that its children
        leave behind become children of this process, which then kills all of its children in other
        sessions. ``lease``: the guardian ends when nothing comes from there, whatever this process
        does.
        """
        our_end, guardian_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._sock = our_end
        self._next = 0
        self._exits: dict[int, Exit] = {}
        self._hold = hold
        self._adopts = adopt
        self._scratch: list[str] = []
        self._cgroups: list[str] = []
        self._ended = False
        self._was_subreaper = reaping.is_subreaper()
        if adopt:
            reaping.become_subreaper()
        held = hold.descriptors if hold else []
        host: dict[str, Any] = {}
        if hold and hold.exclusive:
            host = {"directory": hold.directory, "settings": dict(hold.machine.settings)}
        if lease:
            host["lease"] = {"descriptor": lease.descriptor, "seconds": lease.seconds}
            held = [*held, lease.descriptor]
        with guardian_end:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    guardian.__file__,
                    str(guardian_end.fileno()),
                    json.dumps(host),
                ],
                # It works on after a kill of ours, by code that must still be there.
                pass_fds=[guardian_end.fileno(), *keep_open, *held, *portable.lock_directory()],
                stdin=subprocess.DEVNULL,
                # A user's LD_… are for the programs that it starts, which are given theirs.
                env={n: v for n, v in os.environ.items() if not n.startswith("LD_")},
                start_new_session=True,
            )
        _GUARDIANS.add(self._process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the guardian clean up, and wait until it has. If it hangs it is killed, and we clean
        up ourselves.
        """
        try:
            self._sock.shutdown(socket.SHUT_WR)
            self._wait_for_end()
        except OSError:
            pass  # it has ended already
        try:
            ended_well = self._process.wait(_REMOVAL if self._ended else guardian.END_PATIENCE) == 0
        except subprocess.TimeoutExpired:
            ended_well = False
        if not ended_well:
            self._clean_up_ourselves(0)
        if self._adopts:
            reaping.set_subreaper(self._was_subreaper)
        self._sock.close()
        _GUARDIANS.discard(self._process.pid)

    def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], stdout: Path, **options: Any
    ) -> "Child":
        """Start a process. ``options``: see
        :meth:`dballoc.host.guardian.guardian.Guardian.do_spawn`. Raises Failure if it cannot start.
        """
        options = {k: os.fspath(v) if isinstance(v, Path) else v for k, v in options.items()}
        reply = self._request(
            "spawn", argv=list(argv), env=dict(env), stdout=os.fspath(stdout), **options
        )
        return Child(self, reply["pid"], reply["child"])

    def set(self, name: str, value: str) -> None:
        """Change a host setting (:mod:`dballoc.host.settings.writable_settings`); it is restored at
        the end, whatever happens. Raises Failure if it cannot be changed.
        """
        self._request("set", name=name, value=value)

    def restore(self) -> None:
        """Restore all host settings now."""
        self._request("restore")

    def scratch(self, path: Path) -> None:
        """Have a directory removed at the guardian's end, whatever happens."""
        self._scratch.append(os.fspath(path))
        self._request("scratch", path=os.fspath(path))

    def take_over(self, path: Path, other: "Custody") -> None:
        """Have a directory removed at this guardian's end, and no longer at another's. For a moment
        both have it, so that a kill leaves nothing.
        """
        self.scratch(path)
        other._request("forget", path=os.fspath(path))
        other._scratch.remove(os.fspath(path))

    def cgroup(self, path: Path) -> None:
        """Have a cgroup removed at the guardian's end, whatever happens."""
        self._cgroups.append(os.fspath(path))
        self._request("cgroup", path=os.fspath(path))

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of all children that have ended."""
        return sum(e.user + e.system for e in self._exits.values())

    def check(self) -> None:
        """Raise GuardianEnded if it has: it was killed, or its lease has run out."""
        self.exit_of(0)  # the number of no child

    def exit_of(self, number: int, timeout: float = 0) -> Exit | None:
        """Return how the child of that number ended, or None if it has not within ``timeout``
        seconds.
        """
        deadline = time.monotonic() + timeout
        while number not in self._exits:
            remaining = max(0.0, deadline - time.monotonic())
            if not select.select([self._sock], [], [], remaining)[0]:
                return None
            self._receive()
        return self._exits[number]

    def _request(self, action: str, **arguments: Any) -> dict[str, Any]:
        self._next += 1
        try:
            self._send(json.dumps({"id": self._next, "do": action, "with": arguments}).encode())
        except OSError:
            self._fail_as_killed()
        deadline = time.monotonic() + _ANSWER
        while True:
            if not select.select([self._sock], [], [], max(0.0, deadline - time.monotonic()))[0]:
                self._clean_up_ourselves(0)
                raise Failure(
                    f"dballoc's guardian process did not answer for {_ANSWER:.0f} s; run the same "
                    "command to resume"
                )
            message = self._receive()
            if message.get("id") == self._next:
                if "error" in message:
                    raise Failure(
                        f"cannot {action} {_describe_target(arguments)}: {message['error']}"
                    )
                return message

    def _send(self, request: bytes) -> None:
        if len(request) <= guardian.MESSAGE_LIMIT:
            self._sock.send(request)
            return
        with os.fdopen(os.memfd_create("dballoc-request", os.MFD_CLOEXEC), "wb") as large:
            large.write(request)
            large.flush()
            large.seek(0)
            socket.send_fds(self._sock, [b"in the file"], [large.fileno()])

    def _receive(self) -> dict[str, Any]:
        try:
            data = self._sock.recv(guardian.MESSAGE_LIMIT)
        except OSError:
            data = b""
        if not data:
            self._fail_as_killed()
        message: dict[str, Any] = json.loads(data)
        if "exit" in message:
            number = message.pop("exit")
            self._exits[number] = Exit(**message)
        return message

    def _wait_for_end(self) -> None:
        """Wait until the guardian reports that its children have ended and the host is restored,
        until it has ended, or until it counts as hung.
        """
        deadline = time.monotonic() + _END
        while (
            not self._ended
            and select.select([self._sock], [], [], max(0.0, deadline - time.monotonic()))[0]
        ):
            data = self._sock.recv(guardian.MESSAGE_LIMIT)
            if not data:
                return
            self._ended = "ended" in json.loads(data)

    def _fail_as_killed(self) -> NoReturn:
        self._clean_up_ourselves(_END)
        raise GuardianEnded(
            "dballoc's guardian process was killed; its servers ended with it. Run the same "
            "command to resume"
        )

    def _clean_up_ourselves(self, patience: float) -> None:
        """Do what the guardian would have done: it was killed, or ends by itself, or hangs for
        longer than ``patience`` seconds.
        """
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            guardian.complain("its guardian process hangs, and is killed")
            self._process.kill()
        self._restore()
        try:
            self._process.wait(guardian.END_PATIENCE)
        except subprocess.TimeoutExpired:
            pass  # stuck in the kernel
        # Its children are dead by now (PDEATHSIG), and what they left behind are our children.
        if self._adopts and (
            survivors := reaping.end_children(self._is_adopted, guardian.END_PATIENCE)
        ):
            guardian.report_unkillable(survivors)
        guardian.remove_all(self._scratch, self._cgroups)

    def _restore(self) -> None:
        try:
            if self._hold and self._hold.exclusive:
                self._hold.put_back()
        except (OSError, BadJournal) as error:
            guardian.complain(str(error))

    def _is_adopted(self, pid: int) -> bool:
        """Whether a child of this process was not started by it: those it starts stay in its
        session, except guardians.
        """
        return pid not in _GUARDIANS and reaping.read_session(pid) != reaping.read_session(0)


@dataclass(frozen=True)
class Child:
    """A process that the guardian started for us. ``number``: the guardian's own, as the kernel
    reuses PIDs.
    """

    custody: Custody
    pid: int
    number: int

    def poll(self) -> Exit | None:
        """Return how it ended, or None while it runs."""
        return self.custody.exit_of(self.number)

    def wait(self, timeout: float) -> Exit | None:
        """Return how it ended, waiting up to ``timeout`` seconds; None if it still runs."""
        return self.custody.exit_of(self.number, timeout)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it and its process group."""
        self.custody._request("signal", child=self.number, number=int(number))

    def stop(self, gently: signal.Signals, patience: float) -> Exit:
        """Send it ``gently``, wait ``patience`` seconds, then kill it. Return how it ended."""
        if (exit_ := self.poll()) is None:
            self.send(gently)
            exit_ = self.wait(patience)
        if exit_ is None:
            self.send(signal.SIGKILL)
            exit_ = self.wait(60)
        if exit_ is None:
            raise Failure(
                f"process {self.pid} does not die even of SIGKILL; it is stuck in the kernel"
            )
        return exit_
