"""How many threads and mappings a host has left."""

import math
import os
import resource
from pathlib import Path

import pytest

from dballoc.host.resources import thread_limits
from dballoc.host.resources.cgroup_tree import Group
from dballoc.host.resources.thread_limits import (
    ThreadLimit,
    describe_shortage,
    list_thread_limits,
    read_most_mappings,
)


def limit(name: str, most: int, used: int) -> ThreadLimit:
    return ThreadLimit(name=name, most=most, used=used, remedy=f"raise {name}")


def test_the_tightest_limit_is_named_with_its_remedy() -> None:
    limits = [limit("a", 1000, 100), limit("b", 32_768, 32_000), limit("c", 900, 1000)]
    assert describe_shortage(10_000, limits[:2]) == "b of 32,768 leaves 768; raise b"
    assert describe_shortage(1, limits) == "c of 900 leaves 0; raise c"
    assert describe_shortage(700, limits[:2]) == ""
    assert describe_shortage(10**9, []) == ""


def test_this_host_has_limits_of_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {each.name: each for each in list_thread_limits(os.getuid())}
    for name in ("kernel.threads-max", "kernel.pid_max"):
        assert limits[name].most > limits[name].used > 1
    monkeypatch.setattr(resource, "getrlimit", lambda _: (10, 20_000))
    own = {each.name: each for each in list_thread_limits(os.getuid())}
    users = own["the user's limit of processes"]
    assert users.most == 20_000  # the hard limit, which children get
    assert users.used >= 1
    assert 1000 < read_most_mappings() < math.inf


def test_limits_of_control_groups(tmp_path: Path) -> None:
    """A group without a limit says max; a number that none can be is as none."""
    texts = {"a": "max", "b": "512", "c": "9" * 30, "d": None}
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        if text is not None:
            (tmp_path / name / "pids.max").write_text(f"{text}\n")
            (tmp_path / name / "pids.current").write_text("12\n")
    [group] = thread_limits._list_group_limits([Group(tmp_path / name) for name in texts])
    assert (group.most, group.used, group.spare) == (512, 12, 500)
    assert group.name == f"pids.max of the control group {tmp_path}/b"


@pytest.mark.parametrize(
    "text", ["", "0.1 0.2 0.3", "a b c d e", "0 0 0 1/x 5", "0 0 0 " + "9" * 99]
)
def test_what_proc_does_not_tell_limits_nothing(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_limits, "_SYSCTL", tmp_path)
    monkeypatch.setattr(thread_limits.readers, "text_of_process", lambda *_: text)
    assert thread_limits._count_threads() == 0
    monkeypatch.undo()
    monkeypatch.setattr(thread_limits, "_SYSCTL", tmp_path)
    assert read_most_mappings() == math.inf
