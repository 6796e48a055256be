"""Which file systems of a process may keep a reader waiting: all but those whose data come from
this host's own disks and memory. By the text of /proc/PID/mountinfo (proc_pid_mountinfo(5)),
because statfs(2) asks the file system, so that it would wait itself. Pure but for
:func:`read_mounts`.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from dballoc.ground import readers
from dballoc.host.process.maps import ANONYMOUS

# What an ordinary user can mount in a user namespace is here only if it has no other source than
# the kernel: not fuse, and not overlay, whose layers may lie on it.
_ANSWERING = frozenset(
    "bcachefs binfmt_misc bpf btrfs cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs erofs "
    "exfat ext2 ext3 ext4 f2fs hugetlbfs iso9660 jfs mqueue nilfs2 ntfs3 proc pstore ramfs "
    "reiserfs resctrl rootfs rpc_pipefs securityfs selinuxfs squashfs sysfs tmpfs tracefs udf vfat "
    "xfs zfs".split()
)
# fs.mount-max allows 100,000.
_MOST_BYTES = 32 * readers.MIB
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A mounted file system. ``point``: its path inside the process's root; ``device``: as in
    /proc/PID/maps, ``MAJOR:MINOR`` in hexadecimal.
    """

    point: str
    type: str
    device: str

    @property
    def may_block(self) -> bool:
        """Whether its answer may never come."""
        return self.type not in _ANSWERING

    @property
    def title(self) -> str:
        """Its type and place, as messages name it, and by which it is told from others."""
        return f"{self.type} at {self.point}"


@dataclass(frozen=True)
class Mounts:
    """The file systems that a process sees, by mount point; of two at one point the later one."""

    by_point: dict[str, Mount] = field(default_factory=dict)

    def find(self, path: str) -> Mount:
        """Return the file system that an absolute path without links and dots lies on; one that may
        block where that is not known, as in a chroot below a mount point.
        """
        point = path
        while point not in self.by_point:
            if point in ("", "/"):
                return Mount(point="/", type="an unknown file system", device="")
            point = point.rpartition("/")[0] or "/"
        return self.by_point[point]

    def find_blocking_device(self, device: str) -> Mount | None:
        """Return the file system with a device of /proc/PID/maps if it may block; one without a
        name if no mount has it, as for the kernel's shared memory and unmounted file systems. None
        for memory without a file, and where every mount of the device answers.
        """
        if device == ANONYMOUS:
            return None
        mounts = [mount for mount in self.by_point.values() if mount.device == device]
        if not mounts:
            return Mount(point=f"device {device}", type="a file system", device=device)
        return next((mount for mount in mounts if mount.may_block), None)


def read_mounts(home: str | Path) -> Mounts:
    """Read the file systems that a process sees, by its directory below /proc; none if that cannot
    be read.
    """
    try:
        return parse_mounts(readers.text_of_process(f"{home}/mountinfo", _MOST_BYTES))
    except OSError:
        return Mounts()


def parse_mounts(text: str) -> Mounts:
    """Parse the text of /proc/PID/mountinfo; what is no line of it is left out."""
    mounts = {}
    for line in readers.rows(text):
        # ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [FIELDS…] - TYPE SOURCE SUPER
        before, _, after = line.partition(" - ")
        words, rest = before.split(" "), after.split(" ")
        major, _, minor = (words[2] if len(words) > 5 else "").partition(":")
        if not (major.isdecimal() and minor.isdecimal() and rest[0]):
            continue
        point = _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 8)), words[4])
        device = f"{int(major):02x}:{int(minor):02x}"
        mounts[point] = Mount(point=point, type=rest[0], device=device)
    return Mounts(mounts)
