"""Trees of cgroups and of /proc, as kernels show them of process 7."""

from pathlib import Path

from dballoc.host.process.handle import Process
from dballoc.host.resources.cgroup_tree import ControlGroups


def write_tree(root: Path, files: dict[str, str]) -> Path:
    """Write these texts, by their paths below a directory, which is returned."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    return root


def make_groups(
    top: Path, group: str | None = None, files: dict[str, str] | None = None
) -> ControlGroups:
    """The groups of process 7 below ``top``, which may be there already: ``group`` is its
    /proc/7/cgroup, ``files`` what is mounted.
    """
    write_tree(top, {} if group is None else {"proc/7/cgroup": group})
    root = write_tree(top / "cg", files or {})
    return ControlGroups(Process(7, 0, top / "proc/7"), root)
