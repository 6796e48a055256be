"""Make a search's trials short: many of them tell more than a few long ones, and what they say is
confirmed afterwards. Pure.
"""

from dballoc.experiment.model import LOAD, Experiment, RecordTrace, Tune, Variant

# Seconds: peak RSS is flat from the fifth second of a level on.
_LEVEL, _WARMUP = 5.0, 2.0
# Beside load, of a trial: copy, start, stop. And of each run of the client.
_PER_TRIAL, _PER_LOAD = 2.0, 0.25
# A trial takes no more than this share of the budget.
_SHARE = 1 / 120


def make_short_experiment(experiment: Experiment, tune: Tune, budget: float) -> Experiment:
    """Return the experiment that a search of ``budget`` seconds in all runs: the highest level
    alone, in one start, on tables that are full from the beginning; of its workloads as many as a
    short trial has room for, evenly chosen. The experiment's own variants are the defaults. The
    baseline is recorded where the search replays and is given no trace. Servers have room for what
    the confirmation's designs load them with, as memory and options differ otherwise.
    """
    timed = [w for w in experiment.workloads if w != LOAD] or list(experiment.workloads)
    time = experiment.time.model_copy(
        update={
            "level": min(experiment.time.level, _LEVEL),
            "warmup": min(experiment.time.warmup, _WARMUP),
            "idle": 0.0,
        }
    )
    each = time.level + time.warmup + 2 * _PER_LOAD
    most = max(1, int((budget * _SHARE - _PER_TRIAL) / each))
    workloads = choose_evenly(timed, most)
    return experiment.model_copy(
        update={
            "workloads": workloads,
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


def choose_evenly(items: list[str], most: int) -> list[str]:
    """Return at most so many of the items, spread over the list, the last one among them."""
    if len(items) <= most:
        return items
    step = len(items) / most
    return [items[int((i + 1) * step) - 1] for i in range(most)]


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
