"""Solo: one server at a time has the machine."""

from collections.abc import Sequence
from pathlib import Path

from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.trial import recorded_trial, solo_trial
from dballoc.campaign.ways.way import BlockEstimate, ServerBlocks, ServerWay
from dballoc.experiment import schedule
from dballoc.experiment.designs import Design
from dballoc.experiment.model import LOAD
from dballoc.experiment.schedule import Slot
from dballoc.experiment.trial_steps import (
    is_profiled,
    is_recorded,
    plan_probe_steps,
    plan_steps,
    sum_planned_seconds,
)
from dballoc.questions.compare.procedure import FIRST_LOOK, LAST_LOOK
from dballoc.store.results import TrialRecord

# Seconds to copy, start and stop, and for each run of the client, as measured on two cores.
_PER_TRIAL = 0.8
PER_LOAD = 0.25
PER_BLOCK = 0.5
_PER_PROFILE = 15.0
_PER_GIB_COPIED = 2.0
# Rows a second that a load inserts into sysbench's tables.
_ROWS_LOADED = 60_000


def estimate_solo(setting: PreparedCampaign) -> BlockEstimate:
    """Estimate the solo blocks: the experiment's number of them; else as many as fit into their
    share of the budget, up to the last look; else those up to the first look.
    """
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
    seconds += PER_BLOCK
    return BlockEstimate(
        blocks=plan_blocks(setting.experiment.blocks, compute_budget_share(setting), seconds),
        trials=len(slots),
        seconds=seconds,
        on_purpose=on_purpose,
    )


def estimate_solo_trial_seconds(setting: PreparedCampaign) -> float:
    """Estimate the seconds of one solo trial, with one start for all levels."""
    estimate = estimate_solo(setting)
    return estimate.seconds / estimate.trials


def plan_blocks(wished: int | None, seconds: float | None, block_seconds: float) -> int:
    """Return how many blocks are planned: as many as ``wished``; else as many as fit into so many
    seconds, up to the last look; else, without a budget, those up to the first look.
    """
    if wished is not None:
        return wished
    fitting = FIRST_LOOK if seconds is None else int(seconds // block_seconds)
    return max(1, min(fitting, LAST_LOOK))


def estimate_copy_seconds(setting: PreparedCampaign) -> float:
    """Estimate the seconds that a start waits for its copy of the data."""
    if setting.reuses_data:
        return 0.0
    return setting.largest_copy_bytes / 2**30 * _PER_GIB_COPIED


def compute_budget_share(setting: PreparedCampaign) -> float | None:
    """Return the seconds that each design has, as the designs share the budget evenly; None without
    a budget.
    """
    budget = setting.experiment.budget
    return None if budget is None else budget / len(setting.designs)


class SoloBlocks(ServerBlocks[Slot]):
    """Runs the trials of solo blocks. Their steps last as long as the experiment says."""

    def list_trials(self, number: int, attempt: int) -> Sequence[Slot]:
        """Return the trials of a block in their order."""
        return schedule.order_block(self._setting.experiment, number, attempt)

    def measure(self, slot: Slot, directory: Path) -> Sequence[TrialRecord]:
        """Run one trial, its heap profile and recording included."""
        context, experiment = self._session.trial_context, self._setting.experiment
        template = self._find_template(slot.variant, slot.workload)
        record = solo_trial.run_trial(context, slot, template, directory)
        if record.trial.outcome == "ok":
            if experiment.profile == "heap" and is_profiled(experiment, slot):
                solo_trial.run_heap_profile(context, slot, template, directory)
            if is_recorded(experiment, slot):
                results = self._session.directory.path
                recorded_trial.run_recording(
                    context, slot, template, directory, results, measured=record
                )
        return [record]


SOLO = ServerWay(design=Design.SOLO, estimate=estimate_solo, make_blocks=SoloBlocks)
