"""A limit for what emulates other processors: an emulated program can take all memory of this
machine (mariadbd did, under qemu-user 7.2).
"""

from collections.abc import Iterator
from contextlib import contextmanager

from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.resources import cgroup


@contextmanager
def limited_memory(limit: int) -> Iterator[None]:
    """Put this process and its children into a cgroup with so many bytes. UsageError where there can
    be none.
    """
    with Custody() as custody:
        group = cgroup.create_memory_cgroup(custody, limit)
        before = group.path.parent
        if group.version == 2:  # where processes are only in groups without children
            before = cgroup.ROOT / cgroup.SELF.read_text().partition("0::/")[2].strip()
        (group.path / "cgroup.procs").write_text("0")
        try:
            yield
        finally:
            (before / "cgroup.procs").write_text("0")
