"""The campaigns of servers, and which ways they load them."""

import json
from collections.abc import Sequence
from pathlib import Path

from dballoc.campaign.interruptible_session import Session
from dballoc.campaign.preparation import data_templates, rehearsal
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.recorded_facts import make_block_facts
from dballoc.campaign.run_blocks import CampaignKind
from dballoc.campaign.ways.duet import DUET
from dballoc.campaign.ways.solo import SOLO
from dballoc.campaign.ways.turns import TURNS
from dballoc.campaign.ways.way import Blocks, DurationEstimate
from dballoc.experiment.designs import Design
from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.ground.files.output_directory import OutputDirectory
from dballoc.load.workload import LARGEST_FILE, shown
from dballoc.servers.private.data_template import Template
from dballoc.store.results import Results

DIRECTORY = "own"
_RECORD = "identity.json"

WAYS = {way.design: way for way in (SOLO, DUET, TURNS)}


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
    keep_user_files(setting, path, bool(results.trials()))
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


# -- the user's files ------------------------------------------------------------------------------


def keep_user_files(setting: PreparedCampaign, results: Path, has_trials: bool) -> None:
    """Copy the user's workloads into a results directory, and record what identifies them and own
    data.

    Raises UsageError if it has trials already (``has_trials``) that ran with other files.
    """
    works = [
        work
        for name in setting.experiment.workloads
        if (work := setting.sysbench.workload(name)).file
    ]
    identities = {f"workload {work.name}": work.content for work in works}
    if setting.contents.identity:
        identities["data"] = setting.contents.identity
    directory = results / DIRECTORY
    try:
        recorded = readers.document(readers.text(directory / _RECORD, below=results))
    except readers.Unfit:
        recorded = {}
    if has_trials and recorded != identities:
        changed = next(
            k for k in {**identities, **recorded} if identities.get(k) != recorded.get(k)
        )
        file = next(
            (shown(w.file) for w in works if w.file and changed == f"workload {w.name}"),
            "the data's files",
        )
        raise UsageError(
            f"{results}: {changed}: {file} changed since its trials ran; choose a new --out"
        )
    if not identities:
        return
    with (
        OutputDirectory.open(results) as outputs,
        outputs.open_subdirectory(DIRECTORY) as copies,
    ):
        for work in works:
            assert work.file
            copies.write(work.file.name, readers.content(work.file, LARGEST_FILE))
        copies.write(_RECORD, json.dumps(identities, indent=1, sort_keys=True) + "\n")
