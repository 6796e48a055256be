"""Decide what of our password a server may get: nothing, the answer to a challenge, or its text.

A path and an inode identify nobody: with the host's ``/usr`` bind-mounted into a container, a
process there executes the host's own file under a library of its own, and is root. So what counts
is what the kernel shows of a process and the process cannot choose: its namespaces, its root, its
capabilities and its cgroup.
"""

import enum
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from dballoc.catalogue import servers
from dballoc.ground import readers
from dballoc.host.process.handle import Process

# The cgroup of a process that systemd started: /system.slice/NAME.service, maybe with a group of
# the service's own below it.
_UNIT = re.compile(r"/system\.slice/(?:system-[\w\\.-]+\.slice/)?([\w\\.@-]+)\.service(?:/|$)")

# systemd gives a unit its own mounts (ProtectSystem=) and network (PrivateNetwork=).
_OF_UNITS = ("pid", "user")
_OF_OTHERS = ("pid", "user", "mnt", "net")
_WORDS = {"pid": "PID", "user": "user", "mnt": "mount", "net": "network"}

_ELSEWHERE = "use an account without a password there (unix_socket, auth_socket), or --no-sql"
_NAME_IT = (
    "name its socket, by explain --socket or in your client settings (socket = … in ~/.my.cnf, or "
    "MYSQL_UNIX_PORT)"
)


class Trust(enum.Enum):
    """What of our password a server may get. ``ANSWER``: to a challenge, which is of use to nobody
    but the server that knows the password.
    """

    NOTHING = enum.auto()
    ANSWER = enum.auto()
    CLEAR_TEXT = enum.auto()


@dataclass(frozen=True, kw_only=True)
class ProcessCredentials:
    """What the kernel shows of a process. ``user``: its effective user; ``namespaces``: links of
    /proc/PID/ns by name; ``root``: device and inode of its root directory, None where its
    namespaces are not ours, so that nothing of it is touched; ``capabilities``: those permitted;
    ``cgroups``: the text of /proc/PID/cgroup.
    """

    user: int
    namespaces: Mapping[str, str]
    root: tuple[int, int] | None
    capabilities: int
    cgroups: str


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What a server may get. ``reason``: why it gets no more, and what to do about it."""

    trust: Trust
    reason: str = ""


def read_standing(process: Process) -> ProcessCredentials:
    """Read what the kernel shows of a process. Raises OSError if it has ended or is not ours to
    see.
    """
    status = process.read_status()
    namespaces = {name: process.read_link(f"ns/{name}") for name in _OF_OTHERS}
    shared = all(namespaces[name] == os.readlink(f"/proc/self/ns/{name}") for name in _OF_UNITS)
    root = process.root.stat() if shared else None
    return ProcessCredentials(
        user=int(status["Uid"].split()[1]),
        namespaces=namespaces,
        root=(root.st_dev, root.st_ino) if root else None,
        capabilities=int(status["CapPrm"], 16),
        cgroups=process.read_text("cgroup", 1 << 16),
    )


def decide_trust(server: ProcessCredentials, us: ProcessCredentials, named: bool) -> Decision:
    """Return what a server may get of our password. ``named``: it listens where our client settings
    (or clients without settings) connect. Pure.
    """
    unit = is_unit(server.cgroups)
    for name in _OF_UNITS if unit else _OF_OTHERS:
        if server.namespaces.get(name) != us.namespaces.get(name):
            return _refuse(f"it is in another {_WORDS[name]} namespace than dballoc: {_ELSEWHERE}")
    if server.root is None or server.root != us.root:
        return _refuse(f"its root directory is not ours: {_ELSEWHERE}")
    if unit:
        return Decision(trust=Trust.CLEAR_TEXT)
    if server.user == us.user and us.capabilities & ~server.capabilities:
        return _refuse(f"it runs as our user without our capabilities: {_ELSEWHERE}")
    if not named:
        return _refuse(f"nothing shows that it is your server: {_NAME_IT}")
    return Decision(
        trust=Trust.ANSWER,
        reason="it is not a systemd unit of this host named mariadb, mysql or mysqld",
    )


def _refuse(reason: str) -> Decision:
    return Decision(trust=Trust.NOTHING, reason=reason)


def is_unit(cgroups: str) -> bool:
    """Whether a text of /proc/PID/cgroup is that of a systemd unit named as a server, or an
    instance of one. Pure.
    """
    names = {name for entry in servers().values() for name in entry["units"]}
    # A group's own name may have colons and strange line ends in it; whoever is given a group to
    # divide (a user's systemd) chooses the names in it.
    units = {
        match[1].partition("@")[0]
        for line in readers.rows(cgroups)
        if (match := _UNIT.match(line.split(":", 2)[-1]))
    }
    return bool(units & names)
