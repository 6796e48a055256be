"""Write files with passwords: in a directory of our own, readable only by those who need them."""

import os
from pathlib import Path

from dballoc.host.unprivileged.server_user import ServerUser


def write_private(path: Path, text: str, user: ServerUser) -> Path:
    """Write a new file in place of any of that name, and return its path. The server user may read
    it, in a directory that it may enter
    (:meth:`dballoc.host.unprivileged.server_user.ServerUser.show`), and not write it.
    """
    path.unlink(missing_ok=True)
    # What has that name now was not put there by us: it is neither followed nor written to.
    number = os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    with open(number, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
        if user.uid is not None:
            os.fchown(number, -1, user.uid)
            os.fchmod(number, 0o440)
    return path
