"""Find the control groups of a process, and read their files: v1, v2, and a container's own view
where its groups are not visible from here (cgroups(7), cgroup_namespaces(7)).
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from dballoc.ground import readers
from dballoc.host.process import open_in_process_root
from dballoc.host.process.handle import PROC, Process

ROOT = Path("/sys/fs/cgroup")

# The largest file that is read, memory.stat, has about 2 KB.
_MOST_BYTES = 64 << 10
# No path of the kernel's has more groups above each other.
_MOST_GROUPS = 64
_MOST_DIGITS = 20
# Of a line of mountinfo, up to the mount point and its options.
_LEAST_FIELDS = 5


@dataclass(frozen=True)
class Group:
    """A group of one controller, each of whose files is read once. ``path``: its directory;
    ``inside``: the root of a process that ``path`` lies in, None for a directory of ours.
    """

    path: Path
    inside: Path | None = None
    texts: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    def read(self, name: str) -> str:
        """Return the text of one of its files; empty where there is no such file."""
        if name not in self.texts:
            self.texts[name] = self._read(name)
        return self.texts[name]

    def _read(self, name: str) -> str:
        try:
            if self.inside is None:
                return self.path.joinpath(name).read_text().strip()
            path = str(self.path / name)
            data = open_in_process_root.read_file(self.inside, path, _MOST_BYTES)
            return data.decode(errors="replace").strip()
        except OSError:
            return ""

    def read_number(self, name: str) -> int | None:
        """Return a file's number; None without one, as where it says ``max``."""
        return parse_number(self.read(name))


class ControlGroups:
    """The groups that a process is in, and those above them, each looked up once."""

    def __init__(self, process: Process, root: Path = ROOT) -> None:
        """Read them. ``root``: where they are mounted. Raises OSError if the process is gone."""
        self._process, self._root = process, root
        self._paths = parse_groups(process.read_text("cgroup"))
        self._lists: dict[str, list[Group]] = {}

    def list_visible(self, controller: str) -> list[Group]:
        """List the group of a controller and those above it, as far as they are visible."""
        if controller not in self._lists:
            paths = iterate_groups(self._paths, controller, self._root, self._process.home.parent)
            self._lists[controller] = [Group(path) for path in paths][:_MOST_GROUPS]
        return self._lists[controller]

    def list_any(self, controller: str) -> list[Group]:
        """List the same. A container beside ours has none that is visible; then it is the root of
        its own view, if that says that the process is in there.
        """
        if groups := self.list_visible(controller):
            return groups
        top = ROOT / controller if controller in self._paths else ROOT
        group = Group(top, self._process.root)
        return [group] if str(self._process.pid) in group.read("cgroup.procs").split() else []

    def read_memory_usage(self) -> int | None:
        """Read the bytes charged to the process's own memory group, page cache included; None if
        only groups above it are visible from here, or none is.
        """
        name = self._paths.get("memory", self._paths.get("", ""))
        group = next(iter(self.list_visible("memory")), None)
        if group is None or not group.path.as_posix().endswith(name.rstrip("/")):
            return None
        charged = group.read_number("memory.current")
        return group.read_number("memory.usage_in_bytes") if charged is None else charged

    def read_lazily_freed_bytes(self) -> int:
        """Read the bytes that the process's group has lazily freed (MADV_FREE) since it was made; 0
        where it does not count them (v1).
        """
        texts = [group.read("memory.stat") for group in self.list_visible("memory")[:1]]
        statistics = parse_flat_keyed("".join(texts))
        return statistics.get("pglazyfree", 0) * os.sysconf("SC_PAGE_SIZE")


def parse_groups(text: str) -> dict[str, str]:
    """Parse /proc/PID/cgroup: controller (an empty name for v2) -> the group's path."""
    paths = {}
    for line in readers.rows(text):
        number, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if number.isdecimal() and colon:
            paths.update(dict.fromkeys(controllers.split(","), path))
    return paths


def iterate_groups(
    groups: dict[str, str], controller: str, root: Path, proc: Path = PROC
) -> Iterator[Path]:
    """Yield the directories of a controller's group and of those above it, as far as they are
    visible from here.
    """
    if controller in groups:
        top, path = root / controller, groups[controller]
    elif "" in groups:
        top, path = (
            (root if (root / "cgroup.controllers").exists() else root / "unified"),
            groups[""],
        )
    else:
        return
    try:
        below = PurePosixPath(path).relative_to(read_mount_root(top, proc))
    except ValueError:
        return  # what is mounted there is a container's own group, which does not hold this one
    group = top / below
    while ".." not in group.parts and group.is_relative_to(top):
        if group.is_dir():
            yield group
        group = group.parent


def read_mount_root(top: Path, proc: Path = PROC) -> str:
    """Read which group is mounted at a directory: ``/`` but in a container that shows its own alone
    (v1 without a cgroup namespace).
    """
    place = os.path.realpath(top)
    try:
        text = readers.text_of_process(proc / "self/mountinfo")
    except OSError:
        return "/"
    return parse_mount_roots(text).get(place, "/")


def parse_mount_roots(text: str) -> dict[str, str]:
    """Parse /proc/PID/mountinfo: mount point -> the directory of the file system that is mounted
    there, of the last mount at that point (proc_pid_mountinfo(5)). Pure.
    """
    fields = (line.split(" ") for line in readers.rows(text))
    return {field[4]: field[3] for field in fields if len(field) > _LEAST_FIELDS}


def parse_number(text: str) -> int | None:
    """Return a number of the kernel's, None for anything else. Pure."""
    fits = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if fits else None


def parse_flat_keyed(text: str) -> dict[str, int]:
    """Parse lines of a name and a number, as memory.stat and memory.events have them. Pure."""
    values = {}
    for line in readers.rows(text):
        name, _, number = line.partition(" ")
        if (value := parse_number(number)) is not None:
            values[name] = value
    return values
