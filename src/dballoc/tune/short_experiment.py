"""Make a search's trials short: many of them tell more than a few long ones, and what they say is
confirmed afterwards. Of many workloads they have those that tell most. Pure.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dballoc.experiment.model import LOAD, Experiment, RecordTrace, Tune, Variant

# Seconds: peak RSS is flat from the fifth second of a level on.
_LEVEL, _WARMUP = 5.0, 2.0
# Seconds beside load, of a trial: copy, start, stop. And of each run of the client.
_PER_TRIAL, _PER_LOAD = 2.0, 0.25
# A trial takes no more than this share of the budget.
_SHARE = 1 / 120
# The survey takes no more than this share of the search's time, but its levels are not shorter,
# seconds.
_SURVEY, _SHORTEST = 0.1, 1.0


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
            "design": tune.design if tune.design in ("solo", None) else "both",
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


@dataclass(frozen=True, kw_only=True)
class SurveyedLevel:
    """What one workload did in a start that ran them all: the server's peak RSS in it, bytes; how
    many ``events`` its clients completed.
    """

    workload: str
    peak: int
    events: int


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


def compute_rises(levels: Sequence[SurveyedLevel], before: int) -> dict[str, int]:
    """Return by how many bytes each workload raised the most RSS that the server had had, which
    was ``before`` at first.
    """
    rises = {}
    for level in levels:
        rises[level.workload] = max(0, level.peak - before)
        before = max(before, level.peak)
    return rises


def choose_raising(
    levels: Sequence[SurveyedLevel], before: int, most: int, clients: int, kept: Collection[str]
) -> list[str]:
    """Return at most so many workloads, in their order: the ``kept`` ones, then those that raised
    peak RSS most. One of which a client completed less than one event on the average is not
    chosen: its CPU an event says little. Where none raised it, they are evenly chosen.
    """
    rises = compute_rises(levels, before)
    fit = [x.workload for x in levels if x.events >= clients and x.workload not in kept]
    raising = sorted((w for w in fit if rises[w] > 0), key=lambda w: -rises[w])
    room = max(0, most - len(kept))
    if not raising and room:
        raising = choose_evenly(fit or [x.workload for x in levels], room)
    chosen = {*kept, *raising[:room]}
    return [x.workload for x in levels if x.workload in chosen]


def make_survey(short: Experiment, tune: Tune) -> Experiment:
    """Return the experiment of the start that runs all workloads, in a tenth of the search's time
    at most. The first one warms the server up, so that it does not have the rise of a server that
    was just started.
    """
    assert short.budget
    seconds = short.budget * tune.share * _SURVEY / (len(short.workloads) + 1) - _PER_LOAD
    level = min(short.time.level, max(_SHORTEST, round(seconds, 1)))
    return short.model_copy(
        update={
            "warm": short.workloads[:1],
            "time": short.time.model_copy(update={"level": level, "warmup": level}),
        }
    )


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
