"""Files as another process sees them: its root, mount namespace and user namespace may be others
than ours.
"""

import os
import re

from dballoc import readers

_FLAGS = re.compile(r"[0-9A-Fa-f]{1,8}")


def own(pid: int, its: str) -> str:
    """The path that the kernel, or the process, calls ``its``, as the process itself would give it.
    OSError if the process is gone or not ours.

    Of a chroot the kernel gives paths as we see them, of a container as it does itself.
    """
    root = os.readlink(f"/proc/{pid}/root").rstrip("/")
    return its.removeprefix(root) if root and its.startswith(f"{root}/") else its


def words(pid: int) -> str | None:
    """What namespaces of its own mean for what one sees of it, in a sentence; None without any.
    OSError if it is gone.
    """
    status = dict(
        line.partition(":")[::2]
        for line in readers.rows(readers.text_of_process(f"/proc/{pid}/status"))
    )
    uid = int(status["Uid"].split()[1])
    inner = status.get("NSpid", str(pid)).split()[-1]
    inner_uid = mapped(readers.text_of_process(f"/proc/{pid}/uid_map"), uid)
    differences = []
    if inner != str(pid):
        differences.append(f"it is process {inner} there")
    if inner_uid is not None and inner_uid != uid:
        differences.append(f"its user {inner_uid} is {uid} here")
    return f"it has namespaces of its own: {', '.join(differences)}" if differences else None


def mapped(text: str, uid: int) -> int | None:
    """A user's number in a namespace, by that one's uid_map as we see it (user_namespaces(7)); None
    if it has none. Pure.
    """
    for line in text.splitlines():
        numbers = [int(word) for word in line.split() if word.isdecimal() and len(word) <= 10]
        if len(numbers) != 3:
            continue
        first, outside, count = numbers
        if outside <= uid < outside + count:
            return first + uid - outside
    return None


def listening(pid: int) -> list[str]:
    """The socket files that a process listens on, as it calls them (proc_net(5)). OSError if it is
    not ours to look at.
    """
    numbers = set()
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(entry.path)
        except OSError:
            continue  # closed meanwhile
        if target.startswith("socket:["):
            numbers.add(target[8:-1])
    return parse_listening_sockets(
        os.fsdecode(readers.of_process(f"/proc/{pid}/net/unix", 64 * readers.MIB)), numbers
    )


def parse_listening_sockets(text: str, numbers: set[str]) -> list[str]:
    """Of /proc/PID/net/unix: the paths of listening sockets of these inode numbers. Pure."""
    paths = []
    for line in readers.rows(text)[1:]:
        # Num: RefCount Protocol Flags Type St Inode Path; __SO_ACCEPTCON in Flags: it listens.
        words = line.split(maxsplit=7)
        if len(words) != 8 or words[6] not in numbers or not _FLAGS.fullmatch(words[3]):
            continue
        if int(words[3], 16) & 0x10000 and not words[7].startswith("@"):
            paths.append(words[7])
    return paths
