"""Run or resume the search: one trial after another, each planned from those in the results."""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from dballoc.campaign.interruptible_session import Session, run_in_session
from dballoc.campaign.observer import Observer, SearchProgress
from dballoc.campaign.recorded_facts import make_server_facts
from dballoc.campaign.replay.prepare_replay import PreparedReplay
from dballoc.campaign.replay.replay_limits import estimate_replay_seconds
from dballoc.campaign.run_blocks import open_results
from dballoc.campaign.trial import recorded_trial
from dballoc.campaign.trial.server_in_trial import Interrupted
from dballoc.campaign.ways.replay import plan_trace
from dballoc.campaign.ways.servers import prepare_data
from dballoc.campaign.ways.solo import estimate_solo_trial_seconds
from dballoc.experiment.designs import Design
from dballoc.ground.errors import UsageError
from dballoc.ground.numbers import count, listing
from dballoc.questions.tune import search_history
from dballoc.questions.tune.search_history import Stage, Tried, compare_with_default
from dballoc.search.choose_finalists import rank_promising
from dballoc.search.plan_trials import Candidate, StageProgress, plan_next_trial
from dballoc.search.prepare_tune import PreparedTune
from dballoc.search.replay_trials import prepare_recorded_replays
from dballoc.search.search_aim import make_search_aim
from dballoc.search.search_space import Space, describe_parameters
from dballoc.search.search_trials import REPLAYED, SERVER, SearchTrials
from dballoc.search.short_experiment import choose_highest, make_survey
from dballoc.servers.private.data_template import Template
from dballoc.store.facts import Facts, Surveyed
from dballoc.store.results import Results, TrialRecord
from dballoc.store.rows import StepRow

# Replays have this share of the search's time.
_REPLAYED_SHARE = 0.3


def run_search(setting: PreparedTune, out: Path, observer: Observer) -> str:
    """Run or resume the search in ``out``. Returns why it ended: ``searched`` or ``interrupted``.
    UsageError or Failure; what was finished is kept.
    """
    return run_in_session(setting, out, observer, lambda session: _Search(session).run())


class _Search:
    """The trials of one search, and what they need."""

    def __init__(self, session: Session[PreparedTune]) -> None:
        self.session = session
        self.setting = session.setting
        self.observer = session.observer
        self.results = open_results(session, "tune", self._make_facts)
        self.aim = make_search_aim(self.setting.preference, self.setting.experiment.seed)
        assert self.setting.experiment.budget
        self.seconds = self.setting.experiment.budget * self.setting.tune.share
        self.began = time.monotonic() - self.results.spent()

    def run(self) -> str:
        try:
            if self.results.facts().confirmations is not None:
                return "searched"
            self._run_trials()
            seconds = round(time.monotonic() - self.began, 1)
            self.results.change_facts(search_seconds=seconds)
            return "searched"
        except Interrupted:
            self.results.change_facts(ending="interrupted")
            return "interrupted"
        finally:
            self.results.close()

    def _make_facts(self) -> Facts:
        preference = self.setting.preference.text
        return replace(make_server_facts(self.setting), kind="tune", preference=preference)

    def _run_trials(self) -> None:
        templates = prepare_data(self.session, self.results)
        # The time is for trials: data that take long to make would leave none.
        self.began = time.monotonic() - self.results.spent()
        self._choose_workloads(templates)
        trials = SearchTrials(self.session, self.results, templates)
        replays = self.setting.replays
        if self.setting.records:
            replays = self._prepare_recorded_replays(trials)
        if replays is not None:
            trace = plan_trace(self.session.custody, replays)
            spaces = {n: space.of_malloc for n, space in self.setting.spaces.items()}
            replay = partial(trials.replay, replays=replays, trace=trace)
            self._run_stage(
                REPLAYED, spaces, estimate_replay_seconds(replays.experiment, replays.trace), replay
            )
        if self.setting.no_thp:
            self.observer.notice(f"the search leaves the host's THP alone: {self.setting.no_thp}")
        if self.setting.no_duets:
            self.observer.notice(f"the search has no duets: {self.setting.no_duets}")
        usual = estimate_solo_trial_seconds(self.setting)
        self._run_stage(SERVER, self.setting.spaces, usual, partial(self._try_on_server, trials))

    def _choose_workloads(self, templates: dict[str, Template]) -> None:
        """Settle which workloads the trials have: all, or those that a survey shows, now or when
        the search began.
        """
        if self.setting.surveys and self.results.facts().searched_workloads is None:
            trials = SearchTrials(self.session, self.results, templates)
            survey_workloads(self.setting, trials, self.results, self.observer)
        self.setting = self.setting.select_searched(self.results.facts())
        self.session = replace(self.session, setting=self.setting)

    def _try_on_server(self, trials: SearchTrials, candidate: Candidate, number: int) -> None:
        if candidate.design is Design.SOLO:
            trials.run_alone(candidate, number)
        elif obstacle := trials.run_duet(candidate, number):
            self.observer.notice(f"the search has no more duets: {obstacle}")

    def _prepare_recorded_replays(self, trials: SearchTrials) -> PreparedReplay | None:
        """Return replays of the baseline's first trial, which is recorded now unless that was done
        before; None where there is no trace of it.
        """
        experiment = self.setting.experiment
        default = experiment.baseline
        trace = self.session.directory.path / recorded_trial.name_trace(experiment, default)
        if not self.results.trials():
            first = Candidate(base=default, origin="default", parameters={}, variant=default)
            self.observer.notice(f"{default}: its allocations are recorded, for replays")
            trials.run_alone(first, 1, recorded=True)
            each = estimate_solo_trial_seconds(self.setting)
            self._show(search_history.list_tried(self.results), self.seconds, each)
        if not trace.exists():
            self.observer.notice(f"{default}: there is no trace of it: the search has no replays")
            return None
        try:
            return prepare_recorded_replays(self.setting, trace)
        except UsageError as error:
            self.observer.notice(f"the search has no replays: {error}")
            return None

    def _run_stage(
        self,
        stage: Stage,
        spaces: Mapping[str, Space],
        usual: float,
        try_candidate: Callable[[Candidate, int], None],
    ) -> None:
        """Plan and run trials until the stage's share of the time is over. ``usual``: the seconds
        that one is expected to take before there was one.
        """
        seconds = self.seconds * (_REPLAYED_SHARE if stage == REPLAYED else 1.0)
        while True:
            # Ctrl-C may have come when the last trial no longer looked for it.
            if self.session.stop.requested:
                raise Interrupted
            tried = search_history.list_tried(self.results)
            each = statistics.mean([t.seconds for t in tried if t.stage == stage] or [usual])
            spent = time.monotonic() - self.began
            if spent + each > seconds and any(t.stage == stage for t in tried):
                return
            pace = StageProgress(progress=spent / seconds, trials=seconds / each / len(spaces))
            pairable = self.setting.pairable if stage == SERVER else None
            candidate = plan_next_trial(spaces, tried, stage, self.aim, pace, pairable)
            if candidate is None:
                return
            try_candidate(candidate, len(tried) + 1)
            self._show(search_history.list_tried(self.results), seconds, each)

    def _show(self, tried: Sequence[Tried], seconds: float, each: float) -> None:
        """Tell the observer of the last trial, in a stage of so many seconds."""
        last = tried[-1]
        seconds_left = max(0.0, seconds - (time.monotonic() - self.began))
        self.observer.search_progressed(
            SearchProgress(
                stage=last.stage,
                number=len(tried),
                variant=last.variant,
                origin=last.origin,
                settings=describe_parameters(last.parameters),
                outcome=_describe_outcome(last, tried),
                best=self._describe_best(tried, last.stage),
                trials_left=int(seconds_left // each),
                seconds_left=seconds_left,
            )
        )

    def _describe_best(self, tried: Sequence[Tried], stage: Stage) -> str:
        standings = search_history.summarize_standings(tried, stage)
        ranked = rank_promising(standings, self.aim.objective, self.aim.bound)
        if not ranked:
            return "the default"
        best = ranked[0]
        memory, cost = (math.exp(v or 0.0) for v in (best.memory, best.cost))
        return f"{best.variant}: memory × {memory:.2f}, CPU × {cost:.2f} by its readings"


def _describe_outcome(trial: Tried, tried: Sequence[Tried]) -> str:
    if trial.fault is not None:
        return f"FAULT: {trial.fault}"
    if trial.design is Design.DUET:
        if not trial.ratios:
            return "in a duet with the default: nothing to compare"
        cost = math.exp(statistics.mean(trial.ratios.values()))
        return f"in a duet with the default: CPU × {cost:.3f}"
    ratios = compare_with_default(trial, tried)
    if ratios is None:
        return "no default to compare with yet"
    memory, cost = map(math.exp, ratios)
    kind = "peak heap" if trial.stage == REPLAYED else "peak RSS"
    return f"{kind} {(trial.rss or 0) / 2**20:,.0f} MiB (× {memory:.2f}), CPU × {cost:.2f}"


# -- the workloads ---------------------------------------------------------------------------------


def survey_workloads(
    setting: PreparedTune, trials: SearchTrials, results: Results, observer: Observer
) -> None:
    """Run what is missing of the survey, a start for each workload, and store which ones the
    search's trials have: what the aim names, and those with the highest peak RSS.
    """
    experiment = setting.experiment
    surveyed = results.facts().survey
    missing = [s for s in make_survey(experiment) if s.workloads[0] not in surveyed]
    if missing:
        starts = count(len(missing), "short start shows", "short starts show")
        observer.notice(f"{experiment.baseline}: {starts} under which workloads it has most memory")
    for survey in missing:
        surveyed[survey.workloads[0]] = read_start(trials.run_survey(survey))
        results.change_facts(survey=surveyed)
    named = {word for c in setting.preference.constraints for word in c.within}
    kept = [w for w in experiment.workloads if w in named]
    searched = choose_highest(surveyed, experiment, kept)
    results.change_facts(searched_workloads=tuple(searched))
    observer.notice(
        f"trials have {listing([_describe_surveyed(w, surveyed.get(w)) for w in searched])}"
    )


def read_start(record: TrialRecord) -> Surveyed:
    """Return what a workload did in its start."""
    if record.trial.outcome != "ok":
        return Surveyed(peak=None, longest=0.0)
    longest = max(s.latency_max or 0.0 for s in record.select(StepRow) if s.kind == "level")
    return Surveyed(peak=record.trial.rss_peak, longest=longest / 1000)


def _describe_surveyed(workload: str, surveyed: Surveyed | None) -> str:
    if surveyed is None or surveyed.peak is None:
        return workload
    return f"{workload} (peak RSS {surveyed.peak / 2**20:,.0f} MiB)"
