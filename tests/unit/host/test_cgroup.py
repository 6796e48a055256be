"""Memory cgroups, from trees as the kernels make them: v1, v2, and what there is to say where there
is neither.
"""

from pathlib import Path

import pytest

from dballoc.ground.errors import UsageError
from dballoc.host.resources import cgroup

V2_FILES = ("cgroup.procs", "memory.max", "memory.swap.max", "memory.oom.group", "memory.events")
V1_FILES = (
    "cgroup.procs",
    "memory.limit_in_bytes",
    "memory.memsw.limit_in_bytes",
    "memory.oom_control",
)


class Custody:
    """Takes note of what the guardian would remove."""

    def __init__(self) -> None:
        self.noted: list[Path] = []

    def cgroup(self, path: Path) -> None:
        self.noted.append(path)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """``kernel({"cgroup.controllers": "memory"}, "0::/a")``: a tree, and what /proc/self/cgroup
    says; new groups get files.
    """

    def make(tree: dict[str, str], own: str, files: tuple[str, ...] = V2_FILES) -> Path:
        root = tmp_path / "cgroup"
        for name, text in tree.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        (tmp_path / "self").write_text(own + "\n")
        monkeypatch.setattr(cgroup, "ROOT", root)
        monkeypatch.setattr(cgroup, "SELF", tmp_path / "self")
        mkdir = Path.mkdir

        def as_the_kernel(self: Path, *args, **more) -> None:
            mkdir(self, *args, **more)
            if self.name.startswith("dballoc-"):
                for file in files:
                    (self / file).write_text("")

        monkeypatch.setattr(Path, "mkdir", as_the_kernel)
        return root

    return make


def test_v2_goes_up_to_the_group_that_hands_memory_down(kernel) -> None:
    root = kernel(
        {
            "cgroup.controllers": "cpu memory",
            "cgroup.subtree_control": "cpu memory",
            "user.slice/cgroup.subtree_control": "memory",
            "user.slice/session.scope/cgroup.subtree_control": "",
        },
        "0::/user.slice/session.scope",
    )
    custody = Custody()
    made = cgroup.create_memory_cgroup(custody, 400 << 20)
    assert (made.version, made.path.parent) == (2, root / "user.slice")
    assert custody.noted == [made.path]
    read = {f: (made.path / f).read_text() for f in V2_FILES}
    assert read == {
        "cgroup.procs": "",
        "memory.max": str(400 << 20),
        "memory.swap.max": "0",
        "memory.oom.group": "0",
        "memory.events": "",
    }
    assert made.procs == str(made.path / "cgroup.procs")


def test_v2_counts_the_kills(kernel) -> None:
    kernel({"cgroup.controllers": "memory", "cgroup.subtree_control": "memory"}, "0::/")
    made = cgroup.create_memory_cgroup(Custody(), 2**30)
    (made.path / "memory.events").write_text(
        "low 0\nhigh 0\nmax 812\noom 3\noom_kill 1\noom_group_kill 0\n"
    )
    assert made.oom_kills() == 1


def test_v2_without_swap_accounting(kernel) -> None:
    kernel(
        {"cgroup.controllers": "memory", "cgroup.subtree_control": "memory"},
        "0::/",
        ("cgroup.procs", "memory.max", "memory.events"),
    )
    made = cgroup.create_memory_cgroup(Custody(), 2**30)
    assert not (made.path / "memory.swap.max").exists()
    assert (made.path / "memory.max").read_text() == str(2**30)


@pytest.mark.parametrize("own", ["0::/", "0::/../outside", "0::/not/to/be/seen"])
def test_v2_that_hands_nothing_down_is_one_line(kernel, own: str) -> None:
    # A container's own root has processes in it, so it cannot hand anything down.
    kernel({"cgroup.controllers": "cpu memory", "cgroup.subtree_control": "cpu"}, own)
    with pytest.raises(
        UsageError,
        match=r"^limits.memory: no cgroup above this process delegates .*systemd-run --scope -p Delegate=yes$",
    ):
        cgroup.check_memory_cgroup()


def test_v1(kernel) -> None:
    tree = {"memory/a/memory.limit_in_bytes": "9223372036854771712"}
    root = kernel(tree, "4:memory:/a\n3:cpu,cpuacct:/b\n0::/", V1_FILES)
    made = cgroup.create_memory_cgroup(Custody(), 300 << 20)
    assert (made.version, made.path.parent) == (1, root / "memory/a")
    assert (made.path / "memory.limit_in_bytes").read_text() == str(300 << 20)
    assert (made.path / "memory.memsw.limit_in_bytes").read_text() == str(300 << 20)
    (made.path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert made.oom_kills() == 2


def test_v1_of_another_namespace(kernel) -> None:
    root = kernel({"memory/cgroup.procs": ""}, "4:memory:/docker/0123\n0::/", V1_FILES)
    assert cgroup.create_memory_cgroup(Custody(), 2**30).path.parent == root / "memory"


def test_neither(kernel) -> None:
    kernel({"unified/cgroup.controllers": ""}, "3:cpu:/b\n0::/")
    with pytest.raises(UsageError, match=r"^limits\.memory: no memory cgroup on this host"):
        cgroup.check_memory_cgroup()
