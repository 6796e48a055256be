"""Describe the machine, for the report."""

import os
import platform
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil

from dballoc.experiment.cpu_list import format_cpus
from dballoc.ground import readers
from dballoc.host.resources.cores import Core, list_cores
from dballoc.host.resources.cpus import list_available_cpus
from dballoc.host.settings import thp


def describe_machine() -> dict[str, Any]:
    """Return names and sizes that do not change while a campaign runs."""
    uname = os.uname()
    available = list_available_cpus()
    cores = list_cores(available)
    unusual_sizes = thp.list_unusual_sizes(thp.read_host())
    return {
        "host": socket.gethostname(),
        "user": psutil.Process().username(),
        "os": _read_os_release(),
        "kernel": uname.release,
        "boot_id": read_setting("/proc/sys/kernel/random/boot_id"),
        "machine": uname.machine,
        "cpu": _read_cpu_model(),
        "cpus": len(available),
        "cores": len(cores),
        "cpus_of_cores": tuple(sorted(tuple(sorted(core.cpus)) for core in cores)),
        "cpus_of_nodes": _list_cpus_of_nodes(cores),
        "numa_nodes": len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or 1,
        "memory": psutil.virtual_memory().total,
        "swap": psutil.swap_memory().total,
        "hypervisor": "hypervisor" in Path("/proc/cpuinfo").read_text(),
        "governor": read_setting("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "thp": thp.read_mode(),
        "thp_defrag": read_setting("/sys/kernel/mm/transparent_hugepage/defrag"),
        "thp_sizes": thp.describe_settings(unusual_sizes) or None,
        "aslr": read_setting("/proc/sys/kernel/randomize_va_space"),
        "overcommit": read_setting("/proc/sys/vm/overcommit_memory"),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
    }


def _list_cpus_of_nodes(cores: Iterable[Core]) -> dict[str, str]:
    """Return the CPUs that we may use of each NUMA node, by its number."""
    cpus_by_node: dict[int, set[int]] = {}
    for core in cores:
        cpus_by_node.setdefault(core.node, set()).update(core.cpus)
    return {str(node): format_cpus(cpus) for node, cpus in sorted(cpus_by_node.items())}


def _read_os_release() -> str:
    try:
        return readers.one_line(platform.freedesktop_os_release()["PRETTY_NAME"])
    except (OSError, KeyError):
        return platform.system()


def _read_cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return readers.one_line(line.partition(":")[2].strip())
    return os.uname().machine


def read_setting(path: str) -> str | None:
    """Return the text of a file of the kernel's; None if it cannot be read."""
    try:
        return readers.text_of_process(path).strip()
    except OSError:
        return None
