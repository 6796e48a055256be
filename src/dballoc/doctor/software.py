"""Check programs and libraries: Python, sysbench, servers, allocators, our native parts, perf."""

import os
import platform
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

from dballoc.doctor import inventory
from dballoc.doctor.finding import Finding, State, finding_from_error
from dballoc.doctor.inventory import InventoryItem
from dballoc.ground.errors import UsageError
from dballoc.host.unprivileged.server_user import find_server_user, server_user
from dballoc.load import sysbench_command

# The names of these findings.
SYSBENCH, PERF = "sysbench", "perf (for profiles)"
_PYTHON = (3, 11)

# Up to this level an ordinary user may profile processes of their own, kernel included
# (perf_event_open(2)).
_PARANOID_FOR_OWN = 1


def check_python() -> Finding:
    """Check the interpreter that runs us."""
    text = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info < _PYTHON:
        return Finding(
            "Python",
            "missing",
            text,
            "install Python 3.11 or later and run make setup PYTHON=/path/to/it",
        )
    return Finding("Python", "ok", text)


def check_sysbench() -> Finding:
    """Check the load driver, sysbench."""
    try:
        sysbench = sysbench_command.find()
    except UsageError as error:
        return finding_from_error(SYSBENCH, "missing", error)
    return Finding(
        SYSBENCH, "ok", f"{sysbench.version} ({sysbench.executable}, scripts in {sysbench.share})"
    )


def check_servers() -> list[Finding]:
    """Check every server family of the catalogue; the server user must be able to run one."""
    items = inventory.list_servers()
    none_at_all = all(item.version is None for item in items)
    return [_check_server(item, none_at_all) for item in items]


def _check_server(item: InventoryItem, none_at_all: bool) -> Finding:
    if item.version is None:
        return Finding(
            item.title, "missing" if none_at_all else "note", "not on this machine", item.remedy
        )
    return _find_unreadable(item, "missing") or Finding(
        item.title, "ok", f"{item.version} ({item.paths[0]})"
    )


def check_allocators() -> list[Finding]:
    """Check every allocator of the catalogue. All but glibc's are optional."""
    return [_check_allocator(item) for item in inventory.list_allocators()]


def _check_allocator(item: InventoryItem) -> Finding:
    if item.version is None:
        return Finding(item.title, "note", "not on this machine", item.remedy)
    where = f" ({item.paths[0]})" if item.paths else ""
    return _find_unreadable(item, "warn") or Finding(item.title, "ok", item.version + where)


def _find_unreadable(item: InventoryItem, state: State) -> Finding | None:
    """Return a finding if servers, which never run as root, may not read one of its files."""
    user = find_server_user()
    if user is None:
        return None  # check_server_user says so
    for path in item.paths:
        if blocked := user.blocked_at(path):
            text = f"{path}: servers run as {user.name}, which may not read {blocked}"
            return Finding(item.title, state, text, f"chmod o+rX {blocked}")
    return None


def check_server_user() -> Finding:
    """Check the user that servers run as, and that nothing else runs as it."""
    try:
        user = server_user()
        user.check_alone()
    except UsageError as error:
        return finding_from_error("server user", "missing", error)
    return Finding("server user", "ok", user.name)


def check_native_parts() -> Finding:
    """Check our own preload libraries, which the build puts into the package."""
    directory = Path(str(files("dballoc") / "_native"))
    built = sorted(path.name for path in directory.glob("*.so")) if directory.is_dir() else []
    if not built:
        lost = "variants with thp, exec --probe and record cannot run"
        return Finding("native parts", "warn", f"not built: {lost}", "make setup")
    return Finding("native parts", "ok", ", ".join(built))


def check_perf() -> Finding:
    """Check the profiler, perf, which comparisons do not need."""
    name = PERF
    package = "linux-perf (Debian) or linux-tools-generic (Ubuntu)"
    if (executable := shutil.which("perf")) is None:
        return Finding(name, "note", "not on this machine", f"apt-get install {package}")
    # Ubuntu's /usr/bin/perf is a script that looks for one that fits the kernel.
    process = subprocess.run([executable, "--version"], capture_output=True, text=True, check=False)
    if process.returncode != 0:
        return Finding(
            name,
            "note",
            f"{executable} does not run on kernel {os.uname().release}",
            f"apt-get install {package}",
        )
    text = f"{process.stdout.strip().removeprefix('perf version ')} ({executable})"
    if os.geteuid() != 0 and (level := _read_paranoid_level()) > _PARANOID_FOR_OWN:
        remedy = f"run as root, or sysctl kernel.perf_event_paranoid={_PARANOID_FOR_OWN}"
        return Finding(
            name, "note", f"{text}, refused by kernel.perf_event_paranoid = {level}", remedy
        )
    return Finding(name, "ok", text)


def _read_paranoid_level() -> int:
    try:
        return int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    except OSError:  # a kernel without perf events, or a container that hides them
        return _PARANOID_FOR_OWN + 1
