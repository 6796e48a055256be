"""Plan an extension of a finished campaign: to which look it runs, in the time that there is.

The numbers of blocks at which an extension is judged were declared before the first block
(dballoc.analysis.decisions.sequential_test), so that going on costs no more error than was set
aside for it.
"""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dballoc.analysis.campaign_tables import Campaign, load_server_campaign
from dballoc.analysis.decisions.sequential_test import (
    PROCEDURE_VERSION,
    Procedure,
    list_extension_goals,
)
from dballoc.analysis.tables.baseline_comparison import declare_procedures
from dballoc.errors import UsageError
from dballoc.experiment.durations_and_sizes import format_duration
from dballoc.numbers import duration, listing


@dataclass(frozen=True, kw_only=True)
class Extension:
    """What an extension runs. ``goals``: the number of blocks of each design that goes on, in all;
    ``missing``: those of them that are still to be run; ``seconds``: the time that these are
    expected to take.
    """

    goals: dict[str, int]
    missing: dict[str, int]
    seconds: float

    @property
    def words(self) -> str:
        """Return ``the look at 9 solo blocks and 15 duet blocks``."""
        blocks = [f"{number} {design} blocks" for design, number in self.goals.items()]
        return f"the look at {listing(blocks)}"


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


def plan_extension(directory: Path, seconds: float) -> Extension:
    """Choose the last look that fits into so many seconds. UsageError if none does, if there is
    none, or if the campaign was judged by an earlier procedure.
    """
    campaign = load_server_campaign(directory)
    if campaign.procedure_version < PROCEDURE_VERSION:
        raise UsageError(
            f"{directory}: an earlier dballoc began it, by a procedure that knows no extension; "
            "run the experiment with more blocks in a new --out"
        )
    if campaign.placement.height:
        raise UsageError(
            f"{directory}: its blocks ran on the hosts of a Ray cluster, which extend nothing; "
            "run the experiment with more blocks in a new --out"
        )
    going_on = {d: p for d, p in declare_procedures(campaign).items() if d not in campaign.decided}
    if not going_on:
        raise UsageError(f"{directory}: every comparison is decided; there is nothing to extend")
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
