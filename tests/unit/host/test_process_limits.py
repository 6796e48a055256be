"""A process's limits, from trees of cgroups as the kernel shows them."""

import os
from pathlib import Path

from example_cgroups import make_groups

from dballoc.host.process.handle import Process
from dballoc.host.resources import process_limits


def read(top: Path, group: str, files: dict[str, str]) -> process_limits.ProcessLimits:
    (top / "proc/7/task" / str(os.getpid())).mkdir(parents=True)
    return process_limits.read_limits(Process(7, 0, top / "proc/7"), make_groups(top, group, files))


CPUS = len(os.sched_getaffinity(0))


def test_v2_the_narrowest_of_all_groups(tmp_path: Path) -> None:
    files = {
        "cgroup.controllers": "cpu memory",
        "system.slice/cpu.max": "150000 100000",
        "system.slice/memory.max": "max",
        "system.slice/db.service/cpu.max": "max 100000",
        "system.slice/db.service/memory.max": "1073741824",
    }
    found = read(tmp_path, "0::/system.slice/db.service", files)
    assert (found.cpus, found.quota, found.memory) == (CPUS, 1.5, 2**30)
    assert found.cpu_count == min(CPUS, 2)


def test_v1(tmp_path: Path) -> None:
    files = {
        "memory/a/memory.limit_in_bytes": "536870912",
        "memory/memory.limit_in_bytes": "9223372036854771712",
        "cpu/b/cpu.cfs_quota_us": "50000",
        "cpu/b/cpu.cfs_period_us": "100000",
        "cpu/cpu.cfs_quota_us": "-1",
        "cpu/cpu.cfs_period_us": "100000",
    }
    assert read(
        tmp_path, "4:memory:/a\n2:cpu,cpuacct:/b\n0::/", files
    ) == process_limits.ProcessLimits(CPUS, 0.5, 2**29)


def test_no_limits(tmp_path: Path) -> None:
    found = read(tmp_path, "0::/../elsewhere", {"cgroup.controllers": ""})
    assert found == process_limits.ProcessLimits(CPUS, None, None)
    assert process_limits.ProcessLimits(4, None, None).cpu_count == 4
    assert process_limits.ProcessLimits(4, 0.2, None).cpu_count == 1


def test_what_its_own_group_is_charged_with(tmp_path: Path) -> None:
    files = {
        "cgroup.controllers": "memory",
        "a/memory.current": "9",
        "a/b/memory.current": "4096",
        "memory/c/memory.usage_in_bytes": "7",
    }
    for group, size in (
        ("0::/a/b", 4096),
        ("0::/a/b/hidden", None),
        ("4:memory:/c\n0::/a/b", 7),
        ("0::/", None),
    ):
        assert make_groups(tmp_path, group, files).read_memory_usage() == size


def test_what_was_lazily_freed(tmp_path: Path) -> None:
    files = {
        "cgroup.controllers": "memory",
        "a/memory.stat": "anon 9\npglazyfree 3\npglazyfreed 2\n",
        "memory/c/memory.stat": "cache 7\n",
    }
    freed = make_groups(tmp_path, "0::/a", files).read_lazily_freed_bytes()
    assert freed == 3 * os.sysconf("SC_PAGE_SIZE")
    assert make_groups(tmp_path, "4:memory:/c\n0::/a").read_lazily_freed_bytes() == 0
