"""Which process is meant: by PID, by socket, by service, or the only server there is."""

import shutil
import socket
import subprocess

import psutil

from dballoc.catalogue import servers
from dballoc.errors import UsageError
from dballoc.servers.running.connection import peer


def find(pid: int | None, path: str | None, service: str | None) -> int:
    """The PID. UsageError in one line if nothing, or more than one thing, is meant, or nobody is
    there.
    """
    if sum(given is not None for given in (pid, path, service)) > 1:
        raise UsageError("give one of --pid, --socket and --service")
    if path is not None:
        return of_socket(path)
    if service is not None:
        return of_service(service)
    return pid if pid is not None else _only()


def of_socket(path: str) -> int:
    """Who listens there."""
    with socket.socket(socket.AF_UNIX) as talk:
        talk.settimeout(10)
        try:
            talk.connect(path)
            pid = peer(talk)
        except OSError as error:
            raise UsageError(
                f"--socket {path}: {error.strerror or error}; is the server running?"
            ) from None
    if not pid:
        raise UsageError(
            f"--socket {path}: the server is in another PID namespace; give --pid as this host "
            "sees it"
        )
    return pid


def of_service(name: str) -> int:
    """The main process of a systemd unit."""
    if not shutil.which("systemctl"):
        raise UsageError(f"--service {name}: there is no systemctl here; give --pid or --socket")
    done = subprocess.run(
        ["systemctl", "show", "--property=MainPID", "--value", name],
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout.strip()
    if done.returncode or not said.isdigit():
        raise UsageError(
            f"--service {name}: "
            f"{(done.stderr.strip().splitlines() or ['systemctl says nothing'])[0]}"
        )
    if said == "0":
        raise UsageError(
            f"--service {name}: it is not running, or there is no such unit; systemctl status "
            f"{name}"
        )
    return int(said)


def _only() -> int:
    names = {binary for entry in servers().values() for binary in entry["binaries"]}
    found = [p.info["pid"] for p in psutil.process_iter(["pid", "name"]) if p.info["name"] in names]
    if not found:
        raise UsageError("no MySQL-family server runs here; give --pid")
    if len(found) > 1:
        raise UsageError(
            f"{len(found)} servers run here (processes {', '.join(map(str, sorted(found)))}); give "
            "--pid"
        )
    return int(found[0])
