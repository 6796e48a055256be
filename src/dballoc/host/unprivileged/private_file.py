"""Write files with passwords: in a directory of our own, readable only by those who need them."""

import os
from pathlib import Path

from dballoc.ground.files.output_directory import OutputDirectory, replace_file
from dballoc.host.unprivileged.server_user import ServerUser


def write_private(path: Path, text: str, user: ServerUser) -> Path:
    """Write a new file in place of any of that name, and return its path. The server user may read
    it, in a directory that it may enter
    (:meth:`dballoc.host.unprivileged.server_user.ServerUser.show`), and not write it.
    """
    mode = 0o600 if user.uid is None else 0o440
    with (
        OutputDirectory.open(path.parent) as directory,
        replace_file(directory.fd, path.name, mode) as file,
    ):
        file.write(text.encode("utf-8", "surrogateescape"))
        if user.uid is not None:
            os.fchown(file.fileno(), -1, user.uid)
    return path
