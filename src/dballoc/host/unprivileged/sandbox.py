"""A child process without rights that parses what a hostile process may have written.

It gets open descriptors and plain values, and answers with plain values: it opens no path. Before
it reads the first byte it has become the unprivileged user (where we are root), sees an empty file
system, has no network, and cannot start processes, gain rights, write large files, or exceed bounds
of memory and CPU. If it crashes, hangs or answers nonsense, the caller gets :class:`SandboxError`.

The functions that it runs are those of one module, listed there as ``SANDBOXED``. Each takes its
descriptors first, then its values.

Messages, both ways: the length in four bytes, big-endian, then that much JSON.
"""

import contextlib
import ctypes
import importlib
import json
import os
import resource
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dballoc.host.unprivileged.server_user import parser_user

SECONDS = 60.0  # for one call
_CPU_SECONDS = 600  # for all calls
_MEMORY = 4 << 30  # of address space: mapped files count
_FILE_SIZE = 512 << 20
_MOST_REQUEST, _MOST_ANSWER = 1 << 20, 16 << 20
_DESCRIPTORS = 16  # in one call

_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38  # <linux/prctl.h>
_CLONE_NEWIPC, _CLONE_NEWNET = 0x08000000, 0x40000000  # <linux/sched.h>

_libc = ctypes.CDLL(None, use_errno=True)

_START = """
import sys
sys.path[:0] = [sys.argv[1]]
from dballoc.host.unprivileged import sandbox
sandbox.serve(sys.argv[2], int(sys.argv[3]))
"""


class SandboxError(Exception):
    """The call has no result: the parser refused, crashed, or took too long. One line."""


class Sandbox:
    """One child for one module, started at the first call, and anew after it had to be ended."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def call(
        self, function: str, files: Sequence[int], *values: Any, seconds: float = SECONDS
    ) -> Any:
        """Run a function of the module on open descriptors and plain values, and return its result.
        SandboxError if it fails, or takes longer than ``seconds``.
        """
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._end()
                self._start()
            try:
                return self._exchange(function, files, values, time.monotonic() + seconds)
            except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
                self._end()
                raise SandboxError(f"its parser ended: {_format_reason(error)}") from None
            except BaseException:
                self._end()
                raise

    def close(self) -> None:
        """End the child."""
        with self._lock:
            self._end()

    def _start(self) -> None:
        our_end, child_end = socket.socketpair()
        package = Path(__file__).resolve().parents[3]
        with child_end:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-c",
                    _START,
                    os.fspath(package),
                    self._module,
                    str(child_end.fileno()),
                ],
                pass_fds=[child_end.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
            )
        self._socket = our_end

    def _end(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._socket = self._process = None

    def _exchange(
        self, function: str, files: Sequence[int], values: Sequence[Any], deadline: float
    ) -> Any:
        assert self._socket is not None
        request = json.dumps({"function": function, "files": len(files), "values": values}).encode()
        if len(request) > _MOST_REQUEST or len(files) > _DESCRIPTORS:
            raise ValueError("the request is too large")
        self._socket.settimeout(max(0.1, deadline - time.monotonic()))
        head = struct.pack(">I", len(request))
        # Descriptors travel with the first bytes.
        socket.send_fds(self._socket, [head], list(files))
        self._socket.sendall(request)
        answer = _receive(self._socket, _MOST_ANSWER, deadline)
        message = json.loads(answer)
        if "refused" in message:
            raise SandboxError(str(message["refused"])[:200])
        return message["result"]


# For all queries of ELF files: each answer depends on the file alone, so that one child serves a
# whole command.
ELF_PARSER = Sandbox("dballoc.host.elf.elf_parser")


def serve(module: str, descriptor: int) -> None:
    """Be the child: give up all rights, then answer until the other end closes."""
    functions = importlib.import_module(module).SANDBOXED
    _give_up_rights()
    with socket.socket(fileno=descriptor) as talk:
        while True:
            head, files, _, _ = socket.recv_fds(talk, 4, _DESCRIPTORS)
            if len(head) < 4:
                return
            request = json.loads(_receive(talk, _MOST_REQUEST, None, head))
            try:
                answer = {"result": functions[request["function"]](*files, *request["values"])}
            except MemoryError:
                answer = {"refused": "it needs more memory than the sandbox allows"}
            except Exception as error:
                answer = {"refused": str(error).partition("\n")[0] or type(error).__name__}
            finally:
                for fd in files:
                    with contextlib.suppress(OSError):  # a function may have closed it
                        os.close(fd)
            data = json.dumps(answer).encode()
            talk.sendall(struct.pack(">I", len(data)) + data)


def popen_as_unprivileged() -> dict[str, Any]:
    """Return the arguments with which :class:`subprocess.Popen` starts a program as the
    unprivileged user; none where we are not root.
    """
    user = parser_user()
    return {} if user.uid is None else {"user": user.uid, "group": user.uid, "extra_groups": []}


def limit_process() -> None:
    """Prevent this process from gaining rights, starting others and exceeding its bounds. OSError
    if that fails.

    For ``preexec_fn``, after a change of user.
    """
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    for limit, most in (
        (resource.RLIMIT_AS, _MEMORY),
        (resource.RLIMIT_CPU, _CPU_SECONDS),
        (resource.RLIMIT_FSIZE, _FILE_SIZE),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(limit)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (most, most))


def _give_up_rights() -> None:
    """Give up network, file system and user, in this order, and limit the rest. OSError if that
    fails.
    """
    if os.geteuid() == 0:
        user = parser_user()
        assert user.uid is not None
        _libc.unshare(_CLONE_NEWNET | _CLONE_NEWIPC)  # some containers forbid it
        # /proc/self/fdinfo has nothing that can be opened once the owner of the process has
        # changed.
        os.chroot("/proc/self/fdinfo")
        os.chdir("/")
        os.setgroups([])
        os.setresgid(user.uid, user.uid, user.uid)
        os.setresuid(user.uid, user.uid, user.uid)
    limit_process()


def _receive(talk: socket.socket, most: int, deadline: float | None, head: bytes = b"") -> bytes:
    head = head or _receive_exactly(talk, 4, deadline)
    (length,) = struct.unpack(">I", head)
    if length > most:
        raise ValueError("a message is too large")
    return _receive_exactly(talk, length, deadline)


def _receive_exactly(talk: socket.socket, count: int, deadline: float | None) -> bytes:
    pieces = []
    while count:
        if deadline is not None:
            talk.settimeout(max(0.001, deadline - time.monotonic()))
        piece = talk.recv(min(count, 1 << 16))
        if not piece:
            raise ConnectionError("it closed its socket")
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def _format_reason(error: BaseException) -> str:
    return "it took too long" if isinstance(error, TimeoutError) else str(error) or "no answer"
