"""How many blocks a campaign plans, and what they will take. Pure but for the template's size on
disk.
"""

from dataclasses import dataclass

from dballoc.analysis.decisions.sequential_test import FIRST_LOOK, LAST_LOOK, declare, family_size
from dballoc.analysis.statistics.variance_components import Components, Costs, Plan, Wishes, plan
from dballoc.campaign.preparation.prepare import Setting
from dballoc.experiment import schedule
from dballoc.experiment.model import LOAD
from dballoc.experiment.trial_steps import cycle, idle_or_load_seconds, is_profiled, under_probe

# Seconds beside the planned ones, as measured on two cores: copy, start, stop; and for each run of
# the client.
_PER_TRIAL = 0.8
_PER_LOAD = 0.25
_PER_BLOCK = 0.5
_PER_PROFILE = 15.0
_PER_GIB_COPIED = 2.0
# Rows a second of sysbench's tables that a load puts in.
_ROWS_LOADED = 60_000
# A duet's two servers start and stop together, its copies one after the other.
_PER_DUET = 1.6

# What a pilot is expected to find, before it has: standard deviations of starts, slices and pieces
# (of so many seconds), and the halves' difference, on a shared machine of two cores.
USUAL = Components(start=0.005, slice=0.02, piece=0.02, halves=0.1, seconds=0.25)

# The pilot: starts, slices in each, of which half a second counts; fewer slices where the duet's
# time is short.
PILOT_STARTS = 3
_PILOT_SLICES, _SHORT_PILOT_SLICES = 24, 12
_PILOT_COUNTED = 0.5
_SHORT = 600.0


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Seconds. ``blocks``, ``trials_per_block`` and ``block_seconds`` by design; ``pilot``:
    seconds, 0 without one; ``measured_share``: of the time, what is measuring, warming up or idling
    on purpose.
    """

    blocks: dict[str, int]
    trials_per_block: dict[str, int]
    block_seconds: dict[str, float]
    pilot: float
    measured_share: float

    @property
    def trials(self) -> int:
        """Of the whole campaign, without pilot and repeats."""
        return sum(self.blocks[d] * self.trials_per_block[d] for d in self.blocks)

    @property
    def seconds(self) -> float:
        """Of the whole campaign, without repeats."""
        return self.pilot + sum(self.blocks[d] * self.block_seconds[d] for d in self.blocks)


def estimate(setting: Setting) -> Estimate:
    """``blocks`` as asked, of each design; else what its share of the budget holds, up to the last
    look; else the first one.
    """
    blocks, trials, seconds, on_purpose = {}, {}, {}, 0.0
    pilot = pilot_seconds(setting) if needs_pilot(setting) else 0.0
    if "solo" in setting.designs:
        trials["solo"], purpose, seconds["solo"] = _solo_block(setting)
        blocks["solo"] = _blocks(setting, seconds["solo"], share_of_budget(setting))
        on_purpose += blocks["solo"] * purpose
    if "duet" in setting.designs:
        costs, usual = duet_costs(setting), duet_plan(setting, USUAL)
        blocks["duet"], seconds["duet"] = usual.blocks, usual.block_seconds
        trials["duet"] = 2 * costs.pairings
        loaded = setting.experiment.duet_warmup + 2 * usual.pairs * usual.slice
        on_purpose += usual.blocks * costs.pairings * costs.workloads * loaded
    whole = pilot + sum(blocks[d] * seconds[d] for d in blocks)
    return Estimate(
        blocks=blocks,
        trials_per_block=trials,
        block_seconds=seconds,
        pilot=pilot,
        measured_share=on_purpose / whole,
    )


def solo_seconds(setting: Setting) -> float:
    """What one solo trial takes, with a start for all levels."""
    trials, _, seconds = _solo_block(setting)
    return seconds / trials


def _solo_block(setting: Setting) -> tuple[int, float, float]:
    """(trials, seconds on purpose, seconds) of one solo block."""
    slots = schedule.block(setting.experiment, 1)
    copied = setting.largest_copy_bytes / 2**30 * _PER_GIB_COPIED
    on_purpose = seconds = 0.0
    for slot in slots:
        steps = cycle(setting.experiment, slot, setting.contents.tables)
        planned = idle_or_load_seconds(steps)
        if any(s.workload == LOAD for s in steps):
            seconds += setting.experiment.data.tables * setting.experiment.data.rows / _ROWS_LOADED
        loads = sum(1 for s in steps if s.kind in ("warmup", "level"))
        profiles = sum(1 for s in steps if s.kind == "profile")
        on_purpose += planned
        seconds += planned + _PER_TRIAL + copied + loads * _PER_LOAD + profiles * _PER_PROFILE
        if setting.experiment.profile == "heap" and is_profiled(setting.experiment, slot):
            again = under_probe(setting.experiment, slot, setting.contents.tables)
            seconds += idle_or_load_seconds(again) + _PER_TRIAL + copied + len(again) * _PER_LOAD
    return len(slots), on_purpose, seconds + _PER_BLOCK


def _blocks(setting: Setting, block_seconds: float, time: float | None) -> int:
    if setting.experiment.blocks is not None:
        return setting.experiment.blocks
    held = int(time // block_seconds) if time is not None else FIRST_LOOK
    return max(1, min(held, LAST_LOOK))


def share_of_budget(setting: Setting) -> float | None:
    """The seconds that each design has: the designs share the budget evenly. None without one."""
    budget = setting.experiment.budget
    return None if budget is None else budget / len(setting.designs)


def duet_time(setting: Setting) -> float | None:
    """The seconds that the duet's blocks have: what its pilot leaves, or, where the solo blocks are
    counted beforehand, what they leave. None without a budget.
    """
    share = share_of_budget(setting)
    if share is None:
        return None
    experiment = setting.experiment
    if (
        experiment.blocks is not None
        and experiment.budget is not None
        and "solo" in setting.designs
    ):
        share = experiment.budget - experiment.blocks * _solo_block(setting)[2]
    return max(0.0, share - (pilot_seconds(setting) if needs_pilot(setting) else 0.0))


def duet_costs(setting: Setting) -> Costs:
    """What a duet block takes beside its slices."""
    assert setting.duet
    experiment = setting.experiment
    workloads = len(experiment.workloads)
    copies = 2 * setting.largest_copy_bytes / 2**30 * _PER_GIB_COPIED
    # The warm-up ends with the clients' first report, a second after their start.
    warm_up = workloads * (max(1.0, experiment.duet_warmup) + 2 * _PER_LOAD)
    others = len(setting.duet.thp) - 1
    return Costs(_PER_BLOCK, _PER_DUET + copies + warm_up, 1 + others, workloads)


def duet_plan(setting: Setting, found: Components) -> Plan:
    """The slices, pairs and blocks that suit these components, with what the experiment says of
    them, in its time.
    """
    duet = setting.experiment.duet
    wishes = Wishes(
        slice=duet.slice,
        pairs=duet.pairs,
        blocks=setting.experiment.blocks,
        time=duet_time(setting),
        discard=duet.discard,
    )
    return plan(found, duet_costs(setting), wishes, _confidence(setting))


def needs_pilot(setting: Setting) -> bool:
    """Whether something is left to find out."""
    duet = setting.experiment.duet
    return setting.duet is not None and (duet.slice is None or duet.pairs is None)


def pilot_slices(setting: Setting) -> tuple[float, int]:
    """The length of the pilot's slices, seconds, and how many there are in a start."""
    share = share_of_budget(setting)
    number = _SHORT_PILOT_SLICES if share is not None and share < _SHORT else _PILOT_SLICES
    return setting.experiment.duet.discard + _PILOT_COUNTED, number


def pilot_seconds(setting: Setting) -> float:
    """What the pilot takes."""
    costs = duet_costs(setting)
    length, number = pilot_slices(setting)
    return PILOT_STARTS * (costs.overhead + costs.workloads * number * length)


def _confidence(setting: Setting) -> dict[int, float]:
    """The level of a duet's intervals for each number of blocks that may be planned."""
    experiment = setting.experiment
    family = family_size(setting.designs, len(experiment.variant), len(experiment.workloads))
    numbers = {*range(1, LAST_LOOK + 1), experiment.blocks or 1}
    return {blocks: declare(blocks, family).confidence for blocks in numbers}
