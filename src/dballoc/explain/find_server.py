"""Find the server's process: by PID, by socket, by service, or the only one that runs."""

import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import NamedTuple

from dballoc.catalogue import servers
from dballoc.ground.errors import UsageError
from dballoc.host.abandonable.abandonable_work import run_abandonable
from dballoc.host.process.handle import Process, read_peer
from dballoc.host.process.read_rights import describe_hidden, open_process, read_hiding
from dballoc.instruments.ways_in.preload_socket import (
    PreloadKind,
    PreloadSocket,
    find_preload_in_directory,
    find_preload_of_process,
)

_SYSTEMCTL_SECONDS = 10.0


class ServerFlags(NamedTuple):
    """The flags that name a server; without any, it is the only one that runs here."""

    pid: int | None = None
    socket: str | None = None
    service: str | None = None


def find_server(flags: ServerFlags) -> Process:
    """Open the server's process. Raises UsageError in one line if more than one flag is given, or
    no server, or more than one, is found.
    """
    if sum(flag is not None for flag in flags) > 1:
        raise UsageError("give one of --pid, --socket and --service")
    pid, path, service = flags
    if path is not None:
        pid = run_abandonable(lambda: find_socket_listener(path), f"--socket {path}")
    elif service is not None:
        pid = find_service_process(service)
    return open_process(pid) if pid is not None else _find_only_server()


def find_preload(kind: PreloadKind, out_dir: Path | None, flags: ServerFlags) -> PreloadSocket:
    """Find the preload that the flags name, by ``--out-dir`` or by its process. Raises UsageError
    if they contradict each other, or there is none.
    """
    if out_dir is None:
        return find_preload_of_process(find_server(flags), kind)
    if any(flag is not None for flag in flags):
        raise UsageError("give --out-dir, or one of --pid, --socket and --service")
    return find_preload_in_directory(out_dir, kind)


def find_socket_listener(path: str) -> int:
    """Return the PID of the process that listens on a Unix socket. Raises UsageError if nobody
    answers.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        try:
            connection.connect(path)
            pid, _ = read_peer(connection)
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


def find_service_process(name: str) -> int:
    """Return the main PID of a systemd unit. Raises UsageError if it does not run."""
    if not shutil.which("systemctl"):
        raise UsageError(
            f"--service {name}: there is no systemctl on this host; give --pid or --socket"
        )
    try:
        process = subprocess.run(
            ["systemctl", "show", "--property=MainPID", "--value", "--", name],
            capture_output=True,
            text=True,
            check=False,
            timeout=_SYSTEMCTL_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"--service {name}: systemctl did not answer within {_SYSTEMCTL_SECONDS:g} seconds; "
            "give --pid or --socket"
        ) from None
    main_pid = process.stdout.strip()
    if process.returncode or not main_pid.isdigit():
        raise UsageError(
            f"--service {name}: "
            f"{(process.stderr.strip().splitlines() or ['systemctl gave no output'])[0]}"
        )
    if main_pid == "0":
        raise UsageError(
            f"--service {name}: it is not running, or there is no such unit; systemctl status "
            f"{name}"
        )
    return int(main_pid)


def _find_only_server() -> Process:
    names = {binary for entry in servers().values() for binary in entry["binaries"]}
    everybody = map(int, filter(str.isdigit, os.listdir("/proc")))
    pids = [pid for pid in everybody if Process.at(pid).read_name() in names]
    if not pids:
        hidden = describe_hidden(read_hiding())
        raise UsageError(f"no MySQL-family server runs here{hidden or '; give --pid'}")
    if len(pids) > 1:
        raise UsageError(
            f"{len(pids)} servers run here (processes {', '.join(map(str, sorted(pids)))}); give "
            "--pid"
        )
    return open_process(pids[0])
