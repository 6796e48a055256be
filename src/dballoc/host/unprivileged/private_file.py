"""Files with passwords: in a directory of our own, readable by those who need them and
nobody else.
"""

import os
from pathlib import Path

from dballoc.host.unprivileged.server_user import ServerUser


def write_private(path: Path, text: str, user: ServerUser) -> Path:
    """A new file in place of one of that name. The server user may read it, through a directory
    that shows it to that user (:meth:`dballoc.host.unprivileged.server_user.ServerUser.show`), and
    not write it.
    """
    path.unlink(missing_ok=True)
    # Whatever has that name now was not put there by us: it is not followed, and not written to.
    number = os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    with open(number, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
        if user.uid is not None:
            os.fchown(number, -1, user.uid)
            os.fchmod(number, 0o440)
    return path
