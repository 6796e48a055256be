"""Load the published figures with which a results directory is compared."""

from pathlib import Path

from dballoc import catalogue
from dballoc.ground.errors import UsageError
from dballoc.questions.compare.campaign_tables import Campaign, load_campaign
from dballoc.questions.published import post_figures
from dballoc.questions.published.post_figures import Published


def find(directory: Path, name: str | None, wanted: bool) -> Published | None:
    """Return the published figures ``name``, or those that the results repeat by their experiment
    or their import. None if nothing asks for them: ``wanted`` is whether the user does, and
    imported results do by themselves. Raises UsageError if there are none, or if they have no
    variant of the results.
    """
    if not wanted and name is None and not (directory / "imported").is_dir():
        return None
    campaign = load_campaign(directory)
    chosen = name or (campaign.experiment.published if wanted or campaign.imported else None)
    if chosen is None:
        if wanted:
            _refuse(directory, campaign)
        return None
    posts = catalogue.published()
    published = post_figures.parse_published(
        chosen, *catalogue.look_up(posts, chosen, "published figures")
    )
    if name is not None or campaign.imported:
        _check_variants(directory, campaign, published)
    return published


def _refuse(directory: Path, campaign: Campaign) -> None:
    posts = ", ".join(catalogue.published())
    if campaign.imported:
        raise UsageError(
            f"{directory}: imported without --published, so say which figures: dballoc report "
            f"{directory} --published NAME; there are {posts}"
        )
    raise UsageError(
        f"{directory}: its experiment does not reproduce a published post (no key published); "
        f"those that do: {posts}"
    )


def _check_variants(directory: Path, campaign: Campaign, published: Published) -> None:
    expected = {c.variant for table in published.tables for c in table.cells if c.variant}
    if not expected & set(campaign.names):
        raise UsageError(
            f"{directory}: none of its variants ({', '.join(campaign.names)}) is among those of "
            f"{published.name} ({', '.join(sorted(expected))})"
        )
