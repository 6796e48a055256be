"""Give up all rights but a few capabilities, for good: for a process that goes on reading others
for days (capabilities(7), prctl(2), capset(2)).
"""

import contextlib
import ctypes
import os
from collections.abc import Collection, Iterable
from pathlib import Path

# <linux/capability.h>
CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE = 2, 19
NAMES = {CAP_DAC_READ_SEARCH: "CAP_DAC_READ_SEARCH", CAP_SYS_PTRACE: "CAP_SYS_PTRACE"}
_VERSION_3 = 0x20080522
# <linux/prctl.h>
_PR_SET_KEEPCAPS, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 8, 24, 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4

_libc = ctypes.CDLL(None, use_errno=True)


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapabilityData(ctypes.Structure):
    """One of the two halves of the sets: capabilities 0 to 31, and 32 to 63."""

    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def keep_capabilities(uid: int, gid: int, wanted: Iterable[int]) -> list[int]:
    """Become a user, if this process is root, and keep those ``wanted`` capabilities that it has;
    return them. No program that it starts can have any. Raises OSError if the kernel refuses a
    step.

    Before the first thread: the capabilities are those of the calling thread, which later ones
    inherit.
    """
    kept = sorted(set(wanted) & read_capabilities())
    bound_capabilities(kept)
    if os.geteuid() == 0:
        _control(_PR_SET_KEEPCAPS, 1)
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    _control(_PR_SET_NO_NEW_PRIVS, 1)
    limit_capabilities(kept)
    return kept


def bound_capabilities(kept: Collection[int]) -> None:
    """Drop all but these from the bounding set: no program that is started can have others. It
    takes CAP_SETPCAP; where that is missing, nothing changes, and no_new_privs has to do.
    """
    for capability in range(_read_last_capability() + 1):
        with contextlib.suppress(PermissionError):
            if capability not in kept:
                _control(_PR_CAPBSET_DROP, capability)


def limit_capabilities(kept: Iterable[int]) -> None:
    """Give up all capabilities of this thread but ``kept``, which it must have, and those that a
    program started by it would inherit. Every process may do that. Raises OSError if it may not.
    """
    _control(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    _set_capabilities(kept)


def read_capabilities() -> set[int]:
    """Return the capabilities that this thread may use."""
    data = (_CapabilityData * 2)()
    if _libc.capget(ctypes.byref(_CapabilityHeader(_VERSION_3, 0)), data):
        raise OSError(ctypes.get_errno(), f"capget: {os.strerror(ctypes.get_errno())}")
    permitted = data[0].permitted | data[1].permitted << 32
    return {number for number in range(64) if permitted >> number & 1}


def _set_capabilities(numbers: Iterable[int]) -> None:
    bits = sum(1 << number for number in numbers)
    data = (_CapabilityData * 2)()
    for half in range(2):
        data[half].permitted = data[half].effective = bits >> 32 * half & 0xFFFFFFFF
    if _libc.capset(ctypes.byref(_CapabilityHeader(_VERSION_3, 0)), data):
        raise OSError(ctypes.get_errno(), f"capset: {os.strerror(ctypes.get_errno())}")


def _control(option: int, argument: int) -> None:
    if _libc.prctl(option, argument, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}, {argument}): {os.strerror(number)}")


def _read_last_capability() -> int:
    return int(Path("/proc/sys/kernel/cap_last_cap").read_text())
