"""Find out in one start which workloads raise the server's memory, so that trials have these."""

from dballoc.campaign.observer import Observer
from dballoc.numbers import listing
from dballoc.store.results import TrialRecord
from dballoc.tune.prepare_tune import PreparedTune
from dballoc.tune.search_trials import SearchTrials
from dballoc.tune.short_experiment import (
    SurveyedLevel,
    choose_evenly,
    choose_raising,
    compute_rises,
    count_most_workloads,
    make_survey,
)


def survey_workloads(setting: PreparedTune, trials: SearchTrials, observer: Observer) -> list[str]:
    """Run a start with all workloads, and return those that the search's trials are to have: what
    the aim names, and those in which peak RSS rises most; evenly chosen ones if the start fails.
    """
    experiment = setting.experiment
    most = count_most_workloads(experiment)
    observer.notice(
        f"{experiment.baseline}: one start with all {len(experiment.workloads)} workloads shows in "
        "which of them peak RSS rises most"
    )
    record = trials.run_survey(make_survey(experiment, setting.tune))
    if record.trial["outcome"] != "ok":
        searched = choose_evenly(experiment.workloads, most)
        why = record.trial["fault_text"] or record.trial["fault"]
        observer.notice(f"it failed: {why}; trials have {listing(searched)}, evenly chosen")
        return searched
    levels, before = read_levels(record)
    named = {word for c in setting.preference.constraints for word in c.within}
    kept = [w for w in experiment.workloads if w in named]
    searched = choose_raising(levels, before, most, experiment.threads[-1], kept)
    rises = compute_rises(levels, before)
    shown = [f"{w} (+{rises[w] / 2**20:,.0f} MiB)" for w in searched]
    observer.notice(f"trials have {listing(shown)}")
    return searched


def read_levels(record: TrialRecord) -> tuple[list[SurveyedLevel], int]:
    """Return what each workload did, and the most RSS that the server had before the first."""
    levels = [
        SurveyedLevel(workload=s["workload"], peak=s["rss_peak"], events=s["events"] or 0)
        for s in record.steps
        if s["kind"] == "level"
    ]
    earlier = [s["rss_peak"] for s in record.steps if s["kind"] != "level"]
    return levels, max([record.trial["rss_start"] or 0, *earlier])
