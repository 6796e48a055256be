"""Files as another process sees them: its root, mount namespace and user namespace may be others than ours."""

import os
from pathlib import Path


def path(pid: int, its: str) -> Path:
    """Where we find the file that the kernel, or the process, calls ``its``. OSError if the process is gone or not ours.

    Of a chroot the kernel gives paths as we see them, of a container as it does itself.
    """
    return Path(f"/proc/{pid}/root{own(pid, its)}")


def own(pid: int, its: str) -> str:
    """The same path as the process itself would give it. OSError as for :func:`path`."""
    root = os.readlink(f"/proc/{pid}/root").rstrip("/")
    return its.removeprefix(root) if root and its.startswith(f"{root}/") else its


def words(pid: int) -> str | None:
    """What namespaces of its own mean for what one sees of it, in a sentence; None without any. OSError if it is gone."""
    status = dict(line.partition(":")[::2] for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    uid = int(status["Uid"].split()[1])
    inner = status.get("NSpid", str(pid)).split()[-1]
    known = mapped(Path(f"/proc/{pid}/uid_map").read_text(), uid)
    said = []
    if inner != str(pid):
        said.append(f"it is process {inner} there")
    if known is not None and known != uid:
        said.append(f"its user {known} is {uid} here")
    return f"it has namespaces of its own: {', '.join(said)}" if said else None


def mapped(text: str, uid: int) -> int | None:
    """A user's number in a namespace, by that one's uid_map as we see it (user_namespaces(7)); None if it has none. Pure."""
    for line in text.splitlines():
        first, outside, count = map(int, line.split())
        if outside <= uid < outside + count:
            return first + uid - outside
    return None


def listening(pid: int) -> list[str]:
    """The socket files that a process listens on, as it calls them (proc_net(5)). OSError if it is not ours to look at."""
    numbers = set()
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(entry.path)
        except OSError:
            continue  # closed meanwhile
        if target.startswith("socket:["):
            numbers.add(target[8:-1])
    return sockets(Path(f"/proc/{pid}/net/unix").read_text(errors="surrogateescape"), numbers)


def sockets(text: str, numbers: set[str]) -> list[str]:
    """Of /proc/PID/net/unix: the paths of listening sockets of these inode numbers. Pure."""
    found = []
    for line in text.splitlines()[1:]:
        # Num: RefCount Protocol Flags Type St Inode Path; __SO_ACCEPTCON in Flags: it listens.
        words = line.split(maxsplit=7)
        if len(words) == 8 and words[6] in numbers and int(words[3], 16) & 0x10000 and not words[7].startswith("@"):
            found.append(words[7])
    return found
