"""Describe the host and the process as far as they concern memory, as pt-summary does: from /proc
and /sys.

The host's memory is summed up as pt-summary does. Its figures (pt-summary, "OUTPUT") are those of
free(1), whose manual says how they follow from /proc/meminfo. Virtual is what is used of memory and
of swap. UsedRSS is the sum of the RSS of all processes, in which shared pages count once for each.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from dballoc.explain.checklist import section
from dballoc.explain.checklist.section import Bytes, Cell, ChecklistSection
from dballoc.ground import readers
from dballoc.host.machine_description import describe_machine, read_setting
from dballoc.host.resources import process_limits
from dballoc.process.snapshot import ProcessSnapshot

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


def describe_host() -> ChecklistSection:
    """Return the section of this machine."""
    machine = describe_machine()
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
    rows += [(f"vm.{name}", read_setting(f"/proc/sys/vm/{name}")) for name in _VM]
    return section.build_facts("host", "/proc, /sys", rows)


def describe_process(look: ProcessSnapshot) -> ChecklistSection:
    """Return the section of a process: RSS and VSZ, now and highest, limits, cgroup. Raises OSError
    if it has ended.
    """
    process = look.process
    values = parse_meminfo(process.read_text("status"))
    reserved = sum(m.size for m in look.mappings if m.guard)
    rows: list[tuple[str, Cell]] = [(name, values[name]) for name in _STATUS if name in values]
    rows.append(("of VmSize reserved, and accessible to nobody", Bytes(reserved)))
    rows += [
        (name, value)
        for name, value in _parse_limits(process.read_text("limits"))
        if name in _LIMITS
    ]
    rows += [
        (name, read_setting(f"{process.home}/{name}")) for name in ("oom_score", "oom_score_adj")
    ]
    limits = process_limits.read_limits(process, look.cgroups)
    rows += [
        ("CPUs of its affinity", limits.cpus),
        ("CPUs of its cgroup", limits.quota if limits.quota is not None else "no limit"),
        (
            "memory limit of its cgroup",
            Bytes(limits.memory) if limits.memory is not None else "no limit",
        ),
        (
            "memory charged to its cgroup, page cache included",
            Bytes(look.charged) if look.charged is not None else None,
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


TITLE = "host memory, as pt-summary shows it"
_PAGE = os.sysconf("SC_PAGE_SIZE")
# A machine has some thousand processes; more are not read.
_MOST_PROCESSES = 100_000


@dataclass(frozen=True)
class ProcessesMemory:
    """The sum of the RSS of ``count`` processes, bytes; ``complete``: whether these are all that
    there are.
    """

    rss: int
    count: int
    complete: bool = True


def sum_rss() -> ProcessesMemory:
    """Sum up the RSS of all processes that can be seen."""
    rss = count = 0
    complete = True
    with os.scandir("/proc") as entries:
        for entry in entries:
            if not entry.name.isdigit():
                continue
            if count == _MOST_PROCESSES:
                complete = False
                break
            try:
                rss += int(readers.text_of_process(f"/proc/{entry.name}/statm").split()[1]) * _PAGE
            except (OSError, IndexError):
                continue  # it has ended meanwhile
            count += 1
    return ProcessesMemory(rss, count, complete)


def summarize_host_memory(meminfo: dict[str, Cell], processes: ProcessesMemory) -> ChecklistSection:
    """Return the section. ``meminfo``: sizes of /proc/meminfo by name, in bytes. Pure."""

    def size(name: str) -> int:
        value = meminfo.get(name)
        return value if isinstance(value, int) else 0

    total, free = size("MemTotal"), size("MemFree")
    caches = size("Cached") + size("SReclaimable")
    # Before Linux 3.14 there is no MemAvailable; free(1) subtracted what follows.
    available = size("MemAvailable") or free + size("Buffers") + caches
    used, swap_used = max(0, total - available), max(0, size("SwapTotal") - size("SwapFree"))
    of = f"{processes.count:,} processes" + ("" if processes.complete else ", not all of them")
    return section.build_facts(
        TITLE,
        "/proc/meminfo, /proc/*/statm",
        [
            ("Total", Bytes(total)),
            ("Free", Bytes(free)),
            ("Used: physical (total less available)", Bytes(used)),
            ("Used: swap allocated", Bytes(size("SwapTotal"))),
            ("Used: swap used", Bytes(swap_used)),
            ("Used: virtual (physical and swap used)", Bytes(used + swap_used)),
            ("Shared", Bytes(size("Shmem"))),
            ("Buffers", Bytes(size("Buffers"))),
            ("Caches (page cache and reclaimable slabs)", Bytes(caches)),
            ("Dirty", Bytes(size("Dirty"))),
            (f"UsedRSS: RSS of {of}, shared pages in each", Bytes(processes.rss)),
        ],
    )
