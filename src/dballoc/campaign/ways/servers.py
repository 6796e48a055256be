"""The campaigns of servers, and which ways they load them."""

from collections.abc import Sequence

from dballoc.campaign.preparation import data_templates, rehearsal, user_files
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.recorded_facts import make_block_facts
from dballoc.campaign.run_blocks import CampaignKind
from dballoc.campaign.session import Session
from dballoc.campaign.ways.duet import DUET
from dballoc.campaign.ways.solo import SOLO
from dballoc.campaign.ways.way import Blocks, DurationEstimate
from dballoc.experiment.designs import Design
from dballoc.servers.private.data_template import Template
from dballoc.store.results import Results

WAYS = {way.design: way for way in (SOLO, DUET)}


def estimate_duration(setting: PreparedCampaign) -> DurationEstimate:
    """Estimate how long a campaign of servers takes, and how many blocks it has."""
    return DurationEstimate(
        ways={design: WAYS[design].estimate(setting) for design in setting.designs}
    )


def prepare_data(session: Session[PreparedCampaign], results: Results) -> dict[str, Template]:
    """Make the data, and rehearse the user's workloads. Returns the templates by their recipes'
    keys.
    """
    setting, path = session.setting, session.directory.path
    templates = data_templates.prepare_data_templates(
        setting, session.custody, session.observer, path / "template.log"
    )
    user_files.keep_user_files(setting, path, bool(results.trials()))
    rehearsal.rehearse(setting, session.custody, templates, path)
    return templates


def _prepare_blocks(
    session: Session[PreparedCampaign],
    results: Results,
    estimate: DurationEstimate,
    designs: Sequence[str],
) -> dict[str, Blocks]:
    templates = prepare_data(session, results)
    return make_blocks(session, results, templates, estimate, designs)


def make_blocks(
    session: Session[PreparedCampaign],
    results: Results,
    templates: dict[str, Template],
    estimate: DurationEstimate,
    designs: Sequence[str],
) -> dict[str, Blocks]:
    """Return the blocks of each design. ``templates``: none where they run on other hosts."""
    return {
        design: WAYS[Design(design)].make_blocks(
            session, results, templates, estimate.ways[design].seconds
        )
        for design in designs
    }


SERVERS = CampaignKind(
    name=None,
    estimate=estimate_duration,
    make_facts=make_block_facts,
    prepare_blocks=_prepare_blocks,
)
