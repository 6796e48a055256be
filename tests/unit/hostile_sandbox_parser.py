"""Functions for tests of the sandbox: what code that a hostile file has taken over would try."""

import os
import resource
import socket
import subprocess
import tempfile
import time

from dballoc.host.unprivileged import keep_capabilities


def tell_who(*_: int) -> list[int]:
    return [os.getuid(), os.geteuid(), os.getgid(), *os.getgroups()]


def list_capabilities() -> list[int]:
    return sorted(keep_capabilities.read_capabilities())


def read_all(fd: int) -> str:
    return os.read(fd, 100).decode()


def try_everything() -> dict[str, str]:
    """What each attempt at the host came to: the error's name, or ``done``."""
    attempts = {
        "read a file": lambda: open("/etc/passwd").close(),
        "list the root": lambda: os.listdir("/usr"),
        "write a file": lambda: tempfile.TemporaryFile(dir="/tmp").close(),
        "become root": lambda: os.setuid(0),
        "start a program": lambda: subprocess.run(["/bin/true"]),
        "fork": os.fork,
        "connect": lambda: socket.create_connection(("127.0.0.1", 9), 1),
        "look at its parent": lambda: os.open(f"/proc/{os.getppid()}/mem", os.O_RDONLY),
        "signal its parent": lambda: os.kill(os.getppid(), 0),
    }
    outcomes = {}
    for name, attempt in attempts.items():
        try:
            attempt()
            outcomes[name] = "done"
        except Exception as error:
            outcomes[name] = type(error).__name__
    return outcomes


def tell_pid() -> int:
    return os.getpid()


def burn(seconds: float) -> float:
    """Use CPU for so long."""
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass
    return seconds


def use_up_cpu_limit() -> None:
    """Be nearly at the end of the CPU time that the process may take."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (1, hard))


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def crash() -> None:
    os.abort()


def take_memory() -> int:
    return len(bytes(8 << 30))


def shout() -> str:
    return "x" * (32 << 20)


def fail() -> None:
    raise ValueError("first line\nsecond line")


SANDBOXED = {
    f.__name__: f
    for f in (
        tell_who,
        tell_pid,
        burn,
        use_up_cpu_limit,
        list_capabilities,
        read_all,
        try_everything,
        sleep,
        crash,
        take_memory,
        shout,
        fail,
    )
}
