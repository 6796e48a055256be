"""Talking to the heap probe in a live process: where its socket is, and what it answers."""

import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from dballoc.errors import Failure, UsageError
from dballoc.profile.snapshot import Damaged, Snapshot, read

VARIABLE = "DBALLOC_PROBE"
_REQUEST = re.compile(r"(\d+):(/.*)")
# The probe serves one client at a time, and gives up on a slow one after ten seconds.
_PATIENCE = 30.0
# A snapshot of a full table is 20 MiB; more than this is no probe's.
_MOST = 1 << 30


@dataclass(frozen=True)
class Probe:
    """A process with the probe in it, and its socket as we can reach it. ``loaded_with``: the interval of its start, bytes, 0
    if it was idle then, None if that is not known.
    """

    pid: int
    socket: Path
    loaded_with: int | None = None

    def status(self) -> dict[str, int]:
        """Its figures by name: interval, live, peak (bytes, estimated), … . Failure if it does not answer."""
        lines = (line.partition(" ") for line in self._ask("status").decode(errors="replace").splitlines()[1:])
        return {name: int(value) for name, _, value in lines if value.isdigit()}

    def set_interval(self, size: int) -> None:
        """Sample one in so many bytes from now on; 0: none. Failure if it does not answer, or refuses."""
        self._ask(f"interval {size}")

    def reset(self) -> None:
        """Set its sums to 0: what was allocated, time in malloc. What is alive stays. Failure if it does not answer."""
        self._ask("reset")

    def snapshot(self) -> Snapshot:
        """All that it knows. Failure if it does not answer."""
        try:
            return read(self._ask("snapshot"))
        except Damaged as error:
            raise Failure(f"the probe in process {self.pid}: {error}") from None

    def _ask(self, line: str) -> bytes:
        try:
            said = _talk(self.socket, line.encode() + b"\n")
        except OSError as error:
            raise Failure(f"the probe in process {self.pid} does not answer: {error.strerror or error}") from None
        if said.startswith(b"error "):
            raise Failure(f"the probe in process {self.pid}: {said.decode(errors='replace').strip().removeprefix('error ')}")
        return said


def of_process(pid: int) -> Probe:
    """The probe in that process. UsageError in one line, with how to get one, if there is none or it is not ours to ask."""
    home = Path(f"/proc/{pid}")
    try:
        environ = (home / "environ").read_bytes().split(b"\0")
        inside = _inner_pid((home / "status").read_text())
        name = (home / "comm").read_text().strip()
    except PermissionError:
        raise UsageError(f"process {pid} is not ours to look at; run this as its user or as root") from None
    except OSError as error:
        raise UsageError(f"process {pid}: {error.strerror or error}") from None
    asked = [v for v in (os.fsdecode(e).partition(f"{VARIABLE}=")[2] for e in environ) if v]
    request = _REQUEST.fullmatch(asked[0]) if asked else None
    if request is None or "libdballoc_probe.so" not in (home / "maps").read_text():
        raise UsageError(
            f"process {pid} ({name}) has no heap probe; start the server under one: "
            "dballoc exec --probe heap --out DIR -- COMMAND"
        )
    path = Path(f"/proc/{pid}/root{request[2]}/{inside}.sock")
    if not path.exists():
        raise UsageError(f"process {pid} ({name}): its probe has made no socket in {request[2]}; its standard error says why")
    return Probe(pid, path, int(request[1]))


def of_directory(directory: Path) -> Probe:
    """The one process whose probe listens in that directory. UsageError if there is none, or more than one."""
    alive = []
    for path in sorted(directory.glob("*.sock")):
        try:
            said = _talk(path, b"status\n")
        except OSError:
            continue  # of a process that was killed
        if said.startswith(b"ok") and path.stem.isdigit():
            alive.append(Probe(_peer(path) or int(path.stem), path))
    if not alive:
        raise UsageError(f"{directory}: no probe listens there; is the program running, under dballoc exec --probe heap?")
    if len(alive) > 1:
        raise UsageError(f"{directory}: probes of processes {', '.join(str(p.pid) for p in alive)} listen there; give --pid")
    return alive[0]


def _talk(path: Path, line: bytes) -> bytes:
    """Send a line, read to the end. OSError as usual."""
    with _connected(path) as talk:
        talk.sendall(line)
        parts, size = [], 0
        while part := talk.recv(1 << 16):
            parts.append(part)
            size += len(part)
            if size > _MOST:
                raise OSError("it says more than a probe would")
    return b"".join(parts)


def _peer(path: Path) -> int:
    """The process behind a socket, as we see it; 0 if it is in another PID namespace."""
    with _connected(path) as talk:
        pid = int.from_bytes(talk.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], "little")
        talk.sendall(b"status\n")
        return pid


def _connected(path: Path) -> socket.socket:
    """Through the directory, as a file that we hold open: a path may be longer than a socket's may be."""
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    talk = socket.socket(socket.AF_UNIX)
    try:
        talk.settimeout(_PATIENCE)
        talk.connect(f"/proc/self/fd/{directory}/{path.name}")
    except OSError:
        talk.close()
        raise
    finally:
        os.close(directory)
    return talk


def _inner_pid(status: str) -> int:
    """Its number in its own PID namespace (proc(5), NSpid)."""
    for line in status.splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    raise OSError("the kernel does not tell its NSpid")
