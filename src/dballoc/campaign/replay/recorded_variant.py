"""Which variant of a campaign of replays has the malloc that was recorded: its figures can stand
beside the recorded process's own. Pure.
"""

from collections.abc import Mapping

from dballoc.allocators.library_version import UNKNOWN
from dballoc.allocators.tunables import VariantSetting
from dballoc.analysis.replay.replay_facts import RecordedTrace
from dballoc.experiment.model import Experiment, Variant


def find_recorded_variant(
    trace: RecordedTrace,
    experiment: Experiment,
    mallocs: Mapping[str, tuple[str, str, tuple[VariantSetting, ...]]],
) -> str | None:
    """Return the variant whose malloc is the recorded one: in its version and with its settings, as
    far as these are known, on the machine's own C library and under its own settings; None if there
    is none. ``mallocs``: each variant's by name, version and settings.
    """
    if experiment.server.glibc is not None:
        return None
    for variant in experiment.variant:
        name, version, settings = mallocs[variant.name]
        if (
            name == trace.allocator.partition(" ")[0]
            and len({version, trace.allocator_version} - {"", UNKNOWN}) <= 1
            and {each.name: each.value for each in settings} == dict(trace.settings or {})
            and not _differs_otherwise(variant, settings)
        ):
            return variant.name
    return None


def _differs_otherwise(variant: Variant, settings: tuple[VariantSetting, ...]) -> bool:
    """Whether a variant has more of its own than its malloc and the malloc's settings."""
    places = {each.place.split(":")[0].removeprefix("env ") for each in settings}
    return bool(variant.preload or variant.host_settings or variant.env.keys() - places)
