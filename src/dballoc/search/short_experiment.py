"""Make a search's trials short: many of them tell more than a few long ones, and what they say is
confirmed afterwards. Of many workloads they have those that tell most. Pure.
"""

from collections.abc import Collection, Mapping, Sequence

from dballoc.experiment.designs import Design
from dballoc.experiment.model import LOAD, Experiment, RecordTrace, Tune, Variant
from dballoc.store.facts import Surveyed

# Seconds: peak RSS is flat from the fifth second of a level on.
_LEVEL, _WARMUP = 5.0, 2.0
# Seconds beside load, of a trial: copy, start, stop. And of each run of the client.
_PER_TRIAL, _PER_LOAD = 2.0, 0.25
# A trial takes no more than this share of the budget: the confirmation has half of it, and few
# blocks show little.
_SHARE = 1 / 240
# A survey takes no more than this share of the search's time. Which workload is searched may matter
# more than the last trials: what was confirmed saved 31 % of a server's peak RSS under one workload
# and 17 % under another. Its levels, seconds: at their end a server has most of the memory that it
# has later.
_SURVEY, _SURVEY_LEVEL = 0.2, 1.0
# An event should take no more than this share of a trial's level: CPU an event counts those that
# end in it, and with long ones that scatters by more than what a search asks for.
_LONGEST = 1 / 6


def make_short_experiment(experiment: Experiment, tune: Tune, budget: float) -> Experiment:
    """Return the experiment that a search of ``budget`` seconds in all runs: the highest level
    alone, in one start, on tables that are full from the beginning. The experiment's own variants
    are the defaults. The baseline is recorded where the search replays and is given no trace.
    Servers have room for what the confirmation's designs load them with, as memory and options
    differ otherwise.
    """
    timed = [w for w in experiment.workloads if w != LOAD] or list(experiment.workloads)
    time = experiment.time.model_copy(
        update={
            "level": min(experiment.time.level, _LEVEL),
            "warmup": min(experiment.time.warmup, _WARMUP),
            "idle": 0.0,
        }
    )
    return experiment.model_copy(
        update={
            "workloads": timed,
            "threads": experiment.threads[-1:],
            "levels": "rising",
            "sequence": "cycle",
            "warm": [],
            "before": {},
            "design": tune.design if tune.design in (Design.SOLO.value, None) else "both",
            "blocks": None,
            "budget": budget,
            "published": None,
            "post": None,
            "profile": None,
            "profile_at": None,
            "record": RecordTrace() if tune.replay and tune.trace is None else None,
            "counters": [],
            "time": time,
            "tune": tune,
        }
    )


def count_most_workloads(short: Experiment) -> int:
    """Return how many workloads a trial of a search has room for."""
    assert short.budget
    each = short.time.level + short.time.warmup + 2 * _PER_LOAD
    return max(1, int((short.budget * _SHARE - _PER_TRIAL) / each))


def choose_evenly(items: Sequence[str], most: int) -> list[str]:
    """Return at most so many of the items, spread over the list, the last one among them."""
    if len(items) <= most:
        return list(items)
    step = len(items) / most
    return [items[int((i + 1) * step) - 1] for i in range(most)]


def choose_highest(
    surveyed: Mapping[str, Surveyed], short: Experiment, kept: Collection[str]
) -> list[str]:
    """Return as many workloads as a trial has room for, in their order: the ``kept`` ones, then
    those that had the highest peak RSS. One with long events is not chosen if another one has
    short ones. Where no peak is known, they are evenly chosen.
    """
    others = [w for w in short.workloads if w not in kept]
    peaks = {w: surveyed[w].peak or 0 for w in others if w in surveyed and surveyed[w].peak}
    longest = short.time.level * _LONGEST
    fit = [w for w in peaks if surveyed[w].longest <= longest] or list(peaks)
    room = max(0, count_most_workloads(short) - len(kept))
    highest = sorted(fit, key=lambda w: -peaks[w])[:room]
    if not highest and room:
        highest = choose_evenly(others, room)
    return [w for w in short.workloads if w in (*kept, *highest)]


def make_survey(short: Experiment) -> list[Experiment]:
    """Return the experiments of a survey: a start for each workload, or for as many as there is
    time for, evenly chosen.
    """
    assert short.budget
    tune = short.tune or Tune()
    time = short.time.model_copy(update={"level": min(short.time.level, _SURVEY_LEVEL)})
    each = time.level + time.warmup + 2 * _PER_LOAD + _PER_TRIAL
    starts = max(1, int(short.budget * tune.share * _SURVEY / each))
    return [
        short.model_copy(update={"workloads": [workload], "time": time})
        for workload in choose_evenly(short.workloads, starts)
    ]


def make_confirmation(
    search: Experiment, base: str, finalists: list[Variant], budget: float
) -> Experiment:
    """Return the experiment that judges the finalists of a base in so many seconds: by both
    designs where the machine can play a duet, with that base as the baseline.
    """
    tune = search.tune or Tune()
    return search.model_copy(
        update={
            "name": f"{search.name[:40]}-{base[:23]}",
            "baseline": base,
            "variant": [search.find(base), *finalists],
            "design": tune.design,
            "blocks": tune.blocks,
            "budget": None if tune.blocks else budget,
            "record": None,
            "tune": None,
        }
    )
