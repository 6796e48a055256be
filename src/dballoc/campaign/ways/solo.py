"""Solo: one server at a time has the machine."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.trial import recorded_trial, solo_trial
from dballoc.campaign.ways.budget import compute_budget_share
from dballoc.campaign.ways.usual_blocks import estimate_solo_block
from dballoc.campaign.ways.way import BlockEstimate, ServerBlocks, ServerWay
from dballoc.experiment import schedule
from dballoc.experiment.designs import Design
from dballoc.experiment.schedule import Slot
from dballoc.experiment.trial_steps import is_profiled, is_recorded
from dballoc.questions.compare.procedure import FIRST_LOOK, LAST_LOOK
from dballoc.store.results import TrialRecord


def estimate_solo(setting: PreparedCampaign) -> BlockEstimate:
    """Estimate the solo blocks: the experiment's number of them; else as many as fit into their
    share of the budget, up to the last look; else those up to the first look.
    """
    block = estimate_solo_block(setting)
    share = compute_budget_share(setting, Design.SOLO)
    blocks = plan_blocks(setting.experiment.blocks, share, block.seconds)
    return replace(block, blocks=blocks)


def estimate_solo_trial_seconds(setting: PreparedCampaign) -> float:
    """Estimate the seconds of one solo trial, with one start for all levels."""
    block = estimate_solo_block(setting)
    return block.seconds / block.trials


def plan_blocks(wished: int | None, seconds: float | None, block_seconds: float) -> int:
    """Return how many blocks are planned: as many as ``wished``; else as many as fit into so many
    seconds, up to the last look; else, without a budget, those up to the first look.
    """
    if wished is not None:
        return wished
    fitting = FIRST_LOOK if seconds is None else int(seconds // block_seconds)
    return max(1, min(fitting, LAST_LOOK))


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
