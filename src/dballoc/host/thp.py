"""Transparent huge pages: the host's mode, and what a process got."""

from pathlib import Path

from dballoc.host.guardian import read_setting

ENABLED = "/sys/kernel/mm/transparent_hugepage/enabled"


def mode() -> str | None:
    """The host's mode (``always``, ``madvise``, ``never``); None where the kernel has no THP."""
    try:
        return read_setting(ENABLED)
    except OSError:
        return None


def allowed(pid: int) -> bool | None:
    """False if the process has switched THP off for itself (``PR_SET_THP_DISABLE``); None if the kernel doesn't say."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("THP_enabled:"):
            return line.split()[1] == "1"
    return None


def achieved(pid: int) -> str:
    """What the process really has: the host's mode, unless it is switched off for the process alone."""
    if (host := mode()) is None:
        return "absent"
    return f"{host}, switched off by the process" if allowed(pid) is False and host != "never" else host
