"""How many blocks, pairs and slices a duet plans, and how long they will take. Pure but for the
templates' size on disk.
"""

from dataclasses import replace

from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.ways.budget import compute_budget_share
from dballoc.campaign.ways.usual_blocks import (
    USUAL,
    USUAL_NOISE,
    choose_discard,
    estimate_duet_costs,
    estimate_pilot_seconds,
)
from dballoc.campaign.ways.way import BlockEstimate
from dballoc.experiment.designs import Design
from dballoc.questions.compare.duet_plan import BlockCosts, Components, PlanRequest, plan_slices
from dballoc.questions.compare.measures import list_judged
from dballoc.questions.compare.procedure import CPU, LAST_LOOK, declare_procedure, declare_shares
from dballoc.store.facts import SlicePlan


def estimate_duet(setting: PreparedCampaign) -> BlockEstimate:
    """Estimate the duet's blocks, with slices that suit the usual scatter."""
    costs, usual = estimate_duet_costs(setting), plan_duet(setting, USUAL)
    loaded = setting.experiment.duet_warmup + 2 * usual.pairs * usual.slice
    return BlockEstimate(
        blocks=usual.blocks,
        trials=2 * costs.pairings,
        seconds=usual.block_seconds,
        on_purpose=costs.pairings * costs.workloads * loaded,
        pilot=estimate_pilot_seconds(setting),
    )


def _compute_duet_time(setting: PreparedCampaign) -> float | None:
    """Return the seconds that the duet's blocks have: its share without the pilot. None without a
    budget.
    """
    share = compute_budget_share(setting, Design.DUET)
    return None if share is None else max(0.0, share - estimate_pilot_seconds(setting))


def plan_duet(
    setting: PreparedCampaign,
    scatter: Components,
    costs: BlockCosts | None = None,
    discard: float | None = None,
) -> SlicePlan:
    """Plan the slices, pairs and blocks that suit these variance components, within the duet's
    time; those that the experiment gives stay. ``costs`` as measured, None: as estimated;
    ``discard``: what the pilot chose.
    """
    duet = setting.experiment.duet
    if discard is None:
        discard = choose_discard(setting, 0.0)
    wishes = PlanRequest(
        slice=duet.slice,
        pairs=duet.pairs,
        blocks=setting.experiment.blocks,
        time=_compute_duet_time(setting),
        discard=discard,
    )
    reckoned = replace(scatter, slice=max(scatter.slice, USUAL_NOISE.slice))
    return plan_slices(
        reckoned, costs or estimate_duet_costs(setting), wishes, _list_confidence_levels(setting)
    )


def _list_confidence_levels(setting: PreparedCampaign) -> dict[int, float]:
    """Return the confidence level of a duet's intervals for each number of blocks that may be
    planned.
    """
    experiment = setting.experiment
    left_out = len(setting.duet.left_out) if setting.duet else 0
    variants, workloads = experiment.count_compared() + 1, len(experiment.workloads)
    shares = declare_shares(list_judged(setting.designs), variants, workloads, left_out)
    numbers = {*range(1, LAST_LOOK + 1), experiment.blocks or 1}
    procedures = {blocks: declare_procedure(blocks, shares) for blocks in numbers}
    return {
        blocks: p.levels[CPU] if CPU in shares else p.confidence for blocks, p in procedures.items()
    }
