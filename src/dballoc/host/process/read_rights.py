"""Who may read another process: its memory, its environment, what its files are; who may see that
it is there; and what to do where this user may not.
"""

import contextlib
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from dballoc.ground import readers
from dballoc.ground.errors import Failure, UsageError
from dballoc.host.process.handle import Process
from dballoc.host.unprivileged.keep_capabilities import (
    CAP_DAC_READ_SEARCH,
    CAP_SYS_PTRACE,
    read_capabilities,
)

_PTRACE_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
_LABEL = Path("/proc/self/attr/current")
_USER_IDS = Path("/proc/self/uid_map")
_MOUNTS = Path("/proc/self/mountinfo")
_CAPABILITIES = "who has CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
# The only line of uid_map where there is no user namespace but the first (user_namespaces(7)).
_ALL_USERS = ["0", "0", str(2**32 - 1)]
# Labels of AppArmor's and types of SELinux's that keep nobody from anything.
_UNCONFINED = frozenset(("unconfined", "unconfined_t", "spc_t", "kernel_t"))
# hidepid by number, before Linux 5.8 (proc(5)); 0 hides nothing.
_HIDEPID = {"1": "noaccess", "2": "invisible", "4": "ptraceable"}


@dataclass(frozen=True, kw_only=True)
class OwnRights:
    """What the kernel asks about this process before it may look into another. ``ptrace_scope``:
    Yama's; ``capabilities``: by their numbers; ``in_user_namespace``: they are for what belongs to
    that namespace alone; ``label``: what a security module confines this process as, or empty.
    """

    ptrace_scope: int = 0
    capabilities: frozenset[int] = frozenset()
    in_user_namespace: bool = False
    label: str = ""

    @property
    def may_read_others(self) -> bool:
        """Whether its capabilities are those that reading any process takes."""
        return {CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH} <= self.capabilities


def read_ptrace_scope() -> int:
    """Return kernel.yama.ptrace_scope, 0 where there is no Yama."""
    try:
        return int(_PTRACE_SCOPE.read_text())
    except (OSError, ValueError):
        return 0


def read_own_rights() -> OwnRights:
    """Read what the kernel asks about this process."""
    return OwnRights(
        ptrace_scope=read_ptrace_scope(),
        capabilities=frozenset(read_capabilities()),
        in_user_namespace=_read(_USER_IDS).split() != _ALL_USERS,
        label=find_confinement(_read(_LABEL)),
    )


def find_confinement(label: str) -> str:
    """Return what /proc/PID/attr/current says a process is confined as: AppArmor's profile or
    SELinux's context; empty if that confines nothing. Pure.
    """
    label = label.strip("\0\n ")
    parts = label.split(":")
    kind = parts[2] if len(parts) > 2 else label
    return "" if kind in _UNCONFINED else label


def describe_readers(ptrace_scope: int) -> str:
    """Return who may look into a process, and what to do: the kernel's rule
    (Documentation/admin-guide/LSM/Yama.rst).
    """
    if ptrace_scope >= 3:
        return "nobody may look into it: kernel.yama.ptrace_scope is 3 until the next boot"
    if ptrace_scope >= 1:
        return (
            f"only root and {_CAPABILITIES} may look into it, as kernel.yama.ptrace_scope is "
            f"{ptrace_scope}: run this as one of them"
        )
    return f"only root, its own user and {_CAPABILITIES} may look into it: run this as one of them"


def explain_refusal(rights: OwnRights, *, is_own: bool) -> str:
    """Return why the kernel refused a look into another process, and what to do. ``is_own``: it has
    this one's user, and no capability that this one lacks. Pure.
    """
    scope = rights.ptrace_scope
    if scope >= 3 or not (rights.may_read_others or (is_own and scope == 0)):
        return describe_readers(scope)
    if rights.in_user_namespace:
        return (
            "it belongs to another user namespace than dballoc: run this on the host, or in the "
            "process's own container"
        )
    confined = f", which confines dballoc as {rights.label}," if rights.label else ""
    return (
        f"a security module (SELinux, AppArmor, Landlock){confined} forbids it: run "
        "dballoc unconfined, or permit it to read other processes (AppArmor: ptrace read)"
    )


def describe_refusal(process: Process) -> str:
    """Return why the kernel refused a look into a process, and what to do."""
    rights = read_own_rights()
    return explain_refusal(rights, is_own=_is_own(process, rights.capabilities))


def describe_read_error(process: Process, error: OSError) -> str:
    """Return why a process could not be read, and what to do, in one line."""
    if isinstance(error, PermissionError):
        return f"{process}: {error.strerror}; {describe_refusal(process)}"
    if not process.home.exists():
        return describe_absence(process.pid)
    if isinstance(error, FileNotFoundError | ProcessLookupError):
        return f"{process}: it has no executable: it is a kernel thread, or is just ending"
    return f"{process}: {error.strerror}"


@contextlib.contextmanager
def failing_for(process: Process) -> Iterator[None]:
    """Turn an OSError of reading a process into a Failure, with what to do."""
    try:
        yield
    except OSError as error:
        raise Failure(describe_read_error(process, error)) from None


def _is_own(process: Process, capabilities: Collection[int]) -> bool:
    """Whether a process has this one's user and group, and no capability that this one lacks: then
    the kernel asks for none (ptrace(2)). The files of one that changed its user are root's.
    """
    try:
        owner = (process.home / "status").stat().st_uid
        fields = process.read_status()
    except OSError:
        return False
    permitted = int(fields["CapPrm"], 16)
    own_bits = sum(1 << number for number in capabilities)
    return (
        owner == os.geteuid()
        and set(fields["Uid"].split()) == {str(os.geteuid())}
        and set(fields["Gid"].split()) == {str(os.getegid())}
        and not permitted & ~own_bits
    )


def find_hiding(mountinfo: str, rights: OwnRights, groups: Collection[int]) -> str:
    """Return how /proc keeps other users' processes from this one: ``noaccess``, ``invisible`` or
    ``ptraceable``; empty if it does not. ``mountinfo``: of this process (proc(5)). Pure.
    """
    mounts = [fields for line in readers.rows(mountinfo) if len(fields := line.split(" ")) > 5]
    options = next((fields[-1] for fields in reversed(mounts) if fields[4] == "/proc"), "")
    values = dict(option.partition("=")[::2] for option in options.split(","))
    hidepid = values.get("hidepid", "")
    hidepid = _HIDEPID.get(hidepid, hidepid)
    has_capability = CAP_SYS_PTRACE in rights.capabilities and not rights.in_user_namespace
    # The group that may see all is root's unless another is named.
    in_group = int(values.get("gid", "0")) in groups and hidepid != "ptraceable"
    return "" if has_capability or in_group or hidepid not in _HIDEPID.values() else hidepid


def read_hiding() -> str:
    """Return how /proc keeps other users' processes from this one, as :func:`find_hiding`."""
    return find_hiding(_read(_MOUNTS), read_own_rights(), {os.getegid(), *os.getgroups()})


def describe_hidden(hiding: str) -> str:
    """Return what to add where a process is not found: that it may be another user's, which /proc
    hides, and what to do; empty if nothing is hidden. Pure.
    """
    if not hiding:
        return ""
    return (
        f", or one of another user, which /proc hides (hidepid={hiding}); run this as root, as "
        "that user, or with CAP_SYS_PTRACE"
    )


def open_process(pid: int) -> Process:
    """Open the process that a user has named. Raises UsageError if there is none, or /proc hides
    it.
    """
    try:
        return Process.open(pid)
    except OSError as error:
        raise UsageError(describe_read_error(Process.at(pid), error)) from None


def describe_absence(pid: int) -> str:
    """Return the message that no process has that PID or that /proc hides it, and what to do."""
    hiding = read_hiding()
    # With hidepid=1 a foreign process is still listed, so a missing one really is absent.
    hidden = "" if hiding == "noaccess" else describe_hidden(hiding)
    return f"process {pid}: No such process{hidden}"


def _read(path: Path) -> str:
    """Return the text of a file of the kernel's; empty where there is none."""
    try:
        return readers.text_of_process(path)
    except OSError:
        return ""
