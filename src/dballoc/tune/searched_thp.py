"""Decide which of the host's THP modes a search tries.

The mode is the host's, and holds for every process on it: a trial switches it before its server
starts, the guardian puts it back, and no other campaign is measured meanwhile. So it is searched
only where all modes can be had under the machine's lock.
"""

import os
from typing import get_args

from dballoc.campaign.preparation.prepare_duet import share_host
from dballoc.errors import UsageError
from dballoc.experiment.model import ThpMode, Tune, Variant
from dballoc.host.settings import machine_lock, thp


def settle_thp(tune: Tune) -> tuple[Tune, str | None]:
    """Return what is searched, with ``thp`` true or false, and why it is false where nothing was
    said. UsageError if it is asked for and this host cannot have it.
    """
    if tune.thp is False:
        return tune, None
    obstacle = _find_obstacle()
    if obstacle and tune.thp:
        raise UsageError(f"tune.thp: {obstacle}")
    return tune.model_copy(update={"thp": obstacle is None}), obstacle


def _find_obstacle() -> str | None:
    """Return why a search cannot switch the host's mode; None if it can."""
    for mode in get_args(ThpMode):
        if obstacle := thp.find_obstacle({thp.SETTING: mode}):
            return obstacle.removeprefix(f"{thp.SETTING}: ")
    try:
        os.close(machine_lock.open_directory(machine_lock.THIS_MACHINE.directory, make=True))
    except OSError as error:
        return f"{machine_lock.THIS_MACHINE.directory}: {error.strerror}"
    return None


def list_thp_modes(default: Variant, host: str | None, *, needs_duet: bool) -> list[str]:
    """Return the modes that are tried beside what the default has. ``host``: the host's own;
    ``needs_duet``: whether only a duet with the default can show that one keeps to what it may
    cost. Pure.
    """
    # With THP off for all there is nothing that a server could switch off for itself.
    unchanged = {default.thp} if default.thp or host != "never" else {"never"}
    possible = list_pairable_modes(default, host) if needs_duet else list(get_args(ThpMode))
    return [mode for mode in possible if mode not in unchanged]


def list_pairable_modes(default: Variant, host: str | None) -> list[str]:
    """Return the modes that a configuration may have in a duet with its default: the host has the
    wider mode of both, and it is switched off for one of them, if it must be. Pure.
    """
    return [
        mode
        for mode in get_args(ThpMode)
        if not isinstance(share_host(default, default.model_copy(update={"thp": mode}), host), str)
    ]
