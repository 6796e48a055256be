"""Make a memory-limited cgroup for one server: v1, v2, or a clear error if there is neither."""

import contextlib
import os
import uuid
from dataclasses import dataclass
from pathlib import Path

from dballoc.ground.errors import UsageError
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.resources.cgroup_tree import parse_flat_keyed, parse_groups

ROOT = Path("/sys/fs/cgroup")
SELF = Path("/proc/self/cgroup")


@dataclass(frozen=True)
class MemoryCgroup:
    """A memory cgroup that the guardian removes at its end."""

    path: Path
    version: int

    @property
    def procs(self) -> str:
        """The file into which a child writes itself to join."""
        return os.fspath(self.path / "cgroup.procs")

    def oom_kills(self) -> int:
        """Read how many processes of the cgroup the OOM killer has killed."""
        events = self.path / ("memory.events" if self.version == 2 else "memory.oom_control")
        return parse_flat_keyed(events.read_text()).get("oom_kill", 0)

    def remove(self) -> None:
        """Remove the cgroup; one that still has processes is left to the guardian."""
        with contextlib.suppress(OSError):
            self.path.rmdir()


def create_memory_cgroup(custody: Custody, limit: int) -> MemoryCgroup:
    """Make a cgroup beside our own with ``limit`` bytes of memory and no swap. Raises UsageError if
    this user may not.
    """
    version, parent = _find_parent()
    path = parent / f"dballoc-{uuid.uuid4().hex[:12]}"
    try:
        custody.cgroup(path)
        path.mkdir()
        if version == 2:
            (path / "memory.max").write_text(str(limit))
            _write_if_there(path / "memory.swap.max", "0")
            _write_if_there(path / "memory.oom.group", "0")
        else:
            (path / "memory.limit_in_bytes").write_text(str(limit))
            _write_if_there(path / "memory.memsw.limit_in_bytes", str(limit))
    except OSError as error:
        if path.is_dir():
            path.rmdir()
        raise UsageError(_format_refusal(parent, error.strerror)) from None
    return MemoryCgroup(path, version)


def check_memory_cgroup() -> None:
    """Raises UsageError if this user may not make a memory cgroup, or there is none."""
    _, parent = _find_parent()
    if not os.access(parent, os.W_OK):
        raise UsageError(_format_refusal(parent, "Permission denied"))


def _format_refusal(parent: Path, reason: str | None) -> str:
    return (
        f"limits.memory: cannot make a memory cgroup in {parent}: {reason}; "
        "run as root, or under a systemd scope with Delegate=memory"
    )


def _find_parent() -> tuple[int, Path]:
    groups = parse_groups(SELF.read_text())
    if "memory" in groups:
        # The group's path is relative to the cgroup namespace; where it is not mounted so, use the
        # root.
        below = ROOT / "memory" / groups["memory"].lstrip("/")
        return 1, below if below.is_dir() else ROOT / "memory"
    if "" in groups and (ROOT / "cgroup.controllers").exists():
        # In v2 a group with processes cannot have children with controllers: go up until one hands
        # memory down. The name is as seen from the cgroup namespace; one above its root begins with
        # "..".
        inside = groups[""].lstrip("/")
        below = ROOT if ".." in Path(inside).parts else ROOT / inside
        while "memory" not in _read_words(below / "cgroup.subtree_control"):
            if below == ROOT:
                raise UsageError(
                    "limits.memory: no cgroup above this process delegates the memory controller "
                    f"({ROOT}/cgroup.subtree_control); run dballoc under: systemd-run --scope -p "
                    "Delegate=yes"
                )
            below = below.parent
        return 2, below
    raise UsageError(
        "limits.memory: no memory cgroup on this host; run dballoc without limits.memory"
    )


def _write_if_there(path: Path, text: str) -> None:
    if path.exists():
        path.write_text(text)


def _read_words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []  # a group that is not visible from here
