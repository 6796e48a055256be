"""A child process without rights that parses what a hostile process may have written.

It gets open descriptors and plain values, and answers with plain values: it opens no path. Before
it reads the first byte it has become the unprivileged user (where we are root), sees an empty file
system, has no network, has no capability, and cannot start processes, gain rights, write large
files, or exceed bounds of memory and CPU. A container may not let its root change user or root
directory: there it goes on as what it is, without a capability, like the child of an ordinary user.
If it crashes, hangs or answers nonsense, the caller gets :class:`SandboxError`.

The functions that it runs are those of one module, listed there as ``SANDBOXED``. Each takes its
descriptors first, then its values. ``sandbox_messages.py`` has the form of requests and answers.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dballoc.host.unprivileged.sandbox_messages import (
    HEAD,
    MOST_ANSWER,
    MOST_DESCRIPTORS,
    MOST_REQUEST,
    receive_message,
)

SECONDS = 60.0  # for one call
_SECONDS_TO_START = 30.0
_SECONDS_TO_END = 1.0
_MOST_REASON = 300  # characters

_START = """
import sys
sys.path[:0] = [sys.argv[1]]
from dballoc.host.unprivileged import sandbox_child
getattr(sandbox_child, sys.argv[2])(sys.argv[3], int(sys.argv[4]))
"""


class SandboxError(Exception):
    """The call has no result: the parser refused, crashed, or took too long. One line."""


@dataclass
class _SandboxChild:
    """A running child. ``process``: None where another process has made it and waits for it;
    ``cpu``: seconds that it has told; ``served``: whether it has answered.
    """

    talk: socket.socket
    process: subprocess.Popen[bytes] | None
    cpu: float = 0.0
    served: bool = False

    def end(self) -> None:
        """End it. One that another process made ends when its socket closes, or its time is up."""
        self.talk.close()
        if self.process is not None:
            # One that has another user, since we gave up our own, ends as its socket closes.
            with contextlib.suppress(PermissionError):
                self.process.kill()
            # A parser whose file is on a file system that does not answer cannot be killed.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_SECONDS_TO_END)


class Sandbox:
    """One child for one module, started at the first call, and anew after it had to be ended."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._child: _SandboxChild | None = None
        self._maker: _SandboxChild | None = None
        self._cpu = 0.0

    @property
    def cpu_seconds(self) -> float:
        """CPU time of all calls so far. A child says itself what it took, but counts for no more
        than the call took by the clock; a call without an answer counts by the clock.
        """
        return self._cpu

    def prepare_children(self) -> None:
        """Start now a process that makes the children later: for who becomes a user who may not
        pass to where our own interpreter is. Raises SandboxError if it cannot begin.
        """
        with self._lock:
            try:
                self._maker = _SandboxChild(*self._run("serve_children"))
                deadline = time.monotonic() + _SECONDS_TO_START
                reason = receive_message(self._maker.talk, MOST_ANSWER, deadline)["refused"]
            except (OSError, ValueError, KeyError, TypeError) as error:
                reason = _format_reason(error)
            if reason:
                raise SandboxError(f"its parser cannot begin: {reason}")

    def call(
        self, function: str, files: Sequence[int], *values: Any, seconds: float = SECONDS
    ) -> Any:
        """Run a function of the module on open descriptors and plain values, and return its result.
        Raises SandboxError if it fails, or takes longer than ``seconds``.
        """
        request = {"function": function, "files": len(files), "values": values, "seconds": seconds}
        data = json.dumps(request).encode()
        with self._lock:
            began = time.monotonic()
            while True:
                child = self._child = self._child or self._start()
                try:
                    return self._exchange(child, data, files, began, seconds)
                except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
                    self._end()
                    # What it has served may have used up its CPU time: a new one is asked once.
                    if isinstance(error, ConnectionError) and child.served:
                        continue
                    raise SandboxError(f"its parser ended: {_format_reason(error)}") from None
                except SandboxError:
                    raise
                except BaseException:
                    self._end()
                    raise

    def close(self) -> None:
        """Stop the parser process and the process that forks parsers."""
        with self._lock:
            self._end()
            if self._maker is not None:
                self._maker.end()
            self._maker = None

    @property
    def descriptors(self) -> list[int]:
        """Those that a forked child of this process needs to go on with a sandbox of its own."""
        return [] if self._maker is None else [self._maker.talk.fileno()]

    def forget_child(self) -> None:
        """Leave the running child to the process that this one was forked from."""
        self._child, self._cpu = None, 0.0

    def _start(self) -> _SandboxChild:
        try:
            if self._maker is None:
                return _SandboxChild(*self._run("serve"))
            our_end, child_end = socket.socketpair()
            with child_end:
                socket.send_fds(self._maker.talk, [b"c"], [child_end.fileno()])
            return _SandboxChild(our_end, None)
        except OSError as error:
            raise SandboxError(f"its parser cannot be started: {error}") from None

    def _run(self, role: str) -> tuple[socket.socket, "subprocess.Popen[bytes]"]:
        """Start an interpreter for a function of ``sandbox_child.py``, and return our end of its
        socket.
        """
        our_end, child_end = socket.socketpair()
        package = os.fspath(Path(__file__).resolve().parents[3])
        descriptor = child_end.fileno()
        try:
            with child_end:
                words = [package, role, self._module, str(descriptor)]
                process = subprocess.Popen(
                    [sys.executable, "-I", "-B", "-c", _START, *words],
                    pass_fds=[descriptor],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={},
                    cwd="/",
                    start_new_session=True,
                )
        except BaseException:
            our_end.close()
            raise
        return our_end, process

    def _end(self) -> None:
        if self._child is not None:
            self._child.end()
        self._child = None

    def _exchange(
        self,
        child: _SandboxChild,
        request: bytes,
        files: Sequence[int],
        began: float,
        seconds: float,
    ) -> Any:
        cpu_since = float("nan")
        try:
            if len(request) > MOST_REQUEST or len(files) > MOST_DESCRIPTORS:
                raise ValueError("the request is too large")
            child.talk.settimeout(seconds)
            # Descriptors travel with the first bytes.
            socket.send_fds(child.talk, [HEAD.pack(len(request))], list(files))
            child.talk.sendall(request)
            answer = receive_message(child.talk, MOST_ANSWER, began + seconds)
            cpu_since = answer["cpu"] - child.cpu
        finally:
            elapsed = time.monotonic() - began
            self._cpu += cpu_since if 0 <= cpu_since <= elapsed else elapsed
        child.cpu, child.served = answer["cpu"], True
        if "refused" in answer:
            raise SandboxError(str(answer["refused"])[:_MOST_REASON])
        return answer["result"]


# For all queries of ELF files: each answer depends on the file alone, so that one child serves a
# whole command.
ELF_PARSER = Sandbox("dballoc.host.elf.elf_parser")


def _format_reason(error: BaseException) -> str:
    return "it took too long" if isinstance(error, TimeoutError) else str(error) or "no answer"
