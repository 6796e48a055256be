"""Find out which workloads a server has most memory under, so that a search's trials have these."""

import json
from dataclasses import asdict

from dballoc.analysis.tune.search_history import Surveyed, read_survey
from dballoc.campaign.observer import Observer
from dballoc.numbers import count, listing
from dballoc.store.campaign_facts import SEARCHED, SURVEY
from dballoc.store.results import Results, TrialRecord
from dballoc.tune.prepare_tune import PreparedTune
from dballoc.tune.search_trials import SearchTrials
from dballoc.tune.short_experiment import choose_highest, make_survey


def survey_workloads(
    setting: PreparedTune, trials: SearchTrials, results: Results, observer: Observer
) -> None:
    """Run what is missing of the survey, a start for each workload, and store which ones the
    search's trials have: what the aim names, and those with the highest peak RSS.
    """
    experiment = setting.experiment
    surveyed = read_survey(results.checked_facts())
    missing = [s for s in make_survey(experiment) if s.workloads[0] not in surveyed]
    if missing:
        starts = count(len(missing), "short start shows", "short starts show")
        observer.notice(f"{experiment.baseline}: {starts} under which workloads it has most memory")
    for survey in missing:
        surveyed[survey.workloads[0]] = read_start(trials.run_survey(survey))
        results.set_fact(SURVEY, json.dumps({w: asdict(x) for w, x in surveyed.items()}))
    named = {word for c in setting.preference.constraints for word in c.within}
    kept = [w for w in experiment.workloads if w in named]
    searched = choose_highest(surveyed, experiment, kept)
    results.set_fact(SEARCHED, json.dumps(searched))
    observer.notice(f"trials have {listing([_describe(w, surveyed.get(w)) for w in searched])}")


def read_start(record: TrialRecord) -> Surveyed:
    """Return what a workload did in its start."""
    if record.trial["outcome"] != "ok":
        return Surveyed(peak=None, longest=0.0)
    longest = max(step["latency_max"] or 0.0 for step in record.steps if step["kind"] == "level")
    return Surveyed(peak=record.trial["rss_peak"], longest=longest / 1000)


def _describe(workload: str, surveyed: Surveyed | None) -> str:
    if surveyed is None or surveyed.peak is None:
        return workload
    return f"{workload} (peak RSS {surveyed.peak / 2**20:,.0f} MiB)"
