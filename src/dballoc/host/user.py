"""The user that servers run as: never root."""

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

# From the range that systemd reserves for dynamic users (61184-65519): no account, so nothing else runs as it
# and nothing of the user's belongs to it.
SERVER_UID = 61580


@dataclass(frozen=True)
class ServerUser:
    """``uid`` is None when dballoc runs unprivileged itself: then the servers run as the same user."""

    uid: int | None

    @property
    def name(self) -> str:
        """For the report."""
        uid = os.getuid() if self.uid is None else self.uid
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return f"uid {uid}"  # ours has no account on purpose, and a container's user often has none

    def as_spawn(self) -> dict[str, int | None]:
        """Arguments for :meth:`dballoc.host.custody.Custody.spawn`."""
        return {} if self.uid is None else {"uid": self.uid, "gid": self.uid}

    def give(self, path: Path) -> None:
        """Make a file or directory the server user's."""
        if self.uid is not None:
            os.chown(path, self.uid, self.uid)

    def blocked_at(self, path: Path) -> Path | None:
        """The first part of a path that the server user may not read or pass, or None if it can read it all."""
        if self.uid is None:
            readable = os.access(path, os.R_OK)
            return None if readable else path
        for part in [*reversed(path.resolve().parents), path.resolve()]:
            status = part.stat()
            bits = status.st_mode >> (6 if status.st_uid == self.uid else 3 if status.st_gid == self.uid else 0)
            if not bits & (1 if part.is_dir() else 4):
                return part
        return None


def server_user() -> ServerUser:
    """The unprivileged user for servers on this host."""
    if os.geteuid() != 0:
        return ServerUser(None)
    uid = SERVER_UID
    while _taken(uid):
        uid += 1
    return ServerUser(uid)


def _taken(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True
