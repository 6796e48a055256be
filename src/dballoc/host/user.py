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
        """The first part of a file's path that the server user may not pass or read, or None if it can read it."""
        if self.uid is None:
            return None if os.access(path, os.R_OK) else path
        path = path.resolve()
        return self.may_not_pass(path.parent) or (None if self._may(path, 4) else path)

    def may_not_pass(self, directory: Path) -> Path | None:
        """The first part of a directory's path that the server user may not pass, or None."""
        if self.uid is None:
            return None if os.access(directory, os.X_OK) else directory
        directory = directory.resolve()
        return next((part for part in [*reversed(directory.parents), directory] if not self._may(part, 1)), None)

    def _may(self, path: Path, bit: int) -> bool:
        status = path.stat()
        shift = 6 if status.st_uid == self.uid else 3 if status.st_gid == self.uid else 0
        return bool(status.st_mode >> shift & bit)


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
