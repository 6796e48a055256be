"""Transparent huge pages: the host's mode, and what a process got."""

from dballoc import readers
from dballoc.host.settings.writable_settings import HOST_SETTINGS, read_setting

SETTING = "thp"
ENABLED = HOST_SETTINGS[SETTING].path


def mode() -> str | None:
    """The host's mode (``always``, ``madvise``, ``never``); None where the kernel has no THP."""
    try:
        return read_setting(ENABLED)
    except OSError:
        return None


_WIDTH = {"never": 0, "madvise": 1, "always": 2}


def together(
    first: str | None, second: str | None, host: str | None
) -> tuple[str | None, bool, bool] | None:
    """How two processes that want these modes run at once (None: as the host has it): the host's
    mode, None to leave it, and for which of them ``PR_SET_THP_DISABLE`` is set. None where prctl
    cannot express it: madvise beside always. Pure.
    """
    if first is None and second is None:
        return None, False, False
    wanted = [mode or host or "never" for mode in (first, second)]
    widest = max(wanted, key=_WIDTH.__getitem__)
    if widest == "always" and "madvise" in wanted:
        return None
    return widest, *(mode == "never" and widest != "never" for mode in wanted)  # type: ignore[return-value]


def allowed(pid: int) -> bool | None:
    """False if the process has switched THP off for itself (``PR_SET_THP_DISABLE``); None if the
    kernel doesn't say.
    """
    for line in readers.rows(readers.text_of_process(f"/proc/{pid}/status")):
        if line.startswith("THP_enabled:"):
            return line.split()[1] == "1"
    return None


def achieved(pid: int) -> str:
    """What the process really has: the host's mode, unless it is switched off for the process
    alone.
    """
    if (host := mode()) is None:
        return "absent"
    return (
        f"{host}, switched off by the process"
        if allowed(pid) is False and host != "never"
        else host
    )
