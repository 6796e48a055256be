"""Our end of the guardian (:mod:`dballoc.host.guardian`): spawn, wait, signal, change host state."""

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
from typing import Any, Self

from dballoc.errors import Failure
from dballoc.host import guardian


@dataclass(frozen=True)
class Exit:
    """How a child ended: ``status`` is negative for a signal; CPU in seconds over its whole life."""

    status: int
    user: float
    system: float
    voluntary: int
    involuntary: int

    @property
    def words(self) -> str:
        """``exit status 1`` or ``SIGKILL``."""
        return signal.Signals(-self.status).name if self.status < 0 else f"exit status {self.status}"


def _of(arguments: Mapping[str, Any]) -> str:
    """What was asked for, in words."""
    match arguments:
        case {"path": path}:
            return str(path)
        case {"argv": [program, *_]}:
            return str(program)
        case {"child": child}:
            return f"child {child}"
    return "the host's settings"


class Custody:
    """A guardian of one's own. Leaving the ``with`` block stops what is left and restores the host."""

    def __init__(self, keep_open: Sequence[int] = ()) -> None:
        """``keep_open``: descriptors that the guardian holds too until it has cleaned up (the directory's lock)."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._sock = ours
        self._next = 0
        self._exits: dict[int, Exit] = {}
        self._before: dict[str, str] = {}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", guardian.__file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno(), *keep_open],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the guardian clean up and wait until it has."""
        self._sock.close()
        if self._process.wait() != 0:
            self._restore_ourselves()

    def spawn(self, argv: Sequence[str], env: Mapping[str, str], stdout: Path, **how: Any) -> "Child":
        """Start a process. ``how``: see :meth:`dballoc.host.guardian.Guardian.do_spawn`. Failure if it cannot start."""
        how = {k: os.fspath(v) if isinstance(v, Path) else v for k, v in how.items()}
        reply = self._ask("spawn", argv=list(argv), env=dict(env), stdout=os.fspath(stdout), **how)
        return Child(self, reply["pid"], reply["child"])

    def set(self, path: str, value: str) -> None:
        """Change a host setting; it is restored at the end, whatever happens. Failure if it cannot be changed."""
        self._before.setdefault(path, self._ask("set", path=path, value=value)["before"])

    def restore(self) -> None:
        """Put all host settings back now."""
        self._ask("restore")
        self._before.clear()

    def scratch(self, path: Path) -> None:
        """Have a directory removed at the end, whatever happens."""
        self._ask("scratch", path=os.fspath(path))

    def cgroup(self, path: Path) -> None:
        """Have a cgroup removed at the end, whatever happens."""
        self._ask("cgroup", path=os.fspath(path))

    @property
    def cpu_seconds(self) -> float:
        """What all children that have ended used."""
        return sum(e.user + e.system for e in self._exits.values())

    def exit_of(self, number: int, timeout: float = 0) -> Exit | None:
        """How the child of that number ended, or None if it has not within ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while number not in self._exits:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._sock], [], [], left)[0]:
                return None
            self._receive()
        return self._exits[number]

    def _ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        self._next += 1
        try:
            self._sock.send(json.dumps({"id": self._next, "do": what, "with": arguments}).encode())
        except OSError:
            self._gone()
        while True:
            message = self._receive()
            if message.get("id") == self._next:
                if "error" in message:
                    raise Failure(f"cannot {what} {_of(arguments)}: {message['error']}")
                return message

    def _receive(self) -> dict[str, Any]:
        try:
            data = self._sock.recv(guardian.MESSAGE_LIMIT)
        except OSError:
            data = b""
        if not data:
            self._gone()
        message: dict[str, Any] = json.loads(data)
        if "exit" in message:
            number = message.pop("exit")
            self._exits[number] = Exit(**message)
        return message

    def _gone(self) -> None:
        self._restore_ourselves()
        raise Failure("dballoc's guardian process was killed; its servers ended with it. Run the same command to resume")

    def _restore_ourselves(self) -> None:
        while self._before:
            path, value = self._before.popitem()
            guardian.write_setting(path, value)


@dataclass(frozen=True)
class Child:
    """A process that the guardian started for us. ``number``: the guardian's, for the kernel gives a PID again."""

    custody: Custody
    pid: int
    number: int

    def poll(self) -> Exit | None:
        """How it ended, or None while it runs."""
        return self.custody.exit_of(self.number)

    def wait(self, timeout: float) -> Exit | None:
        """As :meth:`poll`, waiting up to ``timeout`` seconds."""
        return self.custody.exit_of(self.number, timeout)

    def send(self, number: signal.Signals) -> None:
        """Signal it and its process group."""
        self.custody._ask("signal", child=self.number, number=int(number))

    def stop(self, gently: signal.Signals, patience: float) -> Exit:
        """Ask with a signal, wait, then kill. Returns how it ended."""
        if (done := self.poll()) is None:
            self.send(gently)
            done = self.wait(patience)
        if done is None:
            self.send(signal.SIGKILL)
            done = self.wait(60)
        if done is None:
            raise Failure(f"process {self.pid} does not die, SIGKILL included; it is stuck in the kernel")
        return done
