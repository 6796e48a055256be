"""What every campaign has once it is prepared: of servers, of replays, of a search."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dballoc.experiment.model import Experiment, Variant
from dballoc.ground.errors import UsageError
from dballoc.host.settings import thp
from dballoc.host.settings.settings_journal import PutBack
from dballoc.host.unprivileged.server_user import ServerUser


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A campaign as it will run on this machine. ``variants``: by name, each with its ``variant``
    and ``make_row``; ``user``: what servers and replays run as; ``thp``: the host's own THP
    settings, empty where the kernel has none; ``put_back``: settings that an earlier run had left
    changed; ``margin``: the share that a variant may lose, where the user named one.
    """

    experiment: Experiment
    variants: Mapping[str, Any]
    user: ServerUser
    thp: Mapping[str, str] = field(default_factory=dict)
    put_back: tuple[PutBack, ...] = ()
    margin: float | None = None

    @property
    def reuses_data(self) -> bool:
        """Whether a server may start on the data that another one left."""
        return False

    @property
    def copies_at_once(self) -> int:
        """How many copies of the data there may be at once."""
        return 0

    @property
    def thp_settings(self) -> list[str]:
        """The names of the host's THP settings that any variant asks."""
        names = (name for p in self.variants.values() for name in p.variant.host_settings)
        return list(dict.fromkeys(names))

    @property
    def switches_thp(self) -> bool:
        """Whether any variant needs other THP settings than the host's."""
        return any(
            self.thp.get(name) != value
            for p in self.variants.values()
            for name, value in p.variant.host_settings.items()
        )

    def list_notices(self) -> list[str]:
        """Return what the user should know before the first trial."""
        return []


def check_thp(where: str, variant: Variant) -> None:
    """Check that this host can have a variant's THP settings. Raises UsageError if it cannot."""
    if obstacle := thp.find_obstacle(variant.host_settings):
        raise UsageError(f"{where}: {obstacle}")
