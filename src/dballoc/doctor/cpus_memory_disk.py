"""Check CPUs, memory and disk."""

import tempfile
from pathlib import Path

import psutil

from dballoc.doctor.finding import Finding, finding_from_error
from dballoc.experiment.cpu_list import format_cpus
from dballoc.ground import user_directories
from dballoc.ground.errors import UsageError
from dballoc.ground.files.remove_tree import remove_tree
from dballoc.host import directories
from dballoc.host.process.handle import Process
from dballoc.host.resources import cores, process_limits
from dballoc.host.resources.cpus import list_available_cpus
from dballoc.host.resources.process_limits import ProcessLimits
from dballoc.host.unprivileged.server_user import find_server_user

# What the demo needs, rounded up: a server with a pool of 128 MiB and its client; a template and a
# copy of it.
_MEMORY = 1 << 30
_DISK = 2 << 30
# Of a client with some thousand threads; of a trial's raw files with a server's temporary ones.
_CLIENT_MEMORY = 1 << 29
_TEMPORARY_FILES = 1 << 29

# Pages that were swapped out long ago and are not used do not disturb a comparison.
_SWAP_SHARE = 0.01


def check_cpus(*, is_client_host: bool = False) -> list[Finding]:
    """Check how many CPUs there are, and which governor sets their frequency."""
    limits, allowed = process_limits.read_limits(Process.own()), list_available_cpus()
    count = judge_cpu_count(limits, format_cpus(allowed), is_client_host=is_client_host)
    return [count, _check_governor(allowed)]


def judge_cpu_count(limits: ProcessLimits, numbers: str, *, is_client_host: bool) -> Finding:
    """Judge how many CPUs this host may use, by their numbers and its cgroups' quota. Pure."""
    text = f"{limits.cpus} ({numbers})"
    if limits.quota is not None:
        text += f", of which a quota allows {limits.quota:g}"
    if limits.cpu_count > 1:
        return Finding("CPUs", "ok", text)
    if is_client_host:
        text += ": the client is soon the limit"
        return Finding("CPUs", "warn", text, "take a client host with more CPUs")
    text += ": client and server share it"
    return Finding("CPUs", "warn", text, "give this machine a second CPU")


def _check_governor(allowed: frozenset[int]) -> Finding:
    name = "CPU governor"
    governors = {g for cpu in allowed if (g := _read_governor(cpu))}
    if not governors:
        return Finding(name, "ok", "not visible here (a virtual machine, or no frequency scaling)")
    if governors != {"performance"}:
        text = (
            f"{', '.join(sorted(governors))}: the frequency follows the load, and distorts "
            "measurements"
        )
        return Finding(name, "warn", text, "cpupower frequency-set -g performance")
    return Finding(name, "ok", "performance")


def _read_governor(cpu: int) -> str | None:
    try:
        return (cores.SYSTEM / f"cpu{cpu}/cpufreq/scaling_governor").read_text().strip()
    except OSError:
        return None


def check_memory(*, is_client_host: bool = False) -> Finding:
    """Check how much memory is available."""
    virtual = psutil.virtual_memory()
    text = f"{virtual.available / 2**30:.1f} GiB of {virtual.total / 2**30:.1f} GiB available"
    need, purpose = (_CLIENT_MEMORY, "a client") if is_client_host else (_MEMORY, "the demo")
    if virtual.available < need:
        text += f"; {purpose} needs {need / 2**30:g} GiB"
        return Finding("memory", "warn", text, "stop programs that you do not need")
    return Finding("memory", "ok", text)


def check_swap() -> Finding:
    """Check whether the machine swaps."""
    swap = psutil.swap_memory()
    if swap.used > swap.total * _SWAP_SHARE:
        text = (
            f"{swap.used / 2**30:.1f} GiB of {swap.total / 2**30:.1f} GiB in use: swapped pages "
            "are missing from RSS"
        )
        remedy = "run swapoff -a before the comparison, and swapon -a after it"
        return Finding("swap", "warn", text, remedy)
    return Finding(
        "swap", "ok", f"{swap.total / 2**30:.1f} GiB, hardly used" if swap.total else "none"
    )


def check_temporary_files() -> Finding:
    """Check that there is room for what lies in the directory for temporary files: those of servers
    and clients, and the results of a block of bench --ray until the driver has them.
    """
    place = Path(tempfile.gettempdir())
    free = directories.free_bytes(place)
    text = f"{place}, {free / 2**30:.1f} GiB free"
    if free < _TEMPORARY_FILES:
        text += f"; a block needs {_TEMPORARY_FILES / 2**30:g} GiB"
        return Finding("temporary files", "warn", text, "make room, or set TMPDIR")
    return Finding("temporary files", "ok", text)


def check_cache() -> list[Finding]:
    """Check that the directory of templates and scratch data is ours, has room, and can be entered
    by the server's user.
    """
    user = find_server_user()
    try:
        place = directories.make_server_cache(user) if user else user_directories.make_cache()
    except UsageError as error:
        return [finding_from_error("cache", "missing", error)]
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
    remove_tree(made)
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
