"""The published figures that a results directory is set beside."""

from pathlib import Path

from dballoc import catalogue
from dballoc.analysis import published
from dballoc.analysis.campaign import load
from dballoc.analysis.published import Published
from dballoc.errors import UsageError


def of(directory: Path) -> Published:
    """Those that its experiment repeats. UsageError if it repeats none."""
    known, name = catalogue.published(), load(directory).experiment.published
    if name is None:
        raise UsageError(f"{directory}: its experiment repeats no post (no key published); those that do: {', '.join(known)}")
    return published.parse(name, *catalogue.look_up(known, name, "published figures"))
