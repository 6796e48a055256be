"""Read what a search has tried, relative to the default that each configuration changes."""

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import TypeAdapter

from dballoc.experiment.designs import Design
from dballoc.experiment.model import Experiment
from dballoc.ground import readers
from dballoc.ground.errors import Failure, UsageError
from dballoc.questions.compare.measures import PEAK
from dballoc.questions.statistics.duet_estimates import Piece, estimate_middle
from dballoc.store.column_types import check_json
from dballoc.store.facts import Facts
from dballoc.store.results import Results

Stage = Literal["replay", "server"]
Origin = Literal["default", "preset", "single", "front", "search", "simpler", "again"]

_PARAMETERS = TypeAdapter(dict[str, str])
_COSTS = TypeAdapter(dict[str, float])
_MOST_LOG = 300.0


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One trial of a search. ``base``: the variant of the experiment that ``parameters`` change;
    ``fault``: its text, None if it ended well; ``rss``: at its peak, bytes; ``costs``: CPU seconds
    an operation by workload; ``seconds``: that it took. Of a duet with its default: ``design``, and
    ``ratios``: ln of CPU an operation relative to it by workload; it has no ``rss`` and ``costs``,
    which two servers at once give otherwise than one alone.
    """

    number: int
    stage: Stage
    base: str
    origin: Origin
    variant: str
    parameters: Mapping[str, str]
    fault: str | None
    rss: int | None
    costs: Mapping[str, float]
    seconds: float
    design: Design = Design.SOLO
    ratios: Mapping[str, float] = field(default_factory=dict)


class Ratios(NamedTuple):
    """What one trial says of its configuration, as natural logarithms of ratios to the default."""

    memory: float
    cost: float


@dataclass(frozen=True, kw_only=True)
class ConfigurationResult:
    """What all trials of a configuration say of it, against its default: the ``readings`` of those
    that ended well; ``duets``: ln of CPU an operation in each duet that did; how many ``faults`` it
    had alone: what fails in a duet may be for want of room for two servers.
    """

    base: str
    variant: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    readings: tuple[Ratios, ...] = ()
    duets: tuple[float, ...] = ()
    faults: int = 0

    @property
    def trials(self) -> int:
        """How many trials alone ended well."""
        return len(self.readings)

    @property
    def memory(self) -> float | None:
        """The mean of its readings of memory; None without any."""
        return statistics.mean(r.memory for r in self.readings) if self.readings else None

    @property
    def cost(self) -> float | None:
        """The mean of its duets, else of its readings of CPU an operation; None without any."""
        costs = self.duets or tuple(r.cost for r in self.readings)
        return statistics.mean(costs) if costs else None


def list_tried(results: Results) -> list[Tried]:
    """Return every trial of a search, in their order. Raises Failure for a damaged one."""
    for name in ("trial", "candidate", "slice"):
        results.table(name)  # for what it says of damage
    ratios = _compute_ratios(results)
    tried = []
    for row in results.searched():
        alone = row["design"] == Design.SOLO
        where = f"candidate: trial {row['number']}"
        try:
            parameters = json.loads(check_json(row["parameters"], _PARAMETERS, where))
            costs = json.loads(check_json(row["costs"], _COSTS, where))
        except readers.Unfit as error:
            raise Failure(f"results.sqlite: damaged: {error}") from None
        tried.append(
            Tried(
                number=row["number"],
                stage=row["stage"],
                base=row["base"],
                origin=row["origin"],
                variant=row["variant"],
                parameters=parameters,
                fault=None if row["outcome"] == "ok" else row["fault_text"] or row["fault"],
                rss=row[PEAK.trial] if alone and (row[PEAK.trial] or 0) > 0 else None,
                costs={w: c for w, c in costs.items() if 0 < c < math.inf},
                seconds=row["ended"] - row["started"],
                design=Design.SOLO if alone else Design.DUET,
                ratios=ratios[row["number"]],
            )
        )
    return tried


def _compute_ratios(results: Results) -> Mapping[int, Mapping[str, float]]:
    """Return ln of CPU an operation relative to the default, by the configuration's trial and by
    workload, of all duets; without those in which a server had a fault or did nothing.
    """
    sides: dict[tuple[int, int, str], dict[str, list[Piece]]] = defaultdict(
        lambda: defaultdict(list)
    )
    trials: dict[tuple[int, int, str], int] = {}
    for row in results.slices(Design.DUET):
        if row["outcome"] != "ok":
            continue
        duet = row["block"], row["position"], row["workload"]
        piece = Piece(row["slice"], row["half"], row["cpu"], row["events"])
        sides[duet][row["role"]].append(piece)
        if row["role"] == "V":
            trials[duet] = row["trial"]
    ratios: dict[int, dict[str, float]] = defaultdict(dict)
    for duet, trial in trials.items():
        log = estimate_middle(sides[duet]["A1"], sides[duet]["V"])
        if log is not None and math.isfinite(log):
            ratios[trial][duet[2]] = log
    return ratios


def load_tried(directory: Path) -> list[Tried]:
    """Return every trial of a search's results directory. Raises UsageError if it is not one."""
    results = Results.open(directory, read_only=True)
    try:
        check_is_search(results, directory)
        return list_tried(results)
    finally:
        results.close()


def is_search(directory: Path) -> bool:
    """Whether these are results of ``dballoc tune``. Raises UsageError if they are not results at
    all.
    """
    results = Results.open(directory, read_only=True)
    try:
        return results.facts().kind == "tune"
    finally:
        results.close()


def check_is_search(results: Results, directory: Path) -> None:
    """Raise UsageError unless these are results of ``dballoc tune``."""
    if results.facts().kind != "tune":
        raise UsageError(f"{directory}: these are not results of dballoc tune; choose a new --out")


def select_searched(experiment: Experiment, facts: Facts) -> Experiment:
    """Return the experiment of a search with the workloads that its trials have. Raises Failure if
    it does not have one of them.
    """
    searched = facts.searched_workloads
    if searched is None:
        return experiment
    if strange := [w for w in searched if w not in experiment.workloads]:
        raise Failure(
            f"results.sqlite: damaged: searched_workloads: {strange[0]!r} is no workload of this "
            "search"
        )
    return experiment.model_copy(
        update={"workloads": [w for w in experiment.workloads if w in searched]}
    )


def summarize_standings(tried: Sequence[Tried], stage: Stage) -> list[ConfigurationResult]:
    """Return every configuration that was tried at a stage, in the order of their first trials;
    the defaults among them, relative to themselves.
    """
    of_stage = [t for t in tried if t.stage == stage]
    names = dict.fromkeys(t.variant for t in of_stage)
    standings = []
    for name in names:
        trials = [t for t in of_stage if t.variant == name]
        readings = [compare_with_default(t, of_stage) for t in trials]
        duets = [t.ratios for t in trials if t.fault is None and t.ratios]
        standings.append(
            ConfigurationResult(
                base=trials[0].base,
                variant=name,
                parameters=trials[0].parameters,
                readings=tuple(r for r in readings if r is not None),
                duets=tuple(statistics.mean(ratios.values()) for ratios in duets),
                faults=sum(t.fault is not None and t.design is Design.SOLO for t in trials),
            )
        )
    return standings


def compare_with_default(trial: Tried, tried: Sequence[Tried]) -> Ratios | None:
    """Return ln of a trial's peak RSS and of its CPU an operation (the mean over workloads), each
    relative to the mean of its default's trials in ``tried``; None of a duet, after a fault, or
    where the default has no figures yet.
    """
    defaults = [
        t
        for t in tried
        if t.base == trial.base and t.stage == trial.stage and not t.parameters and t.rss
        and t.fault is None
    ]  # fmt: skip
    if trial.fault is not None or not trial.rss or not defaults:
        return None
    memory = math.log(trial.rss) - statistics.mean(math.log(t.rss) for t in defaults if t.rss)
    costs = []
    for workload, cost in trial.costs.items():
        usual = [math.log(t.costs[workload]) for t in defaults if workload in t.costs]
        if usual:
            costs.append(math.log(cost) - statistics.mean(usual))
    return Ratios(memory, statistics.mean(costs) if costs else 0.0)


def list_front(standings: Sequence[ConfigurationResult]) -> list[ConfigurationResult]:
    """Return the configurations of which no other reads better in memory and no worse in cost, or
    the other way round, by memory.
    """
    measured = [s for s in standings if s.memory is not None and s.cost is not None]
    return [measured[i] for i in find_front([(s.memory or 0.0, s.cost or 0.0) for s in measured])]


def find_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the places of the points, of two figures that should be low, of which no other has one
    lower and the other no higher; by the first figure.
    """
    front: list[int] = []
    for place in sorted(range(len(points)), key=lambda i: points[i]):
        if not front or points[place][1] < points[front[-1]][1]:
            front.append(place)
    return front


def convert_to_ratio(log: float) -> float:
    """Return the ratio of a logarithm, which is e^±:data:`_MOST_LOG` at most: readings of damaged
    results may be beyond what a float holds.
    """
    return math.exp(max(-_MOST_LOG, min(_MOST_LOG, log)))
