"""A process's limits, from trees of cgroups as the kernel shows them."""

import os
from pathlib import Path

import pytest

from dballoc.host.process_handle import Process
from dballoc.host.resources import process_limits
from dballoc.host.resources.cgroup_tree import ControlGroups


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "proc/7/task" / str(os.getpid())).mkdir(parents=True)
    return tmp_path / "proc"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    return root


CPUS = len(os.sched_getaffinity(0))


def test_v2_the_narrowest_of_all_groups(proc: Path, tmp_path: Path) -> None:
    (proc / "7/cgroup").write_text("0::/system.slice/db.service\n")
    root = tree(
        tmp_path / "cg",
        {
            "cgroup.controllers": "cpu memory",
            "system.slice/cpu.max": "150000 100000",
            "system.slice/memory.max": "max",
            "system.slice/db.service/cpu.max": "max 100000",
            "system.slice/db.service/memory.max": "1073741824",
        },
    )
    found = process_limits.read_limits(
        Process(7, 0, proc / "7"), ControlGroups(Process(7, 0, proc / "7"), root)
    )
    assert (found.cpus, found.quota, found.memory) == (CPUS, 1.5, 2**30)
    assert found.cpu_count == min(CPUS, 2)


def test_v1(proc: Path, tmp_path: Path) -> None:
    (proc / "7/cgroup").write_text("4:memory:/a\n2:cpu,cpuacct:/b\n0::/\n")
    root = tree(
        tmp_path / "cg",
        {
            "memory/a/memory.limit_in_bytes": "536870912",
            "memory/memory.limit_in_bytes": "9223372036854771712",
            "cpu/b/cpu.cfs_quota_us": "50000",
            "cpu/b/cpu.cfs_period_us": "100000",
            "cpu/cpu.cfs_quota_us": "-1",
            "cpu/cpu.cfs_period_us": "100000",
        },
    )
    assert process_limits.read_limits(
        Process(7, 0, proc / "7"), ControlGroups(Process(7, 0, proc / "7"), root)
    ) == process_limits.ProcessLimits(CPUS, 0.5, 2**29)


def test_no_limits(proc: Path, tmp_path: Path) -> None:
    (proc / "7/cgroup").write_text("0::/../elsewhere\n")
    assert process_limits.read_limits(
        Process(7, 0, proc / "7"),
        ControlGroups(Process(7, 0, proc / "7"), tree(tmp_path / "cg", {"cgroup.controllers": ""})),
    ) == process_limits.ProcessLimits(CPUS, None, None)
    assert process_limits.ProcessLimits(4, None, None).cpu_count == 4
    assert process_limits.ProcessLimits(4, 0.2, None).cpu_count == 1


def test_what_its_own_group_is_charged_with(proc: Path, tmp_path: Path) -> None:
    files = {
        "cgroup.controllers": "memory",
        "a/memory.current": "9",
        "a/b/memory.current": "4096",
        "memory/c/memory.usage_in_bytes": "7",
    }
    root = tree(tmp_path / "cg", files)
    for group, size in (
        ("0::/a/b", 4096),
        ("0::/a/b/hidden", None),
        ("4:memory:/c\n0::/a/b", 7),
        ("0::/", None),
    ):
        (proc / "7/cgroup").write_text(f"{group}\n")
        assert ControlGroups(Process(7, 0, proc / "7"), root).read_memory_usage() == size


def test_what_was_lazily_freed(tmp_path: Path) -> None:
    proc = tree(tmp_path / "proc", {"7/cgroup": "0::/a"})
    said = "anon 9\npglazyfree 3\npglazyfreed 2\n"
    root = tree(
        tmp_path / "cg",
        {
            "cgroup.controllers": "memory",
            "a/memory.stat": said,
            "memory/c/memory.stat": "cache 7\n",
        },
    )
    assert ControlGroups(
        Process(7, 0, proc / "7"), root
    ).read_lazily_freed_bytes() == 3 * os.sysconf("SC_PAGE_SIZE")
    (proc / "7/cgroup").write_text("4:memory:/c\n0::/a\n")
    assert ControlGroups(Process(7, 0, proc / "7"), root).read_lazily_freed_bytes() == 0
