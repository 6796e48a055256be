"""Transparent huge pages: the host's mode, and the mode of a process."""

from dballoc import readers
from dballoc.host.settings.writable_settings import HOST_SETTINGS, read_setting

SETTING = "thp"
ENABLED = HOST_SETTINGS[SETTING].path


def read_mode() -> str | None:
    """Read the host's mode (``always``, ``madvise``, ``never``); None if the kernel has no THP."""
    try:
        return read_setting(ENABLED)
    except OSError:
        return None


_WIDTH = {"never": 0, "madvise": 1, "always": 2}


def combine_modes(
    first: str | None, second: str | None, host: str | None
) -> tuple[str | None, bool, bool] | None:
    """Combine the modes of two processes that run at once (None: the host's mode): the host's mode
    to set, None to leave it, and for each of them whether ``PR_SET_THP_DISABLE`` is set. None where
    prctl cannot express it: madvise beside always. Pure.
    """
    if first is None and second is None:
        return None, False, False
    wanted = [mode or host or "never" for mode in (first, second)]
    widest = max(wanted, key=_WIDTH.__getitem__)
    if widest == "always" and "madvise" in wanted:
        return None
    return widest, *(mode == "never" and widest != "never" for mode in wanted)  # type: ignore[return-value]


def is_thp_allowed(pid: int) -> bool | None:
    """Whether THP is not switched off for a process (``PR_SET_THP_DISABLE``); None if the kernel
    does not tell.
    """
    for line in readers.rows(readers.text_of_process(f"/proc/{pid}/status")):
        if line.startswith("THP_enabled:"):
            return line.split()[1] == "1"
    return None


def describe_process_mode(pid: int) -> str:
    """Describe the mode of a process: the host's, unless THP is switched off for the process."""
    if (host := read_mode()) is None:
        return "absent"
    return (
        f"{host}, switched off by the process"
        if is_thp_allowed(pid) is False and host != "never"
        else host
    )
