"""How many blocks a campaign plans, and how long they will take. Pure but for the templates' size
on disk.
"""

from dataclasses import dataclass

from dballoc.analysis.decisions.sequential_test import (
    CPU,
    FIRST_LOOK,
    LAST_LOOK,
    declare_current_procedure,
    declare_shares,
)
from dballoc.analysis.statistics.variance_components import (
    BlockCosts,
    Components,
    PlanRequest,
    SlicePlan,
    plan_slices,
)
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.experiment import schedule
from dballoc.experiment.model import LOAD
from dballoc.experiment.trial_steps import (
    is_profiled,
    plan_probe_steps,
    plan_steps,
    sum_planned_seconds,
)

# Seconds beside those of warm-up, load and idling, as measured on two cores: to copy, start and
# stop; and for each run of the client.
_PER_TRIAL = 0.8
_PER_LOAD = 0.25
_PER_BLOCK = 0.5
_PER_PROFILE = 15.0
_PER_GIB_COPIED = 2.0
# Rows a second that a load inserts into sysbench's tables.
_ROWS_LOADED = 60_000
# A duet's two servers start and stop together; their data are copied one after the other.
_PER_DUET = 1.6

# What a pilot is expected to find: standard deviations of starts, slices and pieces
# (of so many seconds), and the halves' difference, on a shared machine of two cores.
USUAL = Components(start=0.005, slice=0.02, piece=0.02, halves=0.1, seconds=0.25)

# The pilot: its starts, the slices in each, and the seconds that count of a slice; fewer slices
# where the duet has less than so many seconds.
PILOT_STARTS = 3
_PILOT_SLICES, _SHORT_PILOT_SLICES = 24, 12
_PILOT_COUNTED = 0.5
_SHORT = 600.0


@dataclass(frozen=True, kw_only=True)
class DurationEstimate:
    """How long a campaign takes. ``blocks``, ``trials_per_block`` and ``block_seconds`` by design;
    ``pilot``: seconds, 0 without one; ``measured_share``: the share of the time that is spent
    measuring, warming up or idling on purpose.
    """

    blocks: dict[str, int]
    trials_per_block: dict[str, int]
    block_seconds: dict[str, float]
    pilot: float
    measured_share: float

    @property
    def trials(self) -> int:
        """Trials of the whole campaign, without pilot and repeats."""
        return sum(self.blocks[d] * self.trials_per_block[d] for d in self.blocks)

    @property
    def seconds(self) -> float:
        """Seconds of the whole campaign, without repeats."""
        return self.pilot + sum(self.blocks[d] * self.block_seconds[d] for d in self.blocks)


def estimate_duration(setting: PreparedCampaign) -> DurationEstimate:
    """Estimate a campaign. Each design has the experiment's ``blocks``; else as many as fit into
    its share of the budget, up to the last look; else those up to the first look.
    """
    blocks: dict[str, int] = {}
    trials: dict[str, int] = {}
    seconds: dict[str, float] = {}
    on_purpose = 0.0
    pilot = estimate_pilot_seconds(setting) if needs_pilot(setting) else 0.0
    if "solo" in setting.designs:
        solo = _estimate_solo_block(setting)
        trials["solo"], seconds["solo"] = solo.trials, solo.seconds
        blocks["solo"] = _plan_solo_blocks(setting, solo.seconds)
        on_purpose += blocks["solo"] * solo.on_purpose
    if "duet" in setting.designs:
        costs, usual = estimate_duet_costs(setting), plan_duet(setting, USUAL)
        blocks["duet"], seconds["duet"] = usual.blocks, usual.block_seconds
        trials["duet"] = 2 * costs.pairings
        loaded = setting.experiment.duet_warmup + 2 * usual.pairs * usual.slice
        on_purpose += usual.blocks * costs.pairings * costs.workloads * loaded
    total = pilot + sum(blocks[d] * seconds[d] for d in blocks)
    return DurationEstimate(
        blocks=blocks,
        trials_per_block=trials,
        block_seconds=seconds,
        pilot=pilot,
        measured_share=on_purpose / total,
    )


def estimate_solo_trial_seconds(setting: PreparedCampaign) -> float:
    """Estimate the seconds of one solo trial, with one start for all levels."""
    block = _estimate_solo_block(setting)
    return block.seconds / block.trials


@dataclass(frozen=True)
class _SoloBlock:
    """One solo block: its trials, its seconds of load and idling, and all its seconds."""

    trials: int
    on_purpose: float
    seconds: float


def _estimate_solo_block(setting: PreparedCampaign) -> _SoloBlock:
    slots = schedule.order_block(setting.experiment, 1)
    copied = setting.largest_copy_bytes / 2**30 * _PER_GIB_COPIED
    on_purpose = seconds = 0.0
    for slot in slots:
        steps = plan_steps(setting.experiment, slot, setting.contents.tables)
        planned = sum_planned_seconds(steps)
        if any(s.workload == LOAD for s in steps):
            seconds += setting.experiment.data.tables * setting.experiment.data.rows / _ROWS_LOADED
        loads = sum(1 for s in steps if s.kind in ("warmup", "level"))
        profiles = sum(1 for s in steps if s.kind == "profile")
        if setting.has_replica:
            seconds += _PER_TRIAL + copied  # its primary
        on_purpose += planned
        seconds += planned + _PER_TRIAL + copied + loads * _PER_LOAD + profiles * _PER_PROFILE
        if setting.experiment.profile == "heap" and is_profiled(setting.experiment, slot):
            again = plan_probe_steps(setting.experiment, slot, setting.contents.tables)
            seconds += sum_planned_seconds(again) + _PER_TRIAL + copied + len(again) * _PER_LOAD
    return _SoloBlock(len(slots), on_purpose, seconds + _PER_BLOCK)


def _plan_solo_blocks(setting: PreparedCampaign, block_seconds: float) -> int:
    """Return how many solo blocks are planned."""
    if setting.experiment.blocks is not None:
        return setting.experiment.blocks
    time = compute_budget_share(setting)
    fitting = int(time // block_seconds) if time is not None else FIRST_LOOK
    return max(1, min(fitting, LAST_LOOK))


def compute_budget_share(setting: PreparedCampaign) -> float | None:
    """Return the seconds that each design has, as the designs share the budget evenly; None without
    a budget.
    """
    budget = setting.experiment.budget
    return None if budget is None else budget / len(setting.designs)


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
        and "solo" in setting.designs
    ):
        share = experiment.budget - experiment.blocks * _estimate_solo_block(setting).seconds
    return max(0.0, share - (estimate_pilot_seconds(setting) if needs_pilot(setting) else 0.0))


def estimate_duet_costs(setting: PreparedCampaign) -> BlockCosts:
    """Estimate the seconds that a duet block takes beside its slices."""
    assert setting.duet
    experiment = setting.experiment
    workloads = len(experiment.workloads)
    copies = 2 * setting.largest_copy_bytes / 2**30 * _PER_GIB_COPIED
    # The warm-up ends with the clients' first report, a second after their start.
    warm_up = workloads * (max(1.0, experiment.duet_warmup) + 2 * _PER_LOAD)
    others = len(setting.duet.thp) - 1
    return BlockCosts(_PER_BLOCK, _PER_DUET + copies + warm_up, 1 + others, workloads)


def plan_duet(setting: PreparedCampaign, scatter: Components) -> SlicePlan:
    """Plan the slices, pairs and blocks that suit these variance components, within the duet's
    time; those that the experiment gives stay.
    """
    duet = setting.experiment.duet
    wishes = PlanRequest(
        slice=duet.slice,
        pairs=duet.pairs,
        blocks=setting.experiment.blocks,
        time=_compute_duet_time(setting),
        discard=duet.discard,
    )
    return plan_slices(
        scatter, estimate_duet_costs(setting), wishes, _list_confidence_levels(setting)
    )


def needs_pilot(setting: PreparedCampaign) -> bool:
    """Whether a pilot must find the length or the number of the duet's slices."""
    duet = setting.experiment.duet
    return setting.duet is not None and (duet.slice is None or duet.pairs is None)


def choose_pilot_slices(setting: PreparedCampaign) -> tuple[float, int]:
    """Return the length of the pilot's slices in seconds, and how many there are in a start."""
    share = compute_budget_share(setting)
    number = _SHORT_PILOT_SLICES if share is not None and share < _SHORT else _PILOT_SLICES
    return setting.experiment.duet.discard + _PILOT_COUNTED, number


def estimate_pilot_seconds(setting: PreparedCampaign) -> float:
    """Estimate the seconds that the pilot takes."""
    costs = estimate_duet_costs(setting)
    length, number = choose_pilot_slices(setting)
    return PILOT_STARTS * (costs.overhead + costs.workloads * number * length)


def _list_confidence_levels(setting: PreparedCampaign) -> dict[int, float]:
    """Return the confidence level of a duet's intervals for each number of blocks that may be
    planned.
    """
    experiment = setting.experiment
    left_out = len(setting.duet.left_out) if setting.duet else 0
    variants, workloads = len(experiment.variant), len(experiment.workloads)
    shares = declare_shares(setting.designs, variants, workloads, left_out)
    numbers = {*range(1, LAST_LOOK + 1), experiment.blocks or 1}
    procedures = {blocks: declare_current_procedure(blocks, shares) for blocks in numbers}
    return {
        blocks: p.find_confidence(CPU) if CPU in shares else p.confidence
        for blocks, p in procedures.items()
    }
