"""Load the published figures with which a results directory is compared."""

from pathlib import Path

from dballoc import catalogue
from dballoc.analysis.campaign_tables import load_campaign
from dballoc.analysis.published import published_figures
from dballoc.analysis.published.published_figures import Published
from dballoc.errors import UsageError


def of(directory: Path) -> Published:
    """Return the figures that its experiment repeats. UsageError if it repeats none."""
    posts, name = catalogue.published(), load_campaign(directory).experiment.published
    if name is None:
        raise UsageError(
            f"{directory}: its experiment does not reproduce a published post (no key "
            f"published); those that do: {', '.join(posts)}"
        )
    return published_figures.parse_published(
        name, *catalogue.look_up(posts, name, "published figures")
    )
