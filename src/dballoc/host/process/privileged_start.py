"""Whether the kernel starts a program privileged, and what makes it do so.

A program with file capabilities (capabilities(7)), or that becomes another user or group
(set-user-ID), is started in secure mode: AT_SECURE is 1 in its auxiliary vector (getauxval(3)).
The loader then ignores a path in LD_PRELOAD, GLIBC_TUNABLES and LD_DEBUG (ld.so(8)), and a malloc
that reads its settings with secure_getenv(3) ignores those.
"""

import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path

from dballoc.host.process import open_in_process_root
from dballoc.host.process.handle import AT_SECURE, Process
from dballoc.host.process.open_in_process_root import FileRights

# <linux/capability.h>, struct vfs_cap_data: its magic with the revision, by whose size the words
# of the sets follow, permitted and inheritable in turn.
_WORDS_BY_REVISION = {0x01000000: 1, 0x02000000: 2, 0x03000000: 2}
_REVISION_MASK, _EFFECTIVE = 0xFF000000, 1
_CAPABILITIES = (
    "cap_chown cap_dac_override cap_dac_read_search cap_fowner cap_fsetid cap_kill cap_setgid "
    "cap_setuid cap_setpcap cap_linux_immutable cap_net_bind_service cap_net_broadcast "
    "cap_net_admin cap_net_raw cap_ipc_lock cap_ipc_owner cap_sys_module cap_sys_rawio "
    "cap_sys_chroot cap_sys_ptrace cap_sys_pacct cap_sys_admin cap_sys_boot cap_sys_nice "
    "cap_sys_resource cap_sys_time cap_sys_tty_config cap_mknod cap_lease cap_audit_write "
    "cap_audit_control cap_setfcap cap_mac_override cap_mac_admin cap_syslog cap_wake_alarm "
    "cap_block_suspend cap_audit_read cap_perfmon cap_bpf cap_checkpoint_restore"
).split()

_UNKNOWN_CAUSE = (
    "its executable has no file capability and no set-user-ID bit now: a change of its SELinux or "
    "AppArmor domain, or a change of the file since"
)


@dataclass(frozen=True, kw_only=True)
class PrivilegedStart:
    """Why a program starts privileged. ``cause``: in words; ``capabilities``: the names of its
    file's capabilities, ``cap_sys_nice``.
    """

    cause: str
    capabilities: tuple[str, ...] = ()

    @property
    def remedy(self) -> str:
        """What to do for settings and a preload to take effect, and what it costs, in one line."""
        preload = (
            "for a preload alone, /etc/ld.so.preload works, too; it costs every program of this "
            "host that library"
        )
        if self.capabilities:
            names = " ".join(name.upper() for name in self.capabilities)
            return (
                f"take them off the file (setcap -r) and let systemd give them: "
                f"AmbientCapabilities={names} in the service; {preload}"
            )
        return f"start it without that; {preload}"


@dataclass(frozen=True)
class Starter:
    """Who starts a program: its real user and group, and whether with no_new_privs."""

    uid: int
    gid: int
    no_new_privs: bool = False


def parse_capabilities(attribute: bytes) -> tuple[tuple[str, ...], bool]:
    """Parse the attribute ``security.capability``: the names of the capabilities that a program
    gets, and whether they are effective at once. No names if the attribute is not one. Pure.
    """
    if len(attribute) < 4:
        return (), False
    (magic,) = struct.unpack_from("<I", attribute)
    count = _WORDS_BY_REVISION.get(magic & _REVISION_MASK, 0)
    if not count or len(attribute) < 4 + 8 * count:
        return (), False
    words = struct.unpack_from(f"<{2 * count}I", attribute, 4)[::2]
    permitted = sum(word << 32 * i for i, word in enumerate(words))
    numbers = [number for number in range(32 * count) if permitted >> number & 1]
    names = tuple(
        _CAPABILITIES[n] if n < len(_CAPABILITIES) else f"capability {n}" for n in numbers
    )
    return names, bool(magic & _EFFECTIVE)


def explain_privilege(rights: FileRights, starter: Starter | None = None) -> PrivilegedStart | None:
    """Return why a program whose file has these rights starts privileged; None if nothing of the
    file makes it. Pure.

    ``starter``: None for a program that the kernel reports as started so: whatever may be the
    reason is.
    """
    if rights.nosuid:
        return None
    capabilities, effective = parse_capabilities(rights.capability)
    # As cap_bprm_creds_from_file() has it (security/commoncap.c): of root, nothing is said.
    gains = bool(capabilities) and not (starter and starter.no_new_privs)
    if (gains or effective) and (starter is None or starter.uid != 0):
        noun = "capability" if len(capabilities) == 1 else "capabilities"
        return PrivilegedStart(
            cause=f"file {noun} {', '.join(capabilities)}" if capabilities else "file capabilities",
            capabilities=capabilities,
        )
    if starter and starter.no_new_privs:
        return None
    if rights.mode & stat.S_ISUID and (starter is None or rights.uid != starter.uid):
        return PrivilegedStart(cause="the set-user-ID bit of its executable")
    # Without the group's x, the bit means mandatory locking.
    has_group = rights.mode & stat.S_ISGID and rights.mode & stat.S_IXGRP
    if has_group and (starter is None or rights.gid != starter.gid):
        return PrivilegedStart(cause="the set-group-ID bit of its executable")
    return None


def read_privileged_start(process: Process) -> PrivilegedStart | None:
    """Return why a process was started privileged; None if it was not. Raises OSError if it is gone
    or not ours.
    """
    if not process.read_auxiliary().get(AT_SECURE):
        return None
    try:
        rights = open_in_process_root.read_link_rights(f"{process.home}/exe")
    except OSError:
        return PrivilegedStart(cause=_UNKNOWN_CAUSE)
    return explain_privilege(rights) or PrivilegedStart(cause=_UNKNOWN_CAUSE)


def read_executable_privilege(path: Path, starter: Starter) -> PrivilegedStart | None:
    """Return why a program would start privileged; None if it would not, or cannot be read."""
    try:
        rights = open_in_process_root.read_file_rights(Path("/"), os.path.realpath(path))
    except OSError:
        return None
    return explain_privilege(rights, starter)
