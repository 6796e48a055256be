"""How many blocks, pairs and slices a duet plans, and how long they will take. Pure but for the
templates' size on disk.
"""

from dataclasses import dataclass, replace

from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.ways.solo import (
    PER_BLOCK,
    PER_LOAD,
    compute_budget_share,
    estimate_copy_seconds,
    estimate_solo,
)
from dballoc.campaign.ways.way import BlockEstimate
from dballoc.experiment.designs import Design
from dballoc.experiment.model import SHORT_DISCARD, SHORTEST_COUNTED, USUAL_DISCARD
from dballoc.questions.compare.duet_plan import BlockCosts, Components, PlanRequest, plan_slices
from dballoc.questions.compare.measures import list_judged
from dballoc.questions.compare.procedure import CPU, LAST_LOOK, declare_procedure, declare_shares
from dballoc.store.facts import SlicePlan

# More of the slice is left out if a transaction costs more by this, as ln, in the first tenth of a
# second that counts than in the rest.
MOST_AFTER_SWAP = 0.02

# A duet's two servers start and stop together; their data are copied one after the other.
_PER_DUET = 1.6

# What a pilot is expected to find: standard deviations of starts, slices and pieces
# (of so many seconds), and the halves' difference, on a shared machine of two cores.
USUAL = Components(start=0.005, slice=0.02, piece=0.02, halves=0.1, seconds=0.25)

# A pilot of some seconds may fall between two bursts of noise, so the plan reckons with no less
# scatter from slice to slice. Where there are no bursts the intervals are narrow whatever the plan.
_LEAST_SLICE = 0.06

# The pilot's starts and the slices in each, and fewer where the duet has less than so many
# seconds; the seconds that count of a slice, and its pieces.
_PILOT, _SHORT_PILOT = (3, 24), (2, 12)
_SHORT = 600.0
_PILOT_COUNTED = 0.42
PILOT_PIECES = 4


def estimate_duet(setting: PreparedCampaign) -> BlockEstimate:
    """Estimate the duet's blocks, with slices that suit the usual scatter."""
    costs, usual = estimate_duet_costs(setting), plan_duet(setting, USUAL)
    loaded = setting.experiment.duet_warmup + 2 * usual.pairs * usual.slice
    return BlockEstimate(
        blocks=usual.blocks,
        trials=2 * costs.pairings,
        seconds=usual.block_seconds,
        on_purpose=costs.pairings * costs.workloads * loaded,
        pilot=estimate_pilot_seconds(setting) if needs_pilot(setting) else 0.0,
    )


def _compute_duet_time(setting: PreparedCampaign) -> float | None:
    """Return the seconds that the duet's blocks have: the rest of the duet's share after the pilot;
    where the experiment gives the number of blocks, what the solo blocks and the pilot leave of the
    budget. None without a budget.
    """
    share = compute_budget_share(setting)
    if share is None:
        return None
    experiment = setting.experiment
    if (
        experiment.blocks is not None
        and experiment.budget is not None
        and Design.SOLO in setting.designs
    ):
        share = experiment.budget - experiment.blocks * estimate_solo(setting).seconds
    return max(0.0, share - (estimate_pilot_seconds(setting) if needs_pilot(setting) else 0.0))


def estimate_duet_costs(setting: PreparedCampaign) -> BlockCosts:
    """Estimate the seconds that a duet block takes beside its slices."""
    assert setting.duet
    experiment = setting.experiment
    workloads = len(experiment.workloads)
    copies = 2 * estimate_copy_seconds(setting)
    # The warm-up ends with the clients' first report, a second after their start.
    warm_up = workloads * (max(1.0, experiment.duet_warmup) + 2 * PER_LOAD)
    others = len(setting.duet.thp) - 1
    return BlockCosts(PER_BLOCK, _PER_DUET + copies + warm_up, 1 + others, workloads)


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
    reckoned = replace(scatter, slice=max(scatter.slice, _LEAST_SLICE))
    return plan_slices(
        reckoned, costs or estimate_duet_costs(setting), wishes, _list_confidence_levels(setting)
    )


def needs_pilot(setting: PreparedCampaign) -> bool:
    """Whether a pilot must find the length or the number of the duet's slices."""
    duet = setting.experiment.duet
    return setting.duet is not None and (duet.slice is None or duet.pairs is None)


@dataclass(frozen=True)
class PilotPlan:
    """The pilot: its ``starts``, and the ``slices`` in each, of so many ``seconds``, less the first
    ``discard``.
    """

    starts: int
    slices: int
    seconds: float
    discard: float


def plan_pilot(setting: PreparedCampaign) -> PilotPlan:
    """Plan the pilot: a shorter one where the duet has little time. It leaves out as little of a
    slice as may be left out later, to find out whether that is enough.
    """
    share = compute_budget_share(setting)
    starts, slices = _SHORT_PILOT if share is not None and share < _SHORT else _PILOT
    discard = choose_discard(setting, 0.0)
    return PilotPlan(starts, slices, discard + _PILOT_COUNTED, discard)


def choose_discard(setting: PreparedCampaign, after_swap: float) -> float:
    """Return the seconds at the start of a slice that do not count: what the experiment says; else
    little, unless a transaction costs plainly more just after a swap than later: ``after_swap`` is
    ln of the one ÷ the other, at least.
    """
    duet = setting.experiment.duet
    if duet.discard is not None:
        return duet.discard
    if not needs_pilot(setting):
        return USUAL_DISCARD
    fits = duet.slice is None or round(duet.slice - USUAL_DISCARD, 6) >= SHORTEST_COUNTED
    return USUAL_DISCARD if after_swap > MOST_AFTER_SWAP and fits else SHORT_DISCARD


def estimate_pilot_seconds(setting: PreparedCampaign) -> float:
    """Estimate the seconds that the pilot takes."""
    costs, pilot = estimate_duet_costs(setting), plan_pilot(setting)
    return pilot.starts * (costs.overhead + costs.workloads * pilot.slices * pilot.seconds)


def _list_confidence_levels(setting: PreparedCampaign) -> dict[int, float]:
    """Return the confidence level of a duet's intervals for each number of blocks that may be
    planned.
    """
    experiment = setting.experiment
    left_out = len(setting.duet.left_out) if setting.duet else 0
    variants, workloads = len(experiment.variant), len(experiment.workloads)
    shares = declare_shares(list_judged(setting.designs), variants, workloads, left_out)
    numbers = {*range(1, LAST_LOOK + 1), experiment.blocks or 1}
    procedures = {blocks: declare_procedure(blocks, shares) for blocks in numbers}
    return {
        blocks: p.levels[CPU] if CPU in shares else p.confidence for blocks, p in procedures.items()
    }
