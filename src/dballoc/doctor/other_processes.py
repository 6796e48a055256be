"""Check whether this user may find other users' processes, and look into them."""

from dballoc.doctor.finding import Finding
from dballoc.host import read_rights
from dballoc.host.read_rights import OwnRights


def check_other_processes() -> Finding:
    """Check what verify, explain and profile may look into."""
    return judge_rights(read_rights.read_own_rights(), read_rights.read_hiding())


def judge_rights(rights: OwnRights, hiding: str) -> Finding:
    """Say what this user may look into. ``hiding``: how /proc hides others' processes. Pure."""
    name, scope = "other processes", f"kernel.yama.ptrace_scope is {rights.ptrace_scope}"
    owner = "" if rights.ptrace_scope else " as the server's own user,"
    remedy = f"run as root,{owner} or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
    if rights.ptrace_scope >= 3:
        return Finding(name, "warn", f"none may be looked into: {scope} until the next boot")
    if hiding:
        text = f"/proc hides those of other users (hidepid={hiding}): their servers are not found"
        return Finding(name, "note", text, remedy)
    if rights.in_user_namespace:
        text = "those outside this user namespace cannot be looked into"
        return Finding(name, "note", text, "run on the host, or in the server's own container")
    if not rights.may_read_others:
        text = f"none may be looked into: {scope}"
        if not rights.ptrace_scope:
            text = "only this user's own may be looked into"
        return Finding(name, "note", text, remedy)
    if rights.label:
        text = f"may be looked into unless {rights.label}, which confines dballoc, forbids it"
        return Finding(name, "note", text, "run dballoc unconfined if it does")
    return Finding(name, "ok", "may be looked into")
