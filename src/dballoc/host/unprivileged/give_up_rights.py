"""Give up what a process must not have that reads what others wrote: rights, files, the network,
and all but bounded memory and CPU.
"""

import contextlib
import ctypes
import os
import resource
from collections.abc import Callable
from typing import Any

from dballoc.host.unprivileged import keep_capabilities
from dballoc.host.unprivileged.server_user import (
    ServerUser,
    has_other_users,
    parser_user,
)

_CPU_SECONDS = 600  # of a process in all
_MEMORY = 4 << 30  # of address space: mapped files count
_FILE_SIZE = 512 << 20

_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38  # <linux/prctl.h>
_CLONE_NEWIPC, _CLONE_NEWNET = 0x08000000, 0x40000000  # <linux/sched.h>

_libc = ctypes.CDLL(None, use_errno=True)


def choose_parser() -> ServerUser:
    """Return the user as whom a program parses what others wrote: the parser user, or where root
    has nobody else to become, and where we are not root, our own. Raises UsageError if every user
    ID has somebody.
    """
    is_alone = os.geteuid() == 0 and not has_other_users()
    return ServerUser(None) if is_alone else parser_user()


def popen_as_unprivileged() -> dict[str, Any]:
    """Return the arguments with which :class:`subprocess.Popen` starts a program as that user,
    beside :func:`limit_process`.
    """
    user = choose_parser()
    return {} if user.uid is None else {"user": user.uid, "group": user.uid, "extra_groups": []}


def limit_process() -> None:
    """Prevent this process from having or gaining rights, starting others and exceeding its bounds.
    Raises OSError if that fails.

    For ``preexec_fn``, after a change of user.
    """
    keep_capabilities.limit_capabilities([])
    _gain_no_rights()
    for limit, most in (
        (resource.RLIMIT_AS, _MEMORY),
        (resource.RLIMIT_CPU, _CPU_SECONDS),
        (resource.RLIMIT_FSIZE, _FILE_SIZE),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(limit)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (most, most))


def give_up_rights() -> None:
    """Give up network, file system, user and capabilities, in this order. What a container does not
    let its root do is left out. Raises OSError if another step fails, UsageError if every user ID
    has somebody.
    """
    if os.geteuid() == 0:
        uid = parser_user().uid if has_other_users() else None
        _libc.unshare(_CLONE_NEWNET | _CLONE_NEWIPC)  # some containers forbid it
        keep_capabilities.bound_capabilities([])
        # /proc/self/fdinfo has nothing that can be opened once the owner of the process has
        # changed.
        _try_step(os.chroot, "/proc/self/fdinfo")
        os.chdir("/")
        if uid is not None:
            _try_step(os.setgroups, [])
            _try_step(os.setresgid, uid, uid, uid)
            _try_step(os.setresuid, uid, uid, uid)
    keep_capabilities.limit_capabilities([])
    _gain_no_rights()


def _gain_no_rights() -> None:
    """Gain no rights by what is started, and let no process of the same user look inside."""
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def _try_step(step: Callable[..., None], *arguments: Any) -> None:
    """Take a step for which a pod's root may lack the capability: CAP_SYS_CHROOT, CAP_SETGID,
    CAP_SETUID. Raises OSError if it fails for another reason.
    """
    with contextlib.suppress(PermissionError):
        step(*arguments)
