"""The unprivileged user as whom servers and others' programs run: never root."""

import functools
import grp
import itertools
import os
import pwd
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dballoc.ground.errors import NotNow, UsageError
from dballoc.host.process.handle import PROC, Process

# Not handed out to anybody (systemd, "Users, Groups, UIDs and GIDs on systemd Systems": 60706-61183
# are unused): they are above ordinary accounts and below systemd's dynamic users, and exist in a
# container with 65,536 users.
UNUSED = range(60706, 61184)

# The names of the first and the last number of each range in /etc/login.defs.
_LOGIN_RANGES = [
    (f"{kind}_MIN", f"{kind}_MAX")
    for kind in ("UID", "SYS_UID", "SUB_UID", "GID", "SYS_GID", "SUB_GID")
]
# A process of ours may be listed a moment before it is recognised as ours, or after its parent has
# ended.
_ATTEMPTS, _SECONDS_BETWEEN = 20, 0.1
_OURS = re.compile(
    rb"(^|/)dballoc(\0|$)|/dballoc/host/(?:guardian/)?guardian\.py\0|\0-m\0dballoc(\0|\.)"
)


@dataclass(frozen=True)
class ServerUser:
    """The server user. ``uid`` is None when dballoc is not root: servers run as its user then."""

    uid: int | None

    @property
    def name(self) -> str:
        """The user's name, for reports and errors."""
        uid = os.getuid() if self.uid is None else self.uid
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            # ours has no account on purpose, and a container's user often has none either
            return f"uid {uid}"

    def as_spawn(self) -> dict[str, int | None]:
        """Return the arguments for :meth:`dballoc.host.guardian.guardian_client.Custody.spawn`."""
        return {} if self.uid is None else {"uid": self.uid, "gid": self.uid}

    def give(self, path: Path) -> None:
        """Make a file or directory the server user's; of a link, the link itself."""
        if self.uid is not None:
            os.chown(path, self.uid, self.uid, follow_symlinks=False)

    def share(self, directory: Path) -> None:
        """Let the server user make files in a directory that stays ours, so that it cannot replace
        it.
        """
        self._open(directory, 0o770)

    def show(self, directory: Path) -> None:
        """Let the server user reach files in a directory of ours by name, but not list them."""
        self._open(directory, 0o710)

    def let_read(self, file: Path) -> None:
        """Let the server user, and nobody else, read a file that stays ours."""
        self._open(file, 0o440)

    def let_execute(self, program: Path) -> None:
        """Let the server user, and nobody else, run a program that stays ours."""
        self._open(program, 0o750)

    def _open(self, path: Path, mode: int) -> None:
        if self.uid is not None:
            os.chown(path, -1, self.uid, follow_symlinks=False)
            path.chmod(mode)

    def blocked_at(self, path: Path) -> Path | None:
        """Return the first part of a file's path that the server user may not enter or read, None
        if it can read the file.
        """
        if self.uid is None:
            return None if os.access(path, os.R_OK) else path
        path = path.resolve()
        return self.may_not_pass(path.parent) or (None if self._may(path, 4) else path)

    def may_not_pass(self, directory: Path) -> Path | None:
        """Return the first part of a path that the server user may not enter, None if none is."""
        if self.uid is None:
            return None if os.access(directory, os.X_OK) else directory
        directory = directory.resolve()
        return next(
            (part for part in [*reversed(directory.parents), directory] if not self._may(part, 1)),
            None,
        )

    def check_alone(self) -> None:
        """Check that no process but dballoc's runs as this user, because it could change our
        servers. UsageError.
        """
        if self.uid is None:
            return
        strangers = _find_strangers(self.uid)
        for _ in range(_ATTEMPTS):
            if not strangers:
                return
            time.sleep(_SECONDS_BETWEEN)
            strangers &= _find_strangers(self.uid)
        pid = min(strangers, default=None)
        if pid is not None:
            raise NotNow(
                f"servers run as {self.name}, and process {pid}, which is none of dballoc's, runs "
                f"as that user too; see what it is, and end it: ps -fp {pid}"
            )

    def _may(self, path: Path, bit: int) -> bool:
        status = path.stat()
        shift = 6 if status.st_uid == self.uid else 3 if status.st_gid == self.uid else 0
        return bool(status.st_mode >> shift & bit)


def server_user() -> ServerUser:
    """Return the unprivileged user for servers on this host. Raises UsageError if no user ID is
    free.
    """
    return ServerUser(_choose_users()[0])


def find_server_user() -> ServerUser | None:
    """Return the unprivileged user for servers; None if no user ID is free, as in a rootless
    container.
    """
    try:
        return server_user()
    except UsageError:
        return None


def parser_user() -> ServerUser:
    """Return the user as whom files of others are parsed: not the servers' user, so that neither
    can touch the other.
    """
    return ServerUser(_choose_users()[1])


def has_other_users() -> bool:
    """Whether any of the IDs for them exists in this user namespace: in a container that was made
    with one ID there is nobody to become.
    """
    uids, gids = _read_mapped_ranges()
    return any(_is_in_ranges(uids, uid) and _is_in_ranges(gids, uid) for uid in UNUSED)


@functools.cache
def _choose_users() -> tuple[int | None, int | None]:
    if os.geteuid() != 0:
        return None, None
    handed_out = [
        *parse_subordinate_ranges(_read_text("/etc/subuid")),
        *parse_subordinate_ranges(_read_text("/etc/subgid")),
        *parse_login_ranges(_read_text("/etc/login.defs")),
    ]
    mapped = _read_mapped_ranges()
    free = (
        uid
        for uid in UNUSED
        if not _has_account(uid) and all(_is_in_ranges(each, uid) for each in mapped)
    )
    uids = choose_unused(free, handed_out, 2)
    if len(uids) < 2:
        raise UsageError(
            "servers and parsers need two free user IDs to run as, and there are not two: each ID "
            f"from {UNUSED[0]} to {UNUSED[-1]} has an account, is in a range of /etc/login.defs, "
            "/etc/subuid or /etc/subgid, or does not exist in this user namespace "
            "(/proc/self/uid_map)"
        )
    return uids[0], uids[1]


def _read_mapped_ranges() -> tuple[list[range], list[range]]:
    """Read which users, and which groups, exist in this user namespace."""
    return (
        parse_mapped_ranges(_read_text("/proc/self/uid_map")),
        parse_mapped_ranges(_read_text("/proc/self/gid_map")),
    )


def choose_unused(candidates: Iterable[int], handed_out: Iterable[range], count: int) -> list[int]:
    """Choose the first ``count`` candidates that are in none of the ranges; fewer if there are no
    more. Pure.
    """
    ranges = list(handed_out)
    return list(
        itertools.islice((uid for uid in candidates if not _is_in_ranges(ranges, uid)), count)
    )


def parse_subordinate_ranges(text: str) -> list[range]:
    """Parse the ranges of /etc/subuid or /etc/subgid (``NAME:FIRST:COUNT`` a line). Pure."""
    rows = (line.split(":") for line in text.splitlines() if not line.lstrip().startswith("#"))
    numbers = (
        (int(row[1]), int(row[2]))
        for row in rows
        if len(row) == 3 and row[1].isdigit() and row[2].strip().isdigit()
    )
    return [range(first, first + count) for first, count in numbers]


def parse_login_ranges(text: str) -> list[range]:
    """Parse the ranges from which accounts are made, in /etc/login.defs. Pure."""
    words = (line.split() for line in text.splitlines())
    values = {word[0]: int(word[1]) for word in words if len(word) > 1 and word[1].isdigit()}
    pairs = [
        (values[first], values[last])
        for first, last in _LOGIN_RANGES
        if first in values and last in values
    ]
    return [range(first, last + 1) for first, last in pairs]


def parse_mapped_ranges(text: str) -> list[range]:
    """Parse the ranges of IDs that exist in a user namespace, of its uid_map or gid_map
    (user_namespaces(7)). Pure.
    """
    rows = (list(map(int, line.split())) for line in text.splitlines())
    return [range(first, first + count) for first, _, count in rows]


def _is_in_ranges(ranges: Iterable[range], number: int) -> bool:
    return any(number in each for each in ranges)


def _has_account(uid: int) -> bool:
    for look_up in (pwd.getpwuid, grp.getgrgid):
        try:
            look_up(uid)
        except KeyError:
            continue
        return True
    return False


def read_owner_and_parent(process: Process) -> tuple[int, int] | None:
    """Read a process's effective user and its parent; None if it has ended."""
    try:
        fields = process.read_status()
    except OSError:
        return None
    if fields["State"][:1] in ("Z", "X"):
        return None
    return int(fields["Uid"].split()[1]), int(fields["PPid"])


def _find_strangers(uid: int) -> set[int]:
    """Find the processes of that user that no dballoc has started."""
    processes = map(Process.at, map(int, filter(str.isdigit, os.listdir(PROC))))
    return {
        process.pid
        for process in processes
        if (status := read_owner_and_parent(process))
        and status[0] == uid
        and not _belongs_to_dballoc(process)
    }


def _belongs_to_dballoc(process: Process) -> bool:
    """Whether a process is this one, a guardian or a dballoc, or a descendant of one.

    A command line lies in memory of its process, where another user can put a page that never
    answers. So only those of our own user, in our namespaces, are read.
    """
    while process.pid > 1:
        if process.pid == os.getpid():
            return True
        if (status := read_owner_and_parent(process)) is None:
            return True  # it ended meanwhile
        if (
            status[0] == os.geteuid()
            and _is_in_our_namespaces(process)
            and _OURS.search(_read_bytes(process.home / "cmdline"))
        ):
            return True
        process = Process.at(status[1])
    return False


def _is_in_our_namespaces(process: Process) -> bool:
    """Whether a process is in our PID and user namespace: the root of another is anybody."""
    try:
        return all(
            process.read_link(f"ns/{kind}") == os.readlink(f"/proc/self/ns/{kind}")
            for kind in ("pid", "user")
        )
    except OSError:
        return False


def _read_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as f:
            return f.read(1 << 16)
    except OSError:
        return b""


def _read_text(path: str) -> str:
    return _read_bytes(Path(path)).decode(errors="replace")
