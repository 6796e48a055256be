"""Plan an extension (``--extend``): to which look a finished campaign runs in the time there is.

The numbers of blocks at which an extension is judged were declared before the first block
(:mod:`dballoc.questions.compare.procedure`), so going on costs no more error than was set aside
for it.
"""

import statistics
from collections.abc import Mapping
from pathlib import Path

from dballoc.campaign.looks import Extension
from dballoc.experiment.designs import DesignChoice, select_designs
from dballoc.experiment.durations_and_sizes import format_duration
from dballoc.ground.errors import UsageError
from dballoc.ground.numbers import duration
from dballoc.questions.compare.baseline_comparison import declare_procedures
from dballoc.questions.compare.campaign_tables import Campaign, load_server_campaign
from dballoc.questions.compare.procedure import Procedure, list_extension_goals


def list_extensions(
    procedures: Mapping[str, Procedure], block_seconds: Mapping[str, float]
) -> list[Extension]:
    """Return the looks that are still to come, the nearest first: the planned end, if it was not
    reached, and those of extensions. Pure.

    ``procedures``: of the designs that are not decided, after their finished blocks;
    ``block_seconds``: what one more block of each takes.
    """
    extensions = []
    for goals in list_extension_goals(procedures):
        missing = {d: max(0, goal - procedures[d].blocks) for d, goal in goals.items()}
        seconds = sum(n * block_seconds[d] for d, n in missing.items())
        extensions.append(Extension(goals=goals, missing=missing, seconds=seconds))
    return extensions


def plan_extension(
    directory: Path, seconds: float, design: DesignChoice | None = None
) -> Extension:
    """Choose the last look that fits into so many seconds, of all designs that are not decided, or
    of a chosen ``design``. Raises UsageError if none does, or if there is none.
    """
    campaign = load_server_campaign(directory)
    if campaign.placement.height:
        raise UsageError(
            f"{directory}: its blocks ran on the hosts of a Ray cluster, which extend nothing; "
            "run the experiment with more blocks in a new --out"
        )
    if campaign.facts.measured_only:
        raise UsageError(
            f"{directory}: measured with --measure-only, so judged once and never extended; run "
            "the experiment with more blocks in a new --out"
        )
    chosen = {d: p for d, p in declare_procedures(campaign).items() if d in select_designs(design)}
    if not chosen:
        raise UsageError(f"--design {design}: {directory} has no {design} blocks to go on from")
    going_on = {d: p for d, p in chosen.items() if d not in campaign.facts.decided}
    if not going_on:
        of_design = f" of {' and '.join(chosen)} blocks" if design else ""
        raise UsageError(
            f"{directory}: every comparison{of_design} is decided; there is nothing to extend"
        )
    if not all(procedure.blocks for procedure in going_on.values()):
        raise UsageError(
            f"{directory}: no block is finished yet; resume it with the same command, without "
            "--extend"
        )
    extensions = list_extensions(going_on, {d: _average_seconds(campaign, d) for d in going_on})
    if not extensions:
        raise UsageError(
            f"{directory}: the last extension that was declared is done; run the experiment with "
            "more blocks in a new --out"
        )
    fitting = [e for e in extensions if e.seconds <= seconds]
    if not fitting:
        raise UsageError(
            f"--extend: no look fits into {format_duration(seconds)}: {extensions[0].words} is the "
            f"next, and takes about {duration(extensions[0].seconds)}"
        )
    return fitting[-1]


def _average_seconds(campaign: Campaign, design: str) -> float:
    """Return the seconds that an attempt at a block has taken on average."""
    rows = campaign.list_attempts(design)
    return statistics.mean((rows["ended"] - rows["started"]).to_list())
