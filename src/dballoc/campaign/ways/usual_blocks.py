"""What blocks usually take, and how they usually scatter, as measured on a shared machine of two
cores. Pure but for the templates' size on disk.
"""

import math
from dataclasses import dataclass, replace

from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.ways.way import BlockEstimate
from dballoc.experiment import schedule
from dballoc.experiment.model import LOAD, SHORT_DISCARD, SHORTEST_COUNTED, USUAL_DISCARD
from dballoc.experiment.trial_steps import (
    is_profiled,
    is_recorded,
    plan_probe_steps,
    plan_steps,
    sum_planned_seconds,
)
from dballoc.questions.compare.duet_plan import BlockCosts, Components

# Seconds to copy, start and stop, and for each run of the client, as measured on two cores.
_PER_TRIAL = 0.8
PER_LOAD = 0.25
PER_BLOCK = 0.5
_PER_PROFILE = 15.0
_PER_GIB_COPIED = 2.0
# Rows a second that a load inserts into sysbench's tables.
_ROWS_LOADED = 60_000


def estimate_copy_seconds(setting: PreparedCampaign) -> float:
    """Estimate the seconds that a start waits for its copy of the data."""
    if setting.reuses_data:
        return 0.0
    return setting.largest_copy_bytes / 2**30 * _PER_GIB_COPIED


# -- solo -----------------------------------------------------------------------------------------


def estimate_solo_block(setting: PreparedCampaign) -> BlockEstimate:
    """Estimate one solo block."""
    slots = schedule.order_block(setting.experiment, 1)
    copied = estimate_copy_seconds(setting)
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
        seconds += planned + _PER_TRIAL + copied + loads * PER_LOAD + profiles * _PER_PROFILE
        if setting.experiment.profile == "heap" and is_profiled(setting.experiment, slot):
            again = plan_probe_steps(setting.experiment, slot, setting.contents.tables)
            seconds += sum_planned_seconds(again) + _PER_TRIAL + copied + len(again) * PER_LOAD
        if is_recorded(setting.experiment, slot):
            seconds += planned + _PER_TRIAL + copied + loads * PER_LOAD
    return BlockEstimate(
        blocks=1, trials=len(slots), seconds=seconds + PER_BLOCK, on_purpose=on_purpose
    )


# -- duets ----------------------------------------------------------------------------------------

# A duet's two servers start and stop together; their data are copied one after the other.
_PER_DUET = 1.6

# What a pilot is expected to find: standard deviations of starts, slices and pieces
# (of so many seconds), and the halves' difference, on a shared machine of two cores.
USUAL = Components(start=0.005, slice=0.02, piece=0.02, halves=0.1, seconds=0.25)

# A plan reckons with no less scatter from slice to slice: a pilot of some seconds may fall between
# two bursts of noise. Where there are no bursts the intervals are narrow whatever the plan.
USUAL_NOISE = replace(USUAL, slice=0.06)

# More of the slice is left out if a transaction costs more by this, as ln, in the first tenth of a
# second that counts than in the rest.
MOST_AFTER_SWAP = 0.02

# The pilot's starts and the slices in each, and fewer where the duet has less than so many
# seconds; the seconds that count of a slice, and its pieces.
_PILOT, _SHORT_PILOT = (3, 24), (2, 12)
_SHORT = 600.0
_PILOT_COUNTED = 0.42
PILOT_PIECES = 4


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
    budget = setting.experiment.budget
    is_short = budget is not None and budget / len(setting.designs) < _SHORT
    starts, slices = _SHORT_PILOT if is_short else _PILOT
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
    """Estimate the seconds that the pilot takes; 0 without one."""
    if not needs_pilot(setting):
        return 0.0
    costs, pilot = estimate_duet_costs(setting), plan_pilot(setting)
    return pilot.starts * (costs.overhead + costs.workloads * pilot.slices * pilot.seconds)


# -- turns ----------------------------------------------------------------------------------------

# Seconds of its turns that a server has in a block, where the experiment does not say how many
# rounds: several blocks of some seconds beat few long ones, as a start has luck of its own.
BLOCK_LOAD = 3.0
# With fewer rounds, chance decides whose turn a burst of other work hits.
LEAST_ROUNDS = 4
# Seconds to start and stop a server beside others, and to connect its clients.
_PER_SERVER = 0.7
# Seconds that a turn takes longer than it says, as dballoc waits for a CPU.
_PER_TURN = 0.02

# Standard deviations of ln(variant ÷ baseline): from start to start, and of one second of load for
# each server; a block of so many seconds has the second ÷ √seconds (docs/evidence.md, from
# benchmarks/turns.py).
TURNS_START, TURNS_SECOND = 0.01, 0.05


def count_servers_in_turns(setting: PreparedCampaign) -> int:
    """Return how many servers a block starts."""
    assert setting.turns
    variants = len(setting.experiment.variant)
    if setting.turns.in_pairs:
        return 2 * variants
    return variants + len(setting.experiment.split_by_cpus())


def estimate_turns_costs(setting: PreparedCampaign) -> tuple[float, float]:
    """Estimate the seconds of a block of turns apart from its rounds, and of one round of all its
    workloads.
    """
    experiment, servers = setting.experiment, count_servers_in_turns(setting)
    workloads, turn = len(experiment.workloads), experiment.turns.length + _PER_TURN
    warm = math.ceil(experiment.turns_warmup / experiment.turns.length) * turn
    overhead = _PER_SERVER + estimate_copy_seconds(setting) + workloads * (PER_LOAD + warm)
    return PER_BLOCK + servers * overhead, workloads * servers * turn
