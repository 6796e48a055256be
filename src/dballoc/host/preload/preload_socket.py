"""Find the socket of a preload of ours in a live process, and ask it: one line, one answer.

The process may be hostile: an answer is bounded in bytes and time, and its socket is opened inside
its root.
"""

import os
import re
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from dballoc import readers
from dballoc.errors import Failure, UsageError
from dballoc.host import open_in_process_root, process_maps
from dballoc.host.read_rights import describe_absence, describe_refusal

# Seconds to wait for a part of an answer. A preload serves one client at a time, and gives up on a
# slow one after ten seconds.
_PATIENCE = 30.0
# How often somebody is looked for within a second.
_ATTEMPTS = 10
# The largest answer, in bytes, and the longest, in seconds. A snapshot of a full table is 20 MiB;
# an answer beyond that, or one slower than any preload's, is not a preload's.
_MOST = 128 << 20
_LONGEST = 120.0


@dataclass(frozen=True, kw_only=True)
class PreloadKind:
    """``noun``: what messages call it; ``option``: of ``exec --probe``. ``variable`` of the
    environment switches it on, and its value fits ``request``, whose last group is the socket's
    directory. ``status``: a name in its status that no other kind has.
    """

    noun: str
    option: str
    library: str
    variable: str
    request: re.Pattern[str]
    status: str


HEAP_PROBE = PreloadKind(
    noun="heap probe",
    option="heap",
    library="libdballoc_probe.so",
    variable="DBALLOC_PROBE",
    request=re.compile(r"(\d+):(/.*)"),
    status="interval",
)
RECORDER = PreloadKind(
    noun="recorder",
    option="trace",
    library="libdballoc_trace.so",
    variable="DBALLOC_TRACE",
    request=re.compile(r"(start|idle):\d+:(/.*)"),
    status="recording",
)


@dataclass(frozen=True, kw_only=True)
class PreloadSocket:
    """The socket of a preload in a process: the path ``path`` inside ``root``. ``request``: the
    groups of what it was loaded with, empty if that is not known.
    """

    kind: PreloadKind
    pid: int
    root: Path
    path: str
    request: tuple[str, ...] = ()

    def ask(self, line: str) -> bytes:
        """Return the answer to a request. Failure if there is none, or it is an error."""
        return ask_preload(
            self.root, self.path, line, f"the {self.kind.noun} in process {self.pid}"
        )

    def has_gone(self) -> bool:
        """Whether nobody has listened there for a second, as after the end of the program. One that
        closes all its files is asked again.
        """
        for _ in range(_ATTEMPTS):
            try:
                _connect(self.root, self.path).close()
            except (FileNotFoundError, ConnectionRefusedError, ProcessLookupError):
                time.sleep(1 / _ATTEMPTS)
            except OSError:
                return False
            else:
                return False
        return True


def ask_preload(root: Path, path: str, line: str, subject: str) -> bytes:
    """Return the answer to a request. Failure, about ``subject``, if there is none, or it is an
    error.
    """
    try:
        answer = _exchange(root, path, line.encode() + b"\n")
    except OSError as error:
        raise Failure(f"{subject} does not answer: {error.strerror or error}") from None
    if answer.startswith(b"error "):
        raise Failure(
            f"{subject}: {answer.decode(errors='replace').strip().removeprefix('error ')}"
        )
    return answer


_FIGURE = re.compile(r"[0-9]{1,20}")


def parse_status(answer: bytes) -> dict[str, str]:
    """Return the lines ``name value`` of a status by name."""
    lines = (line.partition(" ") for line in answer.decode(errors="replace").splitlines()[1:])
    return {name: value for name, _, value in lines}


def select_figures(status: dict[str, str]) -> dict[str, int]:
    """Return the values of a status that are numbers."""
    return {name: int(value) for name, value in status.items() if _FIGURE.fullmatch(value)}


def find_preload_of_process(pid: int, kind: PreloadKind) -> PreloadSocket:
    """Find a preload in a process. UsageError, with how to get one, if there is none or we may not
    ask it.
    """
    home = Path(f"/proc/{pid}")
    try:
        environ = readers.of_process(home / "environ").split(b"\0")
        inside = _parse_inner_pid(readers.text_of_process(home / "status"))
        name = readers.text_of_process(home / "comm").strip()
    except PermissionError as error:
        raise UsageError(f"process {pid}: {error.strerror}; {describe_refusal(pid)}") from None
    except FileNotFoundError:
        raise UsageError(describe_absence(pid)) from None
    except OSError as error:
        raise UsageError(f"process {pid}: {error.strerror or error}") from None
    requests = [v for v in (os.fsdecode(e).partition(f"{kind.variable}=")[2] for e in environ) if v]
    request = kind.request.fullmatch(requests[0]) if requests else None
    if request is None or kind.library not in process_maps.read_maps_text(pid):
        raise UsageError(
            f"process {pid} ({name}) has no {kind.noun}; start the server under one: "
            f"dballoc exec --probe {kind.option} --out DIR -- COMMAND"
        )
    root, path = open_in_process_root.root_of(pid), f"{request[request.re.groups]}/{inside}.sock"
    try:
        listener = _find_peer(root, path)
    except OSError:
        raise UsageError(
            f"process {pid} ({name}): its {kind.noun.split()[-1]} does not listen on a socket in "
            f"{request[request.re.groups]}; the process's standard error says why"
        ) from None
    if listener != pid:
        raise UsageError(
            f"process {pid} ({name}): process {listener} answers on {path} instead of this "
            f"process's {kind.noun.split()[-1]}"
        )
    return PreloadSocket(kind=kind, pid=pid, root=root, path=path, request=request.groups())


def find_preload_in_directory(directory: Path, kind: PreloadKind) -> PreloadSocket:
    """Find the one preload of a kind that listens in a directory. UsageError if there is none, or
    more than one.
    """
    alive = []
    for path in sorted(directory.glob("*.sock")):
        try:
            answer = _exchange(directory, path.name, b"status\n")
        except OSError:
            continue  # left behind by a process that was killed
        if path.stem.isdigit() and kind.status in parse_status(answer):
            pid = _find_peer(directory, path.name) or int(path.stem)
            alive.append(PreloadSocket(kind=kind, pid=pid, root=directory, path=path.name))
    if not alive:
        raise UsageError(
            f"{directory}: no {kind.noun.split()[-1]} listens there; is the program running, "
            f"under dballoc exec --probe {kind.option}?"
        )
    if len(alive) > 1:
        raise UsageError(
            f"{directory}: {kind.noun.split()[-1]}s of processes "
            f"{', '.join(str(p.pid) for p in alive)} listen there; give --pid"
        )
    return alive[0]


def _exchange(root: Path, path: str, line: bytes) -> bytes:
    """Send a line and return the whole answer. OSError if that fails, or if it is not a preload's
    answer.
    """
    with _connect(root, path) as connection:
        connection.sendall(line)
        parts, size, end = [], 0, time.monotonic() + _LONGEST
        while part := connection.recv(1 << 16):
            parts.append(part)
            size += len(part)
            if size > _MOST:
                raise OSError("its answer is longer than any preload's")
            if time.monotonic() > end:
                raise OSError("its answer takes longer than any preload's")
    return b"".join(parts)


def _find_peer(root: Path, path: str) -> int:
    """Return the PID, in our namespace, of the process that listens on a socket; 0 if it is in
    another PID namespace.
    """
    with _connect(root, path) as connection:
        pid = int.from_bytes(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], "little"
        )
        connection.sendall(b"status\n")
        return pid


def _connect(root: Path, path: str) -> socket.socket:
    """Connect to the socket file at a path below ``root``, which may be of any length."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(_PATIENCE)
        open_in_process_root.connect_to_socket(connection, root, path)
    except OSError:
        connection.close()
        raise
    return connection


def _parse_inner_pid(status: str) -> int:
    """Parse the process's PID in its own PID namespace (proc(5), NSpid)."""
    for line in readers.rows(status):
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    raise OSError("the kernel shows no NSpid in its status")
