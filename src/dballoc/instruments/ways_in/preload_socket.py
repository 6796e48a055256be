"""Find the socket of a preload of ours in a live process, and ask it: one line, one answer.

The process may be hostile: an answer is bounded in bytes and time, and its socket is opened inside
its root.
"""

import dataclasses
import errno
import os
import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dballoc.experiment.durations_and_sizes import format_size
from dballoc.ground.errors import Failure, UsageError
from dballoc.host.abandonable import touches
from dballoc.host.abandonable.abandonable_work import run_abandonable
from dballoc.host.abandonable.look_limits import look_limits
from dballoc.host.process import maps, open_in_process_root
from dballoc.host.process.handle import Process, read_peer
from dballoc.host.process.read_rights import describe_read_error, open_process

# How often somebody is looked for within a second.
_ATTEMPTS = 10
# Sockets of one directory that are asked, in so many seconds together.
_MOST_SOCKETS, _DIRECTORY_SECONDS = 16, 10.0
_MOST_NAMES = 10_000
_SOCKET = re.compile(r"[0-9]{1,9}\.sock")


class _Limit(NamedTuple):
    """The most bytes and seconds of an answer."""

    bytes: int
    seconds: float


# A preload serves one client at a time, and gives up on a slow one after ten seconds. A snapshot
# of a full table is 20 MiB.
_STATUS, _SNAPSHOT = _Limit(64 << 10, 15.0), _Limit(128 << 20, 120.0)


@dataclass(frozen=True, kw_only=True)
class PreloadKind:
    """``noun``: what messages call it; ``option``: of ``exec --probe``. ``variable`` of the
    environment switches it on, and its value fits ``request``, whose last group is the socket's
    directory. ``status``: a name in its status that no other kind has. ``flag``: sets its size in
    bytes, by default ``size``, from ``least`` to ``largest``.
    """

    noun: str
    option: str
    library: str
    variable: str
    request: re.Pattern[str]
    status: str
    flag: str
    size: int
    least: int
    largest: int

    def check_size(self, size: int) -> None:
        """Check the value of its flag. Raises UsageError if it takes no such size."""
        if not self.least <= size <= self.largest:
            raise UsageError(
                f"{self.flag} {format_size(size)}: must be from {format_size(self.least)} to "
                f"{format_size(self.largest)}"
            )


# Its size: one sample in so many bytes. 0 in its request: an idle probe.
HEAP_PROBE = PreloadKind(
    noun="heap probe",
    option="heap",
    library="libdballoc_probe.so",
    variable="DBALLOC_PROBE",
    request=re.compile(r"(\d+):(/.*)"),
    status="interval",
    flag="--interval",
    size=512 << 10,
    least=2**10,
    largest=2**40,
)
# Its size: what a recording's file may take; by default, as much as compiles to a trace (some 80
# million events).
RECORDER = PreloadKind(
    noun="recorder",
    option="trace",
    library="libdballoc_trace.so",
    variable="DBALLOC_TRACE",
    request=re.compile(r"(start|idle):\d+:(/.*)"),
    status="recording",
    flag="--limit",
    size=512 << 20,
    least=2**20,
    largest=2**50,
)


@dataclass(frozen=True, kw_only=True)
class PreloadSocket:
    """The socket of a preload in a process: the path ``path`` inside ``root``. ``request``: the
    groups of what it was loaded with, empty if that is not known.
    """

    kind: PreloadKind
    process: Process
    root: Path
    path: str
    request: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """What messages call it."""
        return f"the {self.kind.noun.split()[-1]} in {self.process}"

    def ask(self, line: str) -> bytes:
        """Return the answer to a request. Raises Failure if there is none, it is an error, or
        another process listens there.
        """
        limit = _SNAPSHOT if line == "snapshot" else _STATUS
        limits = look_limits()
        limits = dataclasses.replace(limits, seconds=limit.seconds + limits.patience)
        request, pid = line.encode() + b"\n", self.process.pid
        try:
            answer = run_abandonable(
                lambda: _exchange(self.root, self.path, request, limit, lambda peer: peer == pid),
                self.subject,
                limits,
            )
        except OSError as error:
            raise Failure(f"{self.subject} does not answer: {error.strerror or error}") from None
        if answer.startswith(b"error "):
            reason = answer.decode(errors="replace").strip().removeprefix("error ")
            raise Failure(f"{self.subject}: {reason}")
        return answer

    def has_gone(self) -> bool:
        """Whether nobody has listened there for a second, as after the end of the program. One that
        closes all its files is asked again.
        """
        return run_abandonable(lambda: _has_gone(self.root, self.path), self.process)


def _has_gone(root: Path, path: str) -> bool:
    for _ in range(_ATTEMPTS):
        try:
            _connect(root, path, _STATUS.seconds).close()
        except (FileNotFoundError, ConnectionRefusedError, ProcessLookupError):
            time.sleep(1 / _ATTEMPTS)
        except OSError:
            return False
        else:
            return False
    return True


_FIGURE = re.compile(r"[0-9]{1,20}")


def parse_status(answer: bytes) -> dict[str, str]:
    """Return the lines ``name value`` of a status by name."""
    lines = (line.partition(" ") for line in answer.decode(errors="replace").splitlines()[1:])
    return {name: value for name, _, value in lines}


def select_figures(status: dict[str, str]) -> dict[str, int]:
    """Return the values of a status that are numbers."""
    return {name: int(value) for name, value in status.items() if _FIGURE.fullmatch(value)}


def find_preload_of_process(process: Process, kind: PreloadKind) -> PreloadSocket:
    """Find a preload in a process. UsageError, with how to get one, if there is none or we may not
    ask it.
    """
    path, request = run_abandonable(lambda: _find_in_process(process, kind), process)
    return PreloadSocket(kind=kind, process=process, root=process.root, path=path, request=request)


def _find_in_process(process: Process, kind: PreloadKind) -> tuple[str, tuple[str, ...]]:
    """Return the path of the socket in the process's root, and the groups of its request."""
    try:
        environ = process.read("environ").split(b"\0")
        inside = _read_inner_pid(process)
        named = f"{process} ({process.read_text('comm').strip()})"
    except OSError as error:
        raise UsageError(describe_read_error(process, error)) from None
    requests = [v for v in (os.fsdecode(e).partition(f"{kind.variable}=")[2] for e in environ) if v]
    request = kind.request.fullmatch(requests[0]) if requests else None
    if request is None or kind.library not in maps.read_maps_text(process):
        raise UsageError(
            f"{named} has no {kind.noun}; start the server under one: "
            f"dballoc exec --probe {kind.option} --out DIR -- COMMAND"
        )
    root, path = process.root, f"{request[request.re.groups]}/{inside}.sock"
    try:
        listener = _find_peer(root, path)
    except OSError:
        raise UsageError(
            f"{named}: its {kind.noun.split()[-1]} does not listen on a socket in "
            f"{request[request.re.groups]}; the process's standard error says why"
        ) from None
    if listener != process.pid:
        raise UsageError(
            f"{named}: process {listener} answers on {path} instead of this "
            f"process's {kind.noun.split()[-1]}"
        )
    return path, request.groups()


def find_preload_in_directory(directory: Path, kind: PreloadKind) -> PreloadSocket:
    """Find the one preload of a kind that listens in a directory. Raises UsageError if there is
    none, or more than one.
    """
    alive = run_abandonable(lambda: _find_in_directory(directory, kind), directory)
    if not alive:
        raise UsageError(
            f"{directory}: no {kind.noun.split()[-1]} listens there; is the program running, "
            f"under dballoc exec --probe {kind.option}?"
        )
    if len(alive) > 1:
        raise UsageError(
            f"{directory}: {kind.noun.split()[-1]}s of processes "
            f"{', '.join(str(pid) for pid in alive.values())} listen there; give --pid"
        )
    ((name, pid),) = alive.items()
    return PreloadSocket(kind=kind, process=open_process(pid), root=directory, path=name)


def _find_in_directory(directory: Path, kind: PreloadKind) -> dict[str, int]:
    """Return the names of the sockets on which a preload of a kind answers, with its PID."""
    alive: dict[str, int] = {}
    until = time.monotonic() + _DIRECTORY_SECONDS
    try:
        names = open_in_process_root.list_directory(directory, "/", _MOST_NAMES)
    except OSError:
        return {}
    for name in [n for n in names if _SOCKET.fullmatch(n)][:_MOST_SOCKETS]:
        peers: list[int] = []

        def accept(peer: int, name: str = name, peers: list[int] = peers) -> bool:
            peers.append(peer)
            return _read_inner_pid(Process.open(peer)) == int(name.removesuffix(".sock"))

        limit = _STATUS._replace(seconds=max(0.0, until - time.monotonic()))
        try:
            answer = _exchange(directory, name, b"status\n", limit, accept)
        except OSError:
            continue  # left behind by a process that was killed
        if kind.status in parse_status(answer):
            alive[name] = peers[0]
    return alive


def _exchange(
    root: Path, path: str, line: bytes, limit: _Limit, accept: Callable[[int], bool]
) -> bytes:
    """Send a line and return the whole answer. Raises OSError if that fails, if it is not a
    preload's answer, or unless ``accept`` takes the PID of the process that listens there: before
    it is sent or read anything.
    """
    until = time.monotonic() + limit.seconds
    with _connect(root, path, limit.seconds) as connection:
        if not accept(peer := _read_peer(connection)):
            raise OSError(
                errno.EPERM, f"process {peer or 'of another PID namespace'} answers there"
            )
        connection.sendall(line)
        parts, size = [], 0
        while part := connection.recv(1 << 16):
            parts.append(part)
            size += len(part)
            if size > limit.bytes:
                raise OSError(errno.EMSGSIZE, "its answer is longer than any preload's")
            if (remaining := until - time.monotonic()) <= 0:
                raise OSError(errno.ETIMEDOUT, "its answer takes longer than any preload's")
            connection.settimeout(remaining)
    return b"".join(parts)


def _read_peer(connection: socket.socket) -> int:
    """Return the PID, in our namespace, of the process that listens at the other end; 0 if it is in
    another PID namespace. Raises OSError if it has ended, or if that PID is another user's by now.
    """
    pid, user = read_peer(connection)
    if pid and user not in Process.open(pid).read_users():
        raise PermissionError(errno.EPERM, f"a process of user {user} answers there")
    return pid


def _find_peer(root: Path, path: str) -> int:
    """Return the PID of the process that listens on a socket, as :func:`_read_peer`."""
    with _connect(root, path, _STATUS.seconds) as connection:
        pid = _read_peer(connection)
        connection.sendall(b"status\n")
        return pid


def _connect(root: Path, path: str, seconds: float) -> socket.socket:
    """Connect to the socket file at a path below ``root``, which may be of any length."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(max(0.001, min(seconds, touches.count_seconds_left())))
        open_in_process_root.connect_to_socket(connection, root, path)
    except OSError:
        connection.close()
        raise
    return connection


def _read_inner_pid(process: Process) -> int:
    """Return a process's PID in its own PID namespace (proc(5), NSpid). Raises OSError if it has
    ended, or the kernel shows none.
    """
    if numbers := process.read_status().get("NSpid", "").split():
        return int(numbers[-1])
    raise OSError("the kernel shows no NSpid in its status")
