"""A process's mappings, as /proc/PID/smaps tells them (proc_pid_smaps(5)). Pure but for :func:`read`."""

import re
from dataclasses import dataclass
from pathlib import Path

_HEAD = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) \S+ (\d+) *(.*)")


@dataclass(frozen=True)
class Mapping:
    """One mapping. Sizes in bytes; ``flags``: two letters each, as in VmFlags, None where they are not known; ``behind``: known
    to be no part of the file that is mapped before it; ``innodb``: InnoDB's pages were found in it.
    """

    start: int
    end: int
    permissions: str
    offset: int
    inode: int
    path: str
    rss: int
    lazy: int
    swap: int
    huge: int
    hugetlb: int
    flags: frozenset[str] | None
    behind: bool = False
    innodb: bool = False

    @property
    def size(self) -> int:
        """Of address space."""
        return self.end - self.start

    @property
    def file(self) -> bool:
        """Whether a file in a file system backs it."""
        return self.inode != 0 and self.path.startswith("/") and not self.path.startswith(("/dev/zero", "/memfd:", "/SYSV"))

    @property
    def private(self) -> bool:
        """Anonymous, writable, private: what mallocs, stacks and pools are made of."""
        return not self.inode and self.permissions.startswith("rw") and self.permissions.endswith("p") and not self.special

    @property
    def special(self) -> bool:
        """One that the kernel names by its use."""
        return self.path.startswith(("[v", "[stack", "[uprobes"))

    @property
    def guard(self) -> bool:
        """Nobody may touch it."""
        return self.permissions.startswith("---")


def read(pid: int) -> list[Mapping]:
    """All mappings, by address. OSError if the process is gone or not ours."""
    return parse(Path(f"/proc/{pid}/smaps").read_text(errors="replace"))


def parse(text: str) -> list[Mapping]:
    """The mappings of a smaps text."""
    found: list[Mapping] = []
    head: re.Match[str] | None = None
    sizes: dict[str, int] = {}
    flags: frozenset[str] = frozenset()
    for line in [*text.splitlines(), "0-0 ---- 0 0 0 "]:
        if match := _HEAD.match(line):
            if head:
                found.append(_mapping(head, sizes, flags))
            head, sizes, flags = match, {}, frozenset()
            continue
        name, _, rest = line.partition(":")
        if name == "VmFlags":
            flags = frozenset(rest.split())
        elif rest.endswith(" kB"):
            sizes[name] = int(rest[:-3]) * 1024
    return found


def _mapping(head: re.Match[str], sizes: dict[str, int], flags: frozenset[str]) -> Mapping:
    return Mapping(
        int(head[1], 16), int(head[2], 16), head[3], int(head[4], 16), int(head[5]), head[6],
        sizes.get("Rss", 0), sizes.get("LazyFree", 0), sizes.get("Swap", 0),
        sizes.get("AnonHugePages", 0), sizes.get("Private_Hugetlb", 0) + sizes.get("Shared_Hugetlb", 0), flags,
    )  # fmt: skip
