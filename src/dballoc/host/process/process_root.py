"""Paths and users as another process sees them: its root, mount namespace and user namespace may be
others than ours.
"""

import os
import re

from dballoc.ground import readers
from dballoc.host.process.handle import Process

_FLAGS = re.compile(r"[0-9A-Fa-f]{1,8}")


def describe_namespaces(process: Process) -> str | None:
    """Describe how the PID and user of a process with namespaces of its own differ inside, in a
    sentence; None if they do not. Raises OSError if it has ended.
    """
    status = process.read_status()
    uid = int(status["Uid"].split()[1])
    inner = status.get("NSpid", str(process.pid)).split()[-1]
    inner_uid = map_uid(process.read_text("uid_map"), uid)
    differences = []
    if inner != str(process.pid):
        differences.append(f"it is process {inner} there")
    if inner_uid is not None and inner_uid != uid:
        differences.append(f"its user {inner_uid} is {uid} here")
    return f"it has namespaces of its own: {', '.join(differences)}" if differences else None


def map_uid(text: str, uid: int) -> int | None:
    """Map a user ID of ours to the one in a user namespace, by its uid_map (user_namespaces(7));
    None if it has none there. Pure.
    """
    for line in text.splitlines():
        numbers = [int(word) for word in line.split() if word.isdecimal() and len(word) <= 10]
        if len(numbers) != 3:
            continue
        first, outside, count = numbers
        if outside <= uid < outside + count:
            return first + uid - outside
    return None


def list_listening_sockets(process: Process) -> list[str]:
    """List the socket files that a process listens on, by its own paths (proc_net(5)). Raises
    OSError if we may not read its descriptors.
    """
    numbers = set()
    for entry in os.scandir(f"{process.home}/fd"):
        try:
            target = os.readlink(entry.path)
        except OSError:
            continue  # closed meanwhile
        if target.startswith("socket:["):
            numbers.add(target[8:-1])
    return parse_listening_sockets(os.fsdecode(process.read("net/unix", 64 * readers.MIB)), numbers)


def parse_listening_sockets(text: str, numbers: set[str]) -> list[str]:
    """Parse /proc/PID/net/unix: the paths of listening sockets with these inode numbers. Pure."""
    paths = []
    for line in readers.rows(text)[1:]:
        # Num: RefCount Protocol Flags Type St Inode Path; __SO_ACCEPTCON in Flags: it listens.
        words = line.split(maxsplit=7)
        if len(words) != 8 or words[6] not in numbers or not _FLAGS.fullmatch(words[3]):
            continue
        if int(words[3], 16) & 0x10000 and not words[7].startswith("@"):
            paths.append(words[7])
    return paths
