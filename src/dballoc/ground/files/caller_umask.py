"""The umask of whoever calls dballoc. dballoc itself makes everything for its own user alone; what
the user asked for (a report, a table, the files of a program that ``exec`` starts) has the modes
that the caller's umask gives.
"""

import os

_OWNER_ALONE = 0o077


class _Caller:
    umask: int | None = None


def remember_and_restrict() -> None:
    """Remember the caller's umask, and make new files and directories accessible to our own user
    alone from now on, in the processes that we start, too. Called before anything is made.
    """
    umask = os.umask(_OWNER_ALONE)
    if _Caller.umask is None:
        _Caller.umask = umask


def get_caller_umask() -> int:
    """Return the caller's umask, for a program of the caller's."""
    if _Caller.umask is not None:
        return _Caller.umask
    umask = os.umask(_OWNER_ALONE)
    os.umask(umask)
    return umask


def readable_mode() -> int:
    """Return the mode of a file that the caller asked for."""
    return 0o666 & ~get_caller_umask()


def readable_directory_mode() -> int:
    """Return the mode of a directory that the caller asked for. Only its owner may write in it,
    whatever the caller's umask: dballoc would refuse it the next time.
    """
    return 0o755 & ~get_caller_umask() | 0o700
