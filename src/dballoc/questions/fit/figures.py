"""Read what ``dballoc fit`` has found: for each variant the largest cache that survives, and what
it costs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dballoc.experiment import cache_size_search
from dballoc.experiment.cache_size_search import Outcome, SearchState, SizeRange
from dballoc.ground.errors import Failure, UsageError
from dballoc.store.results import Results

if TYPE_CHECKING:
    from dballoc.questions.compare.campaign_tables import Campaign


@dataclass(frozen=True, kw_only=True)
class CacheTrial:
    """One trial; sizes in bytes. ``pool``: the cache's size as the server reported it; None where
    it did not.
    """

    variant: str
    round: int
    requested: int
    pool: int | None
    outcome: Outcome
    fault: str | None
    text: str | None
    peak: int | None
    tps: float | None

    @property
    def size(self) -> int:
        """The size that the cache had."""
        return self.pool or self.requested

    @property
    def trial(self) -> cache_size_search.Trial:
        """The trial as the search takes it."""
        return cache_size_search.Trial(self.requested, self.outcome, self.peak)


@dataclass(frozen=True, kw_only=True)
class VariantFit:
    """A variant's answer. ``largest`` survived, ``killed`` is the smallest size that was killed;
    None: no such size so far. ``peak``: the highest RSS at ``largest``; ``last``: the highest RSS
    seen of the servers that were killed at ``killed``; ``tps``: mean throughput of the last level
    at ``largest``.
    """

    variant: str
    option: str
    state: SearchState
    largest: int | None
    killed: int | None
    peak: int | None
    last: int | None
    tps: float | None
    kills: int
    trials: int

    @property
    def ratio(self) -> float | None:
        """Peak RSS ÷ the cache's size."""
        return self.peak / self.largest if self.peak and self.largest else None

    @property
    def filled(self) -> bool:
        """Whether the load can have filled the cache: RSS includes the cache and what the server
        needs beside it.
        """
        return self.ratio is None or self.ratio >= 1


@dataclass(frozen=True, kw_only=True)
class Fits:
    """The answers for all variants, in the experiment's order. ``campaign``: the tables, as for any
    other verb.
    """

    campaign: "Campaign"
    of: SizeRange
    probes: list[CacheTrial]
    fitted: list[VariantFit]
    ended: str | None

    @property
    def over(self) -> bool:
        """Whether every variant's search has ended."""
        return all(f.state.next is None for f in self.fitted)


def load_fits(directory: Path) -> Fits:
    """Read results of ``dballoc fit``. Raises UsageError if there are none, or not one trial."""
    # Frames take a while to import, and the search itself needs none.
    from dballoc.questions.compare.campaign_tables import read_results

    results = Results.open(directory, read_only=True)
    try:
        check_is_fit(results, directory)
        campaign = read_results(directory)
        trials, names = list_probes(results), results.facts().options
    finally:
        results.close()
    if not trials:
        raise UsageError(f"{directory}: no trial is finished yet; run dballoc fit first")
    if set(names) != set(campaign.names):
        raise Failure(
            f"{directory}: damaged: options: the variants differ from those of the experiment"
        )
    sizes = cache_size_search.derive_range(campaign.experiment)
    return Fits(
        campaign=campaign,
        of=sizes,
        probes=trials,
        fitted=fit_variants(sizes, names, trials),
        ended=campaign.facts.ending,
    )


def is_fit(directory: Path) -> bool:
    """Whether these are results of ``dballoc fit``. Raises UsageError if they are not results at
    all.
    """
    results = Results.open(directory, read_only=True)
    try:
        return results.facts().kind == "fit"
    finally:
        results.close()


def list_probes(results: Results) -> list[CacheTrial]:
    """Return all trials, in the order in which they were run."""
    results.table("probe")  # for what it says of damage
    return [
        CacheTrial(
            variant=name,
            round=number,
            requested=requested,
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


def fit_variants(
    sizes: SizeRange, names: dict[str, str], trials: Sequence[CacheTrial]
) -> list[VariantFit]:
    """Return each variant's answer so far. ``names``: the variants in their order, with the cache's
    option of each.
    """
    return [
        _fit_variant(sizes, name, option, [p for p in trials if p.variant == name])
        for name, option in names.items()
    ]


def _fit_variant(
    sizes: SizeRange, name: str, option: str, probes_of_variant: Sequence[CacheTrial]
) -> VariantFit:
    progress = cache_size_search.compute_state(sizes, [p.trial for p in probes_of_variant])
    low = [p for p in probes_of_variant if p.requested == progress.low and p.outcome == "survived"]
    high = [p for p in probes_of_variant if p.requested == progress.high and p.outcome == "killed"]
    speeds = [p.tps for p in low if p.tps is not None]
    return VariantFit(
        variant=name,
        option=option,
        state=progress,
        largest=max((p.size for p in low), default=None),
        killed=max((p.size for p in high), default=None),
        peak=max((p.peak for p in low if p.peak is not None), default=None),
        last=max((p.peak for p in high if p.peak is not None), default=None),
        tps=sum(speeds) / len(speeds) if speeds else None,
        kills=sum(1 for p in probes_of_variant if p.outcome == "killed"),
        trials=len(probes_of_variant),
    )


def check_is_fit(results: Results, directory: Path) -> None:
    """Raise UsageError unless these are results of ``dballoc fit``."""
    if results.facts().kind != "fit":
        raise UsageError(f"{directory}: these are not results of dballoc fit; choose a new --out")
