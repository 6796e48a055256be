"""The host and the process as they bear on memory, as pt-summary gives them: read from /proc and
/sys.
"""

import os
import time
from pathlib import Path

import psutil

from dballoc import readers
from dballoc.explain.checklist import section
from dballoc.explain.checklist.section import Bytes, Cell, Section
from dballoc.host import machine_description
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


def host() -> Section:
    """This machine."""
    known = machine_description.gather()
    rows: list[tuple[str, Cell]] = [
        ("host", known["host"]),
        ("date", time.strftime("%Y-%m-%d %H:%M:%S %Z")),
        ("up for", _duration(time.time() - psutil.boot_time())),
        ("system", known["os"]),
        ("kernel", known["kernel"]),
        ("architecture", known["machine"]),
        ("virtual machine", "yes" if known["hypervisor"] else "not that it says"),
        ("processor", known["cpu"]),
        ("CPUs", known["cpus"]),
        ("cores", known["cores"]),
        ("NUMA nodes", known["numa_nodes"]),
        ("load", " ".join(f"{x:.2f}" for x in os.getloadavg())),
        ("THP", known["thp"]),
        ("THP defrag", _chosen(known["thp_defrag"])),
    ]
    found = meminfo(Path("/proc/meminfo").read_text())
    rows += [(name, found[name]) for name in _MEMINFO if name in found]
    rows += [(f"vm.{name}", _read(f"/proc/sys/vm/{name}")) for name in _VM]
    return section.facts("host", "/proc, /sys", rows)


def process(pid: int, mappings: list[Mapping]) -> Section:
    """The process: RSS and VSZ now and at most, limits, cgroup. ``mappings``: of the look at it.
    OSError if it is gone.
    """
    home = Path(f"/proc/{pid}")
    found = meminfo(readers.text_of_process(home / "status"))
    reserved = sum(m.size for m in mappings if m.guard)
    rows: list[tuple[str, Cell]] = [(name, found[name]) for name in _STATUS if name in found]
    rows.append(("of VmSize reserved, and accessible to nobody", Bytes(reserved)))
    rows += [
        (name, value)
        for name, value in _limits(readers.text_of_process(home / "limits"))
        if name in _LIMITS
    ]
    rows += [(name, _read(str(home / name))) for name in ("oom_score", "oom_score_adj")]
    narrow = process_limits.read(pid)
    used = process_limits.usage(pid)
    rows += [
        ("CPUs of its affinity", narrow.cpus),
        ("CPUs of its cgroup", narrow.quota if narrow.quota is not None else "no limit"),
        (
            "memory limit of its cgroup",
            Bytes(narrow.memory) if narrow.memory is not None else "no limit",
        ),
        (
            "memory that its cgroup has, page cache included",
            Bytes(used) if used is not None else None,
        ),
        (
            "started",
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(psutil.Process(pid).create_time())),
        ),
    ]
    return section.facts("process", f"/proc/{pid}/status, limits, smaps, cgroup", rows)


def meminfo(text: str) -> dict[str, Cell]:
    """Names and values of /proc/meminfo or /proc/PID/status; kB as bytes, other numbers as they
    are.
    """
    found: dict[str, Cell] = {}
    for line in readers.rows(text):
        name, _, value = line.partition(":")
        words = value.split()
        if len(words) == 2 and words[1] == "kB":
            found[name] = Bytes(int(words[0]) * 1024)
        elif words:
            found[name] = int(words[0]) if words[0].isdigit() else " ".join(words)
    return found


def _limits(text: str) -> list[tuple[str, Cell]]:
    """Soft limits of /proc/PID/limits (columns of fixed width)."""
    found: list[tuple[str, Cell]] = []
    for line in readers.rows(text)[1:]:
        soft, unit = line[26:47].strip(), line[68:].strip()
        found.append(
            (line[:26].strip(), Bytes(int(soft)) if unit == "bytes" and soft.isdigit() else soft)
        )
    return found


def _duration(seconds: float) -> str:
    days, rest = divmod(int(seconds), 86_400)
    return f"{days} d {rest // 3600} h {rest % 3600 // 60} min"


def _chosen(text: str | None) -> str | None:
    """The word in brackets, as sysfs marks it."""
    return text.partition("[")[2].partition("]")[0] or text if text else None


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None
