"""The memory of a process's cgroup, from trees as kernels show them: which group is the narrowest,
and what a container's own view adds.
"""

import os
from pathlib import Path
from typing import Any

import pytest
from example_cgroups import make_groups, write_tree
from hypothesis import given
from hypothesis import strategies as st

from dballoc.host.process.handle import Process
from dballoc.host.resources import cgroup_memory, cgroup_tree, process_limits
from dballoc.host.resources.cgroup_memory import CgroupMemory, choose_narrowest

MIB = 1 << 20
STAT = "anon 900\nfile 300\ninactive_file {}\nactive_file 5\npgfault 77\n"
EVENTS = "low 0\nhigh 12\nmax 3\noom 1\noom_kill 1\noom_group_kill 0\n"
PRESSURE = (
    "some avg10=1.53 avg60=0.87 avg300=0.10 total=58761459\n"
    "full avg10=0.00 avg60=2.13 avg300=0.00 total=58758449\n"
)


def read_memory(top: Path, *tree: Any) -> CgroupMemory | None:
    """The memory of the process's group in these trees; see :func:`make_groups`."""
    return cgroup_memory.read_cgroup_memory(make_groups(top, *tree))


def v2_group(limit: str, high: str, used: int, inactive: int) -> dict[str, str]:
    return {
        "memory.max": limit,
        "memory.high": high,
        "memory.current": str(used),
        "memory.stat": STAT.format(inactive),
        "memory.events": EVENTS,
        "memory.pressure": PRESSURE,
    }


def test_each_file_of_a_group_is_read_once(tmp_path: Path) -> None:
    files = {"cgroup.controllers": "memory", "a/memory.current": "5"}
    groups = make_groups(tmp_path, "0::/a", files)
    assert groups.read_memory_usage() == 5
    make_groups(tmp_path, "0::/b", {"a/memory.current": "6"})
    assert groups.read_memory_usage() == 5
    memory = cgroup_memory.read_cgroup_memory(groups)
    assert memory
    assert memory.charged == 5


def test_v2_reads_the_group_with_the_least_left(tmp_path: Path) -> None:
    files = {"cgroup.controllers": "cpu memory"}
    # The pod has a sidecar, so that it is nearer to its limit than the container is to its own.
    for group, values in {
        "pod": v2_group(str(1200 * MIB), "max", 1000 * MIB, 10 * MIB),
        "pod/db": v2_group(str(1100 * MIB), "max", 700 * MIB, 50 * MIB),
    }.items():
        files |= {f"{group}/{name}": text for name, text in values.items()}
    read = read_memory(tmp_path, "0::/pod/db", files)
    assert read
    assert read.name.endswith("/pod")
    assert (read.limit, read.high, read.bound) == (1200 * MIB, None, 1200 * MIB)
    assert read.working_set == 990 * MIB
    assert read.events["oom_kill"] == 1
    assert read.pressure["full avg60"] == 2.13
    assert read.pressure["some avg10"] == 1.53


def test_v2_high_binds_before_the_limit(tmp_path: Path) -> None:
    values = v2_group("max", str(500 * MIB), 400 * MIB, 0)
    files = {"cgroup.controllers": "memory", **{f"a/{k}": v for k, v in values.items()}}
    read = read_memory(tmp_path, "0::/a", files)
    assert read
    assert (read.limit, read.high, read.bound) == (None, 500 * MIB, 500 * MIB)


def test_v1(tmp_path: Path) -> None:
    files = {
        "memory/a/memory.limit_in_bytes": str(900 * MIB),
        "memory/a/memory.usage_in_bytes": str(500 * MIB),
        "memory/a/memory.stat": f"inactive_file 7\ntotal_inactive_file {100 * MIB}",
        "memory/a/memory.failcnt": "17",
        "memory/a/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2",
        "memory/a/b/memory.limit_in_bytes": "9223372036854771712",
        "memory/a/b/memory.usage_in_bytes": str(400 * MIB),
        "memory/a/b/memory.stat": "total_inactive_file 0",
    }
    read = read_memory(tmp_path, "4:memory:/a/b\n0::/", files)
    assert read == CgroupMemory(
        name=str(tmp_path / "cg/memory/a"),
        limit=900 * MIB,
        high=None,
        charged=500 * MIB,
        inactive_file=100 * MIB,
        events={"max": 17, "oom_kill": 2},
    )
    assert read.working_set == 400 * MIB


@pytest.mark.parametrize("group", ["0::/", "0::/hidden", "", "nonsense", "4:cpu:/a"])
def test_no_group_that_counts_memory(tmp_path: Path, group: str) -> None:
    assert read_memory(tmp_path, group, {"cgroup.controllers": "memory"}) is None


def test_a_container_beside_ours_is_read_in_its_own_root(tmp_path: Path) -> None:
    """A sidecar sees the server's group as ``/../…``; the server's own /sys/fs/cgroup is it."""
    proc = tmp_path / "proc"
    values = v2_group(str(800 * MIB), "max", 300 * MIB, 100 * MIB)
    files = {"cpu.max": "50000 100000", "cgroup.procs": "3\n7\n9", **values}
    inside = write_tree(proc / "7/root/sys/fs/cgroup", files)
    (proc / "7/task" / str(os.getpid())).mkdir(parents=True)
    ours = {"cgroup.controllers": "memory", "memory.max": "1"}
    read = read_memory(tmp_path, "0::/../cri-0123.scope", ours)
    assert read
    assert (read.limit, read.working_set) == (800 * MIB, 200 * MIB)
    seven = Process(7, 0, proc / "7")
    limits = process_limits.read_limits(seven, make_groups(tmp_path))
    assert (limits.quota, limits.memory) == (0.5, 800 * MIB)
    # What is mounted there may be another group's, as the machine's for a process without one.
    (inside / "cgroup.procs").write_text("3\n77\n")
    assert read_memory(tmp_path) is None
    assert process_limits.read_limits(seven, make_groups(tmp_path)).memory is None


def test_in_a_sidecar_under_v1_our_own_group_is_not_the_servers(tmp_path: Path) -> None:
    """Without a cgroup namespace paths are the machine's, and what is mounted is our own group."""
    group = "4:memory:/kubepods/pod/db\n3:cpu:/kubepods/pod/db"
    make_groups(tmp_path, group, {"memory/memory.limit_in_bytes": str(64 * MIB)})
    proc, ours = tmp_path / "proc", tmp_path / "cg"
    (proc / "self").mkdir()
    (proc / "self/mountinfo").write_text(
        f"31 23 0:28 / {ours} rw - tmpfs tmpfs rw,mode=755\n"
        f"32 31 0:35 /kubepods/pod/sidecar {ours}/memory rw - cgroup cgroup rw,memory\n"
    )
    assert read_memory(tmp_path) is None
    values = {
        "cgroup.procs": "7",
        "memory.limit_in_bytes": str(800 * MIB),
        "memory.usage_in_bytes": str(300 * MIB),
    }
    write_tree(proc / "7/root/sys/fs/cgroup/memory", values)
    read = read_memory(tmp_path)
    assert read
    assert (read.limit, read.charged) == (800 * MIB, 300 * MIB)
    assert make_groups(tmp_path).read_memory_usage() is None
    # A group below the one that is mounted is where its path less that one's says.
    (proc / "7/cgroup").write_text("4:memory:/kubepods/pod/sidecar/below")
    write_tree(ours / "memory/below", values)
    read = read_memory(tmp_path)
    assert read
    assert read.name == f"{ours}/memory/below"


def test_a_link_in_a_hostile_root_leads_nowhere_else(tmp_path: Path) -> None:
    outside = write_tree(tmp_path / "outside", {"cgroup.procs": "7", **v2_group("1", "1", 1, 0)})
    inside = tmp_path / "proc/7/root/sys/fs"
    inside.mkdir(parents=True)
    (inside / "cgroup").symlink_to(outside)
    assert read_memory(tmp_path, "0::/../x", {"cgroup.controllers": "memory"}) is None


@given(st.text())
def test_any_text_is_read_or_left_out(text: str) -> None:
    assert all(value >= 0 for value in cgroup_tree.parse_flat_keyed(text).values())
    assert all(0 <= value < 1e9 for value in cgroup_memory.parse_pressure(text).values())
    cgroup_tree.parse_groups(text)
    cgroup_tree.parse_mount_roots(text)


@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.integers(0, 1 << 40)
        ),
        max_size=5,
    )
)
def test_no_group_has_less_left_than_the_narrowest(rows: list[tuple[int | None, int, int]]) -> None:
    groups = [
        CgroupMemory(name=str(i), limit=limit, high=None, charged=used, inactive_file=cached)
        for i, (limit, used, cached) in enumerate(rows)
    ]
    narrowest = choose_narrowest(groups)
    assert (narrowest is None) == (not groups)
    if narrowest and narrowest.bound is not None:
        left = narrowest.bound - narrowest.working_set
        assert all(g.bound is None or g.bound - g.working_set >= left for g in groups)
    elif narrowest:
        assert all(g.bound is None for g in groups)
