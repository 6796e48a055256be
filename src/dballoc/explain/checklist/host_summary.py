"""Describe the host and the process as far as they concern memory, as pt-summary does: from /proc
and /sys.
"""

import os
import time
from pathlib import Path

import psutil

from dballoc import readers
from dballoc.explain.checklist import section
from dballoc.explain.checklist.section import Bytes, Cell, Section
from dballoc.host import machine_description
from dballoc.host.process_handle import Process
from dballoc.host.resources import process_limits
from dballoc.process_memory.smaps import Mapping

_MEMINFO = (
    "MemTotal",
    "MemFree",
    "MemAvailable",
    "Buffers",
    "Cached",
    "Dirty",
    "Writeback",
    "AnonPages",
    "Shmem",
    "Slab",
    "PageTables",
    "Committed_AS",
    "CommitLimit",
    "AnonHugePages",
    "HugePages_Total",
    "HugePages_Free",
    "Hugepagesize",
    "SwapTotal",
    "SwapFree",
)
_VM = (
    "swappiness",
    "overcommit_memory",
    "overcommit_ratio",
    "overcommit_kbytes",
    "max_map_count",
    "dirty_ratio",
    "dirty_background_ratio",
    "dirty_bytes",
    "dirty_background_bytes",
    "min_free_kbytes",
    "zone_reclaim_mode",
    "nr_hugepages",
    "panic_on_oom",
)
_LIMITS = (
    "Max address space",
    "Max locked memory",
    "Max stack size",
    "Max data size",
    "Max open files",
    "Max core file size",
)
_STATUS = (
    "VmPeak",
    "VmSize",
    "VmHWM",
    "VmRSS",
    "RssAnon",
    "RssFile",
    "RssShmem",
    "VmLck",
    "VmPin",
    "VmData",
    "VmStk",
    "VmPTE",
    "VmSwap",
    "HugetlbPages",
    "Threads",
    "Cpus_allowed_list",
    "Mems_allowed_list",
    "THP_enabled",
)


def describe_host() -> Section:
    """Return the section of this machine."""
    machine = machine_description.describe_machine()
    rows: list[tuple[str, Cell]] = [
        ("host", machine["host"]),
        ("date", time.strftime("%Y-%m-%d %H:%M:%S %Z")),
        ("up for", _format_duration(time.time() - psutil.boot_time())),
        ("system", machine["os"]),
        ("kernel", machine["kernel"]),
        ("architecture", machine["machine"]),
        ("virtual machine", "yes" if machine["hypervisor"] else "none detected"),
        ("processor", machine["cpu"]),
        ("CPUs", machine["cpus"]),
        ("cores", machine["cores"]),
        ("NUMA nodes", machine["numa_nodes"]),
        ("load", " ".join(f"{x:.2f}" for x in os.getloadavg())),
        ("THP", machine["thp"]),
        ("THP defrag", _find_selected(machine["thp_defrag"])),
    ]
    values = parse_meminfo(Path("/proc/meminfo").read_text())
    rows += [(name, values[name]) for name in _MEMINFO if name in values]
    rows += [(f"vm.{name}", _read_setting(f"/proc/sys/vm/{name}")) for name in _VM]
    return section.build_facts("host", "/proc, /sys", rows)


def describe_process(process: Process, mappings: list[Mapping]) -> Section:
    """Return the section of a process: RSS and VSZ, now and highest, limits, cgroup. OSError if it
    has ended.
    """
    values = parse_meminfo(process.read_text("status"))
    reserved = sum(m.size for m in mappings if m.guard)
    rows: list[tuple[str, Cell]] = [(name, values[name]) for name in _STATUS if name in values]
    rows.append(("of VmSize reserved, and accessible to nobody", Bytes(reserved)))
    rows += [
        (name, value)
        for name, value in _parse_limits(process.read_text("limits"))
        if name in _LIMITS
    ]
    rows += [
        (name, _read_setting(f"{process.home}/{name}")) for name in ("oom_score", "oom_score_adj")
    ]
    limits = process_limits.read_limits(process)
    cgroup_memory = process_limits.read_memory_usage(process)
    rows += [
        ("CPUs of its affinity", limits.cpus),
        ("CPUs of its cgroup", limits.quota if limits.quota is not None else "no limit"),
        (
            "memory limit of its cgroup",
            Bytes(limits.memory) if limits.memory is not None else "no limit",
        ),
        (
            "memory charged to its cgroup, page cache included",
            Bytes(cgroup_memory) if cgroup_memory is not None else None,
        ),
        (
            "started",
            time.strftime(
                "%Y-%m-%d %H:%M:%S", time.localtime(psutil.Process(process.pid).create_time())
            ),
        ),
    ]
    return section.build_facts("process", f"{process.home}/status, limits, smaps, cgroup", rows)


def parse_meminfo(text: str) -> dict[str, Cell]:
    """Return the values of /proc/meminfo or /proc/PID/status by name; kB as bytes, other numbers as
    they are.
    """
    values: dict[str, Cell] = {}
    for line in readers.rows(text):
        name, _, value = line.partition(":")
        words = value.split()
        if len(words) == 2 and words[1] == "kB":
            values[name] = Bytes(int(words[0]) * 1024)
        elif words:
            values[name] = int(words[0]) if words[0].isdigit() else " ".join(words)
    return values


def _parse_limits(text: str) -> list[tuple[str, Cell]]:
    """Return (name, soft limit) of /proc/PID/limits, whose columns have a fixed width."""
    soft_limits: list[tuple[str, Cell]] = []
    for line in readers.rows(text)[1:]:
        soft, unit = line[26:47].strip(), line[68:].strip()
        soft_limits.append(
            (line[:26].strip(), Bytes(int(soft)) if unit == "bytes" and soft.isdigit() else soft)
        )
    return soft_limits


def _format_duration(seconds: float) -> str:
    days, rest = divmod(int(seconds), 86_400)
    return f"{days} d {rest // 3600} h {rest % 3600 // 60} min"


def _find_selected(text: str | None) -> str | None:
    """Return the word in brackets, by which sysfs marks the setting in force."""
    return text.partition("[")[2].partition("]")[0] or text if text else None


def _read_setting(path: str) -> str | None:
    try:
        return readers.text_of_process(path).strip()
    except OSError:
        return None
