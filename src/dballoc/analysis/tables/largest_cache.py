"""What ``dballoc fit`` has found: for each variant the largest cache that survives, and what it
cost.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dballoc.errors import Failure, UsageError
from dballoc.experiment import cache_size_search
from dballoc.experiment.cache_size_search import Outcome, Range, State
from dballoc.store.results import KIND, Results

if TYPE_CHECKING:
    from dballoc.analysis.campaign_tables import Campaign

VERB = "fit"


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One trial. Bytes; ``pool``: the size as the server itself had it, where it differs from
    ``asked`` or was told.
    """

    variant: str
    round: int
    asked: int
    pool: int | None
    outcome: Outcome
    fault: str | None
    text: str | None
    peak: int | None
    tps: float | None

    @property
    def size(self) -> int:
        """What it had."""
        return self.pool or self.asked

    @property
    def trial(self) -> cache_size_search.Trial:
        """For the search."""
        return cache_size_search.Trial(self.asked, self.outcome, self.peak)


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A variant's answer. ``largest`` survived, ``killed`` is the smallest that was killed; None:
    no such size so far. ``peak``: the highest RSS at ``largest``, ``last``: the highest seen of
    servers that were killed at ``killed``; ``tps``: of the last level at ``largest``, its mean.
    """

    variant: str
    option: str
    state: State
    largest: int | None
    killed: int | None
    peak: int | None
    last: int | None
    tps: float | None
    kills: int
    trials: int

    @property
    def ratio(self) -> float | None:
        """Peak RSS to the cache."""
        return self.peak / self.largest if self.peak and self.largest else None

    @property
    def filled(self) -> bool:
        """Whether the load can have filled the cache: RSS holds it and what the server needs beside
        it.
        """
        return self.ratio is None or self.ratio >= 1


@dataclass(frozen=True, kw_only=True)
class Fits:
    """All that was found, in the experiment's order of variants. ``campaign``: the tables, as for
    any other verb.
    """

    campaign: "Campaign"
    of: Range
    probes: list[Probe]
    fitted: list[Fitted]
    ended: str | None

    @property
    def over(self) -> bool:
        """Whether every search is."""
        return all(f.state.next is None for f in self.fitted)


def load(directory: Path) -> Fits:
    """Read results of ``dballoc fit``. UsageError if there are none, or not one trial."""
    # Frames take a while to import, and the search itself needs none.
    from dballoc.analysis.campaign_tables import read

    results = Results.open(directory, read_only=True)
    try:
        check(results, directory)
        campaign = read(directory)
        every, names = probes(results), read_cache_options(results)
    finally:
        results.close()
    if not every:
        raise UsageError(f"{directory}: no trial is finished yet; run dballoc fit first")
    if set(names) != set(campaign.names):
        raise Failure(f"{directory}: damaged: options: of other variants than the experiment has")
    of = cache_size_search.of_experiment(campaign.experiment)
    return Fits(
        campaign=campaign,
        of=of,
        probes=every,
        fitted=fit_variants(of, names, every),
        ended=campaign.facts.get("ending"),
    )


def is_fit(directory: Path) -> bool:
    """Whether these are results of ``dballoc fit``. UsageError if they are no results."""
    results = Results.open(directory, read_only=True)
    try:
        return results.facts().get(KIND) == VERB
    finally:
        results.close()


def probes(results: Results) -> list[Probe]:
    """All trials, in the order in which they were run."""
    results.table("probe")  # for what it says of damage
    return [
        Probe(
            variant=name,
            round=number,
            asked=requested,
            pool=pool,
            outcome=_classify_outcome(outcome, fault),
            fault=fault,
            text=text,
            peak=peak,
            tps=tps,
        )
        for name, number, requested, pool, outcome, fault, text, peak, tps in results.tried()
    ]


def _classify_outcome(outcome: str, fault: str | None) -> Outcome:
    return "survived" if outcome == "ok" else "killed" if fault == "oom" else "other"


def read_cache_options(results: Results) -> dict[str, str]:
    """The cache's option by variant."""
    option_by_variant: dict[str, str] = json.loads(results.checked_facts().get("options", "{}"))
    return option_by_variant


def fit_variants(of: Range, names: dict[str, str], every: Sequence[Probe]) -> list[Fitted]:
    """Each variant's answer so far. ``names``: the variants in their order, with the option of
    each.
    """
    return [
        _fit_variant(of, name, option, [p for p in every if p.variant == name])
        for name, option in names.items()
    ]


def _fit_variant(of: Range, name: str, option: str, probes_of_variant: Sequence[Probe]) -> Fitted:
    now = cache_size_search.state(of, [p.trial for p in probes_of_variant])
    low = [p for p in probes_of_variant if p.asked == now.low and p.outcome == "survived"]
    high = [p for p in probes_of_variant if p.asked == now.high and p.outcome == "killed"]
    speeds = [p.tps for p in low if p.tps is not None]
    return Fitted(
        variant=name,
        option=option,
        state=now,
        largest=max((p.size for p in low), default=None),
        killed=max((p.size for p in high), default=None),
        peak=max((p.peak for p in low if p.peak is not None), default=None),
        last=max((p.peak for p in high if p.peak is not None), default=None),
        tps=sum(speeds) / len(speeds) if speeds else None,
        kills=sum(1 for p in probes_of_variant if p.outcome == "killed"),
        trials=len(probes_of_variant),
    )


def check(results: Results, directory: Path) -> None:
    """UsageError unless these are results of ``dballoc fit``."""
    if results.facts().get(KIND) != VERB:
        raise UsageError(
            f"{directory}: results of another verb than dballoc fit; choose a new --out"
        )
