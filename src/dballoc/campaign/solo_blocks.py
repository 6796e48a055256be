"""The solo design's blocks: which trials they have, and how one is run and stored."""

from collections.abc import Sequence

from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.session import Session
from dballoc.campaign.trials import recorded_trial, solo_trial
from dballoc.experiment import schedule
from dballoc.experiment.schedule import Slot
from dballoc.experiment.trial_steps import is_profiled, is_recorded
from dballoc.servers.private.data_template import Template
from dballoc.store.results import TrialStore


class SoloBlocks:
    """Runs the trials of solo blocks. ``store``: where finished trials go; ``templates``: by their
    recipes' keys; ``planned_seconds``: what a block is expected to take.
    """

    def __init__(
        self,
        session: Session[PreparedCampaign],
        store: TrialStore,
        templates: dict[str, Template],
        planned_seconds: float,
    ) -> None:
        self._session = session
        self._store = store
        self._templates = templates
        self.planned_seconds = planned_seconds

    def list_trials(self, number: int, attempt: int) -> Sequence[Slot]:
        """Return the trials of a block in their order."""
        return schedule.order_block(self._session.setting.experiment, number, attempt)

    def fit_block(self, seconds: float) -> None:
        """Leave the next block as it is: its steps last as long as the experiment says."""

    def run_trial(self, slot: Slot) -> float:
        """Run and store one trial, its heap profile and recording included; returns the CPU seconds
        that its processes used.
        """
        session, setting = self._session, self._session.setting
        with session.run_trial(slot.label) as trial:
            session.observer.trial_started(slot)
            recipe = setting.data_recipe(setting.variants[slot.variant], slot.workload)
            template = self._templates[recipe.key]
            record = solo_trial.run_trial(session.trial_context, slot, template, trial.directory)
            if (
                setting.experiment.profile == "heap"
                and is_profiled(setting.experiment, slot)
                and record.trial["outcome"] == "ok"
            ):
                solo_trial.run_heap_profile(session.trial_context, slot, template, trial.directory)
            if is_recorded(setting.experiment, slot) and record.trial["outcome"] == "ok":
                recorded_trial.run_recording(
                    session.trial_context,
                    slot,
                    template,
                    trial.directory,
                    session.directory.path,
                    measured=record,
                )
            self._store.add_trial(slot, record)
            levels = [step for step in record.steps if step["kind"] == "level"]
            session.observer.trial_finished(
                slot,
                record.trial["fault_text"],
                record.trial["rss_peak"],
                levels[-1]["tps"] if levels else None,
            )
        return trial.cpu_seconds
