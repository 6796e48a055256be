"""What the variants of a campaign ask of the host's THP settings."""

from collections.abc import Iterable, Mapping

from dballoc.errors import UsageError
from dballoc.experiment.model import Variant
from dballoc.host.settings import thp


def list_asked_settings(variants: Iterable[Variant]) -> list[str]:
    """Return the names of the host's THP settings that any variant asks. Pure."""
    return list(dict.fromkeys(name for variant in variants for name in variant.host_settings))


def needs_switching(variants: Iterable[Variant], host: Mapping[str, str]) -> bool:
    """Whether any variant asks other THP settings than the host's. Pure."""
    return any(
        host.get(name) != value
        for variant in variants
        for name, value in variant.host_settings.items()
    )


def check_thp(where: str, variant: Variant) -> None:
    """UsageError if the variant's THP settings cannot be had on this host."""
    if obstacle := thp.find_obstacle(variant.host_settings):
        raise UsageError(f"{where}: {obstacle}")
