"""Check CPUs, memory and disk."""

import tempfile
from pathlib import Path

import psutil

from dballoc import user_directories
from dballoc.doctor.finding import Finding, finding_from_error
from dballoc.errors import UsageError
from dballoc.experiment.cpu_list import format_cpus
from dballoc.host import directories
from dballoc.host.resources import cpus
from dballoc.host.unprivileged.server_user import find_server_user

# What the demo needs, rounded up: a server with a pool of 128 MiB and its client; a template and a
# copy of it.
_MEMORY = 1 << 30
_DISK = 2 << 30

# Pages that were swapped out long ago and are not used do not disturb a comparison.
_SWAP_SHARE = 0.01


def check_cpus() -> list[Finding]:
    """Check how many CPUs there are, and which governor sets their frequency."""
    allowed = cpus.list_available_cpus()
    text = f"{len(allowed)} ({format_cpus(allowed)})"
    if len(allowed) < 2:
        findings = [
            Finding(
                "CPUs",
                "warn",
                f"{text}: client and server share it",
                "give this machine a second CPU",
            )
        ]
    else:
        findings = [Finding("CPUs", "ok", text)]
    governors = {g for cpu in allowed if (g := _read_governor(cpu))}
    if not governors:
        return [
            *findings,
            Finding(
                "CPU governor",
                "ok",
                "not visible here (a virtual machine, or no frequency scaling)",
            ),
        ]
    if governors != {"performance"}:
        text = (
            f"{', '.join(sorted(governors))}: the frequency follows the load, and distorts "
            "measurements"
        )
        return [
            *findings,
            Finding("CPU governor", "warn", text, "cpupower frequency-set -g performance"),
        ]
    return [*findings, Finding("CPU governor", "ok", "performance")]


def _read_governor(cpu: int) -> str | None:
    try:
        return (cpus.SYSTEM / f"cpu{cpu}/cpufreq/scaling_governor").read_text().strip()
    except OSError:
        return None


def check_memory() -> list[Finding]:
    """Check how much memory is available, and whether the machine swaps."""
    virtual, swap = psutil.virtual_memory(), psutil.swap_memory()
    text = f"{virtual.available / 2**30:.1f} GiB of {virtual.total / 2**30:.1f} GiB available"
    if virtual.available < _MEMORY:
        finding = Finding(
            "memory",
            "warn",
            f"{text}; the demo needs {_MEMORY / 2**30:.0f} GiB",
            "stop programs that you do not need",
        )
    else:
        finding = Finding("memory", "ok", text)
    if swap.used > swap.total * _SWAP_SHARE:
        text = (
            f"{swap.used / 2**30:.1f} GiB of {swap.total / 2**30:.1f} GiB in use: swapped pages "
            "are missing from RSS"
        )
        return [
            finding,
            Finding(
                "swap",
                "warn",
                text,
                "run swapoff -a before the comparison, and swapon -a after it",
            ),
        ]
    return [
        finding,
        Finding(
            "swap", "ok", f"{swap.total / 2**30:.1f} GiB, hardly used" if swap.total else "none"
        ),
    ]


def check_cache() -> list[Finding]:
    """Check that the directory of templates and scratch data is ours, has room, and can be entered
    by the server's user.
    """
    try:
        place = user_directories.make_cache()
    except UsageError as error:
        return [finding_from_error("cache", "missing", error)]
    user = find_server_user()
    if user and (blocked := user.may_not_pass(place)):
        text = f"{place}: servers run as {user.name}, which may not enter {blocked}"
        return [
            Finding(
                "cache",
                "missing",
                text,
                "set DBALLOC_CACHE to a directory that every user may enter",
            )
        ]
    free = directories.free_bytes(place)
    text = f"{place}, {free / 2**30:.1f} GiB free"
    if free < _DISK:
        return [
            Finding(
                "cache",
                "warn",
                f"{text}; the demo needs {_DISK >> 30} GiB",
                "make room, or set DBALLOC_CACHE",
            )
        ]
    return [Finding("cache", "ok", text)]


def check_socket_directory() -> Finding:
    """Check that the directory for sockets has a short path and can be entered by the server's
    user.
    """
    try:
        made = directories.make_run_directory(lambda _: None)
    except UsageError as error:
        return finding_from_error("socket path", "missing", error)
    except OSError as error:
        text = f"{tempfile.gettempdir()}: {error.strerror}"
        return Finding(
            "socket path", "missing", text, "set TMPDIR to a directory that you may write"
        )
    made.rmdir()
    user = find_server_user()
    if user and (blocked := user.may_not_pass(Path(tempfile.gettempdir()))):
        text = f"{made.parent}: servers run as {user.name}, which may not enter {blocked}"
        return Finding(
            "socket path",
            "missing",
            text,
            "set TMPDIR to a directory that every user may enter, like /tmp",
        )
    return Finding("socket path", "ok", f"{made.parent}, short enough")
