"""Let stand-ins give way: a variant that stands for a version of an allocator that no registry has
runs that very version once somebody has fetched it. Pure.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dballoc.experiment.model import Experiment, Variant

# "jemalloc 3.1.0", "gperftools tcmalloc 2.0"; not "glibc 2.15, new malloc", which a version alone
# does not tell.
_ORIGINAL = re.compile(r"(?:gperftools )?(?P<name>[a-z][a-z-]*) (?P<version>\d+(?:\.\d+)*)")


def use_originals(
    experiment: Experiment, fetched: Mapping[tuple[str, str], str], begun: Experiment | None
) -> Experiment:
    """Return the experiment in which each variant whose original was fetched names that.

    ``fetched``: the store's references by name and exact version; ``begun``: the experiment of the
    results that are gone on with, whose variants stay what they are; None for new results.
    """
    before = {variant.name: variant for variant in begun.variant} if begun else {}
    originals: dict[str, str] = {}
    for variant in experiment.variant:
        reference = _find_original(variant, fetched)
        if reference and (begun is None or before.get(variant.name) == _name(variant, reference)):
            originals[variant.name] = reference

    def replace(variants: Sequence[Variant]) -> list[Variant]:
        return [_name(v, originals[v.name]) if v.name in originals else v for v in variants]

    changes: dict[str, Any] = {"variant": replace(experiment.variant)}
    if experiment.scaled and experiment.scaled.full.variant:
        full = experiment.scaled.full
        full = full.model_copy(update={"variant": replace(full.variant or [])})
        changes["scaled"] = experiment.scaled.model_copy(update={"full": full})
    return experiment.model_copy(update=changes)


def _name(variant: Variant, reference: str) -> Variant:
    return variant.model_copy(update={"allocator": reference, "stands_for": None})


def describe_originals(experiment: Experiment, used: Experiment) -> Iterator[str]:
    """Yield a sentence for each variant that is no stand-in any more."""
    for written, variant in zip(experiment.variant, used.variant, strict=True):
        if written != variant:
            yield (
                f"{variant.name}: {variant.allocator} is in the store and runs, not its stand-in "
                f"{written.allocator}"
            )


def _find_original(variant: Variant, fetched: Mapping[tuple[str, str], str]) -> str | None:
    """Return the reference of what a variant stands for; None where it was not fetched."""
    wanted = _ORIGINAL.fullmatch(variant.stands_for or "")
    if wanted is None:
        return None
    versions = {v: r for (name, v), r in fetched.items() if name == wanted["name"]}
    return next((r for v, r in versions.items() if _trim(v) == _trim(wanted["version"])), None)


def _trim(version: str) -> str:
    """Return a version without zeros at its end: 3.0.0 is 3.0."""
    return re.sub(r"(\.0)+$", "", version)
