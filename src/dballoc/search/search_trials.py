"""Run and store single trials of a search: in a replay, on a server alone, in a duet of a
configuration with its default.
"""

import json
import math
import random
import time
from dataclasses import replace

from dballoc.campaign.interruptible_session import Session
from dballoc.campaign.preparation.prepare_duet import PreparedDuet, share_host
from dballoc.campaign.preparation.prepare_variant import PreparedVariant
from dballoc.campaign.replay.prepare_replay import PreparedReplay
from dballoc.campaign.trial import duet_trial, recorded_trial, solo_trial
from dballoc.campaign.trial.duet_trial import Slices
from dballoc.campaign.trial.server_in_trial import TrialContext
from dballoc.campaign.ways.duet_pilot import check_cpu_bound
from dballoc.campaign.ways.replay import PlannedTrace
from dballoc.campaign.ways.usual_blocks import choose_discard
from dballoc.campaign.ways.way import Unsuitable
from dballoc.experiment.model import Experiment
from dballoc.experiment.schedule import Pairing, Slot
from dballoc.ground.errors import UsageError
from dballoc.host.settings import thp
from dballoc.questions.tune.search_history import Stage
from dballoc.search.plan_trials import Candidate
from dballoc.search.prepare_tune import PreparedTune
from dballoc.search.replay_trials import replay_candidate
from dballoc.servers.private.data_template import Template
from dballoc.store.results import Results, TrialRecord
from dballoc.store.rows import CandidateRow, MeasuredTrial, SliceCounterRow, SliceRow

REPLAYED: Stage = "replay"
SERVER: Stage = "server"

# A duet's slices, seconds, and their pairs, where the experiment does not say.
_SLICE, _PAIRS = 0.2, 20


class SearchTrials:
    """Runs trials one by one, each with its ``number`` in the search. ``results``: where finished
    ones go; ``templates``: by their recipes' keys. A configuration that cannot be run as asked is a
    trial with a fault.
    """

    def __init__(
        self, session: Session[PreparedTune], results: Results, templates: dict[str, Template]
    ) -> None:
        self._session = session
        self._setting = session.setting
        self._results = results
        self._templates = templates

    def replay(
        self, candidate: Candidate, number: int, replays: PreparedReplay, trace: PlannedTrace
    ) -> None:
        """Replay and store one trial."""
        slot = _make_slot(candidate, number)
        with self._session.run_trial(slot, interruptible=True) as trial:
            base = self._setting.variants[candidate.base]
            self._results.add_variant(replace(base.make_row(), name=candidate.variant))
            try:
                record = replay_candidate(
                    self._session.custody, replays, trace, candidate, trial.directory
                )
            except UsageError as error:
                record = TrialRecord(trial=_make_refused_row(error))
            self._store(candidate, REPLAYED, slot, record)

    def run_survey(self, survey: Experiment) -> TrialRecord:
        """Run one start of the baseline that is no trial of the search: nothing of it is stored."""
        slot = Slot(block=0, attempt=0, position=1, variant=survey.baseline, role="V")
        with self._session.run_trial(slot) as trial:
            prepared = self._setting.variants[survey.baseline]
            context = self._make_context(prepared)
            context = replace(context, setting=replace(context.setting, experiment=survey))
            template = self._find_template(prepared)
            record = solo_trial.run_trial(context, slot, template, trial.directory)
            self._session.directory.remove_trial_directory(trial.directory)
            return record

    def run_alone(self, candidate: Candidate, number: int, *, recorded: bool = False) -> None:
        """Run and store one trial of a server. ``recorded``: whether it is run once more under the
        recorder.
        """
        slot = _make_slot(candidate, number)
        with self._session.run_trial(slot) as trial:
            if (prepared := self._prepare(candidate, slot)) is None:
                return
            context, template = self._make_context(prepared), self._find_template(prepared)
            record = solo_trial.run_trial(context, slot, template, trial.directory)
            if recorded and record.trial.outcome == "ok":
                recorded_trial.run_recording(
                    context,
                    slot,
                    template,
                    trial.directory,
                    self._session.directory.path,
                    measured=record,
                )
            self._store(candidate, SERVER, slot, record)

    def run_duet(self, candidate: Candidate, number: int) -> str | None:
        """Run and store a duet of a configuration with its default. Where a duet cannot compare
        servers, it is stored without its slices, and the reason is returned.
        """
        draw = random.Random(f"{self._setting.experiment.seed}:search:{number}")
        pairing = Pairing(
            block=number,
            attempt=0,
            position=1,
            baseline=candidate.base,
            variant=candidate.variant,
            role="V",
            half=draw.randrange(2),
            first=draw.randrange(2),
        )
        with self._session.run_trial(pairing) as trial:
            if (prepared := self._prepare(candidate, _make_slot(candidate, number))) is None:
                return None
            records = duet_trial.run_trial(
                self._make_context(prepared),
                self._prepare_pair(candidate, prepared),
                pairing,
                self._choose_slices(),
                (
                    self._find_template(self._setting.variants[candidate.base]),
                    self._find_template(prepared),
                ),
                trial.directory,
            )
            obstacle = None
            try:
                check_cpu_bound([vars(s) for r in records for s in r.select(SliceRow)])
            except Unsuitable as error:
                obstacle = str(error)
                for record in records:
                    record.remove(SliceRow, SliceCounterRow)
            records[1].rows.append(_make_candidate_row(candidate, SERVER))
            self._results.add_trial(pairing, *records)
            return obstacle

    def _prepare_pair(self, candidate: Candidate, prepared: PreparedVariant) -> PreparedDuet:
        """Return the duet of a configuration with its default; where it has another THP mode, the
        host has the wider one of both.
        """
        default = self._setting.experiment.find(candidate.base)
        shared = share_host([default, prepared.variant], self._setting.thp.get(thp.SETTING))
        assert not isinstance(shared, str)  # the plan has only such that can be in a duet
        return replace(self._setting.duets[candidate.base], thp={candidate.variant: shared})

    def _choose_slices(self) -> Slices:
        """Return the slices of a duet; without a pilot as much of each is left out as may matter
        after a swap.
        """
        duet = self._setting.experiment.duet
        discard = choose_discard(self._setting, math.inf)
        return Slices(duet.slice or _SLICE, duet.pairs or _PAIRS, discard)

    def _prepare(self, candidate: Candidate, slot: Slot) -> PreparedVariant | None:
        """Find what a configuration needs; None, once that is stored, if it cannot be run."""
        try:
            prepared = self._setting.prepare_candidate(
                candidate.base, candidate.parameters, candidate.variant
            )
            self._find_template(prepared)
        except UsageError as error:
            base = self._setting.variants[candidate.base]
            self._results.add_variant(replace(base.make_row(), name=candidate.variant))
            self._store(candidate, SERVER, slot, TrialRecord(trial=_make_refused_row(error)))
            return None
        self._results.add_variant(prepared.make_row())
        return prepared

    def _make_context(self, prepared: PreparedVariant) -> TrialContext:
        """Return what a trial of a configuration has."""
        variants = {**self._setting.variants, prepared.variant.name: prepared}
        return replace(
            self._session.trial_context, setting=replace(self._setting, variants=variants)
        )

    def _find_template(self, prepared: PreparedVariant) -> Template:
        """Return the data of a configuration. Raises UsageError for options by which files are
        made.
        """
        template = self._templates.get(self._setting.data_recipe(prepared, None).key)
        if template is None:
            raise UsageError(
                f"{prepared.variant.name}: its server options need data made with them, and "
                "a search makes data with the defaults only"
            )
        return template

    def _store(self, candidate: Candidate, stage: Stage, slot: Slot, record: TrialRecord) -> None:
        record.rows.append(_make_candidate_row(candidate, stage))
        self._results.add_trial(slot, record)


def _make_slot(candidate: Candidate, number: int) -> Slot:
    return Slot(block=number, attempt=0, position=1, variant=candidate.variant, role="V")


def _make_refused_row(error: UsageError) -> MeasuredTrial:
    now = time.time()
    return MeasuredTrial(
        started=now, ended=now, outcome="fault", fault="start", fault_text=str(error)
    )


def _make_candidate_row(candidate: Candidate, stage: Stage) -> CandidateRow:
    return CandidateRow(
        stage=stage,
        base=candidate.base,
        origin=candidate.origin,
        parameters=json.dumps(dict(candidate.parameters)),
    )
