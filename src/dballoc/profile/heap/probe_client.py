"""Ask the heap probe in a live process: where its socket is, and what it answers."""

import os
import re
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from dballoc import readers
from dballoc.errors import Failure, UsageError
from dballoc.host import open_in_process_root, process_maps
from dballoc.profile.heap.probe_snapshot import Damaged, Snapshot, parse_snapshot

VARIABLE = "DBALLOC_PROBE"
_NUMBER = re.compile(r"[0-9]{1,20}")
_REQUEST = re.compile(r"(\d+):(/.*)")
# Seconds to wait for a part of an answer. The probe serves one client at a time, and gives up on a
# slow one after ten seconds.
_PATIENCE = 30.0
# The largest answer, in bytes, and the longest, in seconds. A snapshot of a full table is 20 MiB;
# an answer beyond that, or one slower than any probe's, is not a probe's.
_MOST = 128 << 20
_LONGEST = 120.0


@dataclass(frozen=True)
class Probe:
    """The probe in a process, and its socket: the path ``socket`` inside ``root``.
    ``loaded_with``: the sampling interval that it started with, bytes, 0 if it was idle, None if
    that is not known.
    """

    pid: int
    root: Path
    socket: str
    loaded_with: int | None = None

    def status(self) -> dict[str, int]:
        """Return its figures by name: interval, live, peak (bytes, estimated), … . Failure if it
        does not answer.
        """
        lines = (
            line.partition(" ")
            for line in self._request("status").decode(errors="replace").splitlines()[1:]
        )
        return {name: int(value) for name, _, value in lines if _NUMBER.fullmatch(value)}

    def set_interval(self, size: int) -> None:
        """Have it sample one in ``size`` bytes from now on, nothing if 0. Failure if it does not
        answer, or refuses.
        """
        self._request(f"interval {size}")

    def reset(self) -> None:
        """Have it reset its sums, of what was allocated and of the time in malloc, but not what is
        alive. Failure if it does not answer.
        """
        self._request("reset")

    def snapshot(self) -> Snapshot:
        """Return a snapshot of its tables. Failure if it does not answer."""
        try:
            return parse_snapshot(self._request("snapshot"))
        except Damaged as error:
            raise Failure(f"the probe in process {self.pid}: {error}") from None

    def _request(self, line: str) -> bytes:
        try:
            answer = _exchange(self.root, self.socket, line.encode() + b"\n")
        except OSError as error:
            raise Failure(
                f"the probe in process {self.pid} does not answer: {error.strerror or error}"
            ) from None
        if answer.startswith(b"error "):
            raise Failure(
                f"the probe in process {self.pid}: "
                f"{answer.decode(errors='replace').strip().removeprefix('error ')}"
            )
        return answer


def find_probe_of_process(pid: int) -> Probe:
    """Find the probe in a process. UsageError, with how to get one, if there is none or we may not
    ask it.
    """
    home = Path(f"/proc/{pid}")
    try:
        environ = readers.of_process(home / "environ").split(b"\0")
        inside = _parse_inner_pid(readers.text_of_process(home / "status"))
        name = readers.text_of_process(home / "comm").strip()
    except PermissionError:
        raise UsageError(
            f"process {pid}: permission denied; run this as the process's user or as root"
        ) from None
    except OSError as error:
        raise UsageError(f"process {pid}: {error.strerror or error}") from None
    requests = [v for v in (os.fsdecode(e).partition(f"{VARIABLE}=")[2] for e in environ) if v]
    request = _REQUEST.fullmatch(requests[0]) if requests else None
    if request is None or "libdballoc_probe.so" not in process_maps.read_maps_text(pid):
        raise UsageError(
            f"process {pid} ({name}) has no heap probe; start the server under one: "
            "dballoc exec --probe heap --out DIR -- COMMAND"
        )
    root, path = open_in_process_root.root_of(pid), f"{request[2]}/{inside}.sock"
    try:
        listener = _find_peer(root, path)
    except OSError:
        raise UsageError(
            f"process {pid} ({name}): its probe does not listen on a socket in {request[2]}; the "
            "process's standard error says why"
        ) from None
    if listener != pid:
        raise UsageError(
            f"process {pid} ({name}): process {listener} answers on {path} instead of this "
            "process's probe"
        )
    return Probe(pid, root, path, int(request[1]))


def find_probe_in_directory(directory: Path) -> Probe:
    """Find the one probe that listens in a directory. UsageError if there is none, or more than
    one.
    """
    alive = []
    for path in sorted(directory.glob("*.sock")):
        try:
            answer = _exchange(directory, path.name, b"status\n")
        except OSError:
            continue  # left behind by a process that was killed
        if answer.startswith(b"ok") and path.stem.isdigit():
            alive.append(
                Probe(_find_peer(directory, path.name) or int(path.stem), directory, path.name)
            )
    if not alive:
        raise UsageError(
            f"{directory}: no probe listens there; is the program running, under dballoc exec "
            "--probe heap?"
        )
    if len(alive) > 1:
        raise UsageError(
            f"{directory}: probes of processes {', '.join(str(p.pid) for p in alive)} listen "
            "there; give --pid"
        )
    return alive[0]


def _exchange(root: Path, path: str, line: bytes) -> bytes:
    """Send a line and return the whole answer. OSError if that fails, or if it is not a probe's
    answer.
    """
    with _connect(root, path) as connection:
        connection.sendall(line)
        parts, size, end = [], 0, time.monotonic() + _LONGEST
        while part := connection.recv(1 << 16):
            parts.append(part)
            size += len(part)
            if size > _MOST:
                raise OSError("its answer is longer than any probe's")
            if time.monotonic() > end:
                raise OSError("its answer takes longer than any probe's")
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
        with open_in_process_root.open_socket(root, path) as address:
            connection.connect(address)
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
