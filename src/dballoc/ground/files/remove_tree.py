"""Remove directories with all that is in them: no link is followed. Standard library only, for the
guardian.
"""

import contextlib
import os
import subprocess

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def remove_in(directory: int, name: str) -> None:
    """Remove what has a name in an open directory, however deep it is; no link is followed and no
    mount entered. Raises OSError if it is still there.
    """
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        # By rm's path: the caller's PATH may not have it. It walks by descriptors.
        subprocess.run(
            ["/bin/rm", "-rf", "--one-file-system", "--", f"./{name}"],
            cwd=f"/proc/self/fd/{directory}",
            stderr=subprocess.DEVNULL,
            check=False,
        )
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(name, dir_fd=directory)


def remove_tree(path: str | os.PathLike[str]) -> None:
    """Remove a file, a link, or a directory with all that is in it, as far as possible."""
    above, name = os.path.split(os.path.abspath(path))
    with contextlib.suppress(OSError):
        directory = os.open(above, _DIRECTORY)
        try:
            remove_in(directory, name)
        finally:
            os.close(directory)
