"""The host's THP settings while a trial runs: switched before it, checked during it."""

from collections.abc import Mapping

from dballoc.campaign.preparation.prepared import Prepared
from dballoc.ground.errors import Failure
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.settings import thp


def switch_thp(custody: Custody, campaign: Prepared, wanted: Mapping[str, str]) -> dict[str, str]:
    """Switch the host's THP settings for the next server; settings that it does not ask for go back
    to the host's own. Returns all settings that the host has then.
    """
    if not wanted:
        custody.restore()
        return dict(campaign.thp)
    settings = {**campaign.thp, **wanted}
    host = thp.read_host()
    for name in campaign.thp_settings:
        if host.get(name) != settings[name]:
            custody.set(name, settings[name])
    return settings


def check_host_thp(expected: Mapping[str, str]) -> None:
    """Raises Failure if THP was switched on the host meanwhile; only dballoc respects our lock."""
    if switched := thp.find_switched(expected):
        raise Failure(
            f"{switched.path}: somebody else switched it from {switched.expected} to "
            f"{switched.value}, so the trial under way is lost; stop whoever switches it, then "
            "run the same command to resume"
        )
