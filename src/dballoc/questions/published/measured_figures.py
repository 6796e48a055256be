"""Look up a campaign's own figures, block by block, in the measures that published tables have; and
find what became here of a collapse that a post has under many clients. Pure.

The post's baseline collapses and its other variants don't, so a collapse of ours is the post's only
if the same variants go on here: where they fall too, or the baseline falls hardly further than
they, something else than the allocator slows the server down.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from dballoc.experiment import scale
from dballoc.questions.campaign.figures import level_curves, trial_tables
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.measures import OF_LEVEL, PEAK
from dballoc.questions.published.post_figures import Level, Published, PublishedTable

# Measures of a whole trial: RSS and VSZ in bytes, VSZ as ps(1) shows it, which is what posts have
# (:mod:`dballoc.questions.compare.campaign_tables`); peak_to_pool: peak RSS ÷ the engine's cache. A
# level has :data:`dballoc.questions.compare.measures.OF_LEVEL`.
OF_TRIAL = (PEAK.name, "vsz_peak", "peak_to_pool", "growth", "vsz_growth")

# Further measures of a level: what the whole host did by query, as some posts have it, and the
# measure by operation that each is made of. An operation is a transaction, of any number of
# queries.
BY_QUERY = {
    "host_cpu_per_query": "host_cpu_per_operation",
    "context_switches_per_query": "context_switches_per_operation",
}

# One value a block.
Blocks = Mapping[int, float]

_PLACE = ("block", "variant", "workload", "threads")


class MeasuredFigures:
    """The figures of a campaign by variant and level; the baseline's two runs of a block are
    averaged.
    """

    def __init__(self, campaign: Campaign) -> None:
        self.experiment = campaign.experiment
        self._trials = _average_trials(campaign)
        self._levels = _average_levels(campaign)

    def scale_level(self, published: int) -> int:
        """Return our level that stands for a published one."""
        was = self.experiment.scaled
        return published if was is None else scale.scale_level(published, was.factor)

    def find_blocks(
        self, variant: str, measure: str, workload: str | None, threads: Level
    ) -> Blocks:
        """Return a variant's values by block; empty where there are none. ``threads``: "best" for
        the highest value of each block, None for the highest level. "largest" is not a level of its
        own: see :meth:`find_blocks_by_level`.
        """
        if workload is None:
            return _select_blocks(self._trials, variant, measure)
        rows = self._levels.filter(workload=workload)
        if threads == "best":
            best = rows.group_by("block", "variant").agg(pl.col(measure).max())
            return _select_blocks(best, variant, measure)
        wanted = max(self.experiment.threads) if threads is None else self.scale_level(int(threads))
        return _select_blocks(rows.filter(threads=wanted), variant, measure)

    def find_blocks_by_level(self, variant: str, measure: str, workload: str) -> dict[int, Blocks]:
        """Return a variant's values by our levels."""
        rows = self._levels.filter(workload=workload)
        levels = sorted(set(rows["threads"]))
        return {n: _select_blocks(rows.filter(threads=n), variant, measure) for n in levels}


def compute_log_ratios(first: Blocks, second: Blocks) -> list[float]:
    """Return ln(first ÷ second) of every block in which both are above zero."""
    both = sorted(first.keys() & second.keys())
    return [
        math.log(first[b]) - math.log(second[b]) for b in both if first[b] > 0 and second[b] > 0
    ]


def _select_blocks(rows: pl.DataFrame, variant: str, measure: str) -> Blocks:
    values = rows.filter(variant=variant).select("block", measure).drop_nulls()
    return {block: float(value) for block, value in values.iter_rows()}


def _average_trials(campaign: Campaign) -> pl.DataFrame:
    """Return means by block and variant. With a start for each level, the highest value of a
    block's starts counts.
    """
    pool = campaign.variant.select(variant="name", pool="pool_bytes")
    return (
        trial_tables.build_trial_table(campaign)
        .drop("vsz_growth")
        .rename({"peak": PEAK.name, "virtual_growth": "vsz_growth"})
        .join(pool, on="variant", how="left")
        .with_columns(peak_to_pool=pl.col(PEAK.name) / pl.col("pool"))
        .group_by("block", "variant", "role")
        .agg(pl.col(*OF_TRIAL).max())
        .group_by("block", "variant")
        .agg(_average(OF_TRIAL))
    )


def _average(measures: Sequence[str]) -> list[pl.Expr]:
    """Return the means of the baseline's two runs, as every ratio has them: geometric, but where
    one is not above zero.
    """
    return [
        pl.when((pl.col(measure) > 0).any() & (pl.col(measure) > 0).all())
        .then(pl.col(measure).cast(pl.Float64).product().pow(1 / pl.col(measure).count()))
        .otherwise(pl.col(measure).mean())
        .alias(measure)
        for measure in measures
    ]


def _average_levels(campaign: Campaign) -> pl.DataFrame:
    means = campaign.levels.group_by(*_PLACE).agg(_average(list(OF_LEVEL)))
    return _divide_by_queries(means)


def _divide_by_queries(levels: pl.DataFrame) -> pl.DataFrame:
    """Add the measures of :data:`BY_QUERY` to levels."""
    return levels.with_columns(
        (pl.col(by_operation) * pl.col("tps") / pl.col("qps")).alias(name)
        for name, by_operation in BY_QUERY.items()
    )


# If the collapse is its own, the baseline's share of its best is at most this much of every
# other's. In the posts it is an eighth.
_OF_OTHERS = 2 / 3


class CollapseOutcome(StrEnum):
    """What became of a collapse: ours collapses alone, with others that go on in the post, or not;
    or it was not measured under as many clients as it takes.
    """

    SEEN = "seen"
    SHARED = "shared"
    ABSENT = "absent"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, kw_only=True)
class LevelShare:
    """Throughput under ``threads`` clients, the most of a curve, ÷ that curve's best."""

    threads: int
    share: float


@dataclass(frozen=True, kw_only=True)
class VariantShares:
    """The shares of a variant; ``measured`` is None where it was not measured under enough
    clients; ``collapses``: whether ours does.
    """

    variant: str
    published: LevelShare
    measured: LevelShare | None
    collapses: bool


@dataclass(frozen=True, kw_only=True)
class CollapseHere:
    """A collapse of the post's baseline in a workload. ``needed``: the clients that it takes, as
    our levels are scaled; ``others``: the variants that go on in the post; ``blocks``: how many of
    ours the figures are means of, at least.
    """

    workload: str
    needed: int
    baseline: VariantShares
    others: tuple[VariantShares, ...]
    blocks: int

    @property
    def outcome(self) -> CollapseOutcome:
        """What became of it here."""
        if self.baseline.measured is None:
            return CollapseOutcome.NOT_MEASURED
        if not self.baseline.collapses:
            return CollapseOutcome.ABSENT
        most = self.baseline.measured.share / _OF_OTHERS
        is_shared = any(
            v.collapses or (v.measured is not None and v.measured.share < most) for v in self.others
        )
        return CollapseOutcome.SHARED if is_shared else CollapseOutcome.SEEN


def find_collapses_here(campaign: Campaign, published: Published) -> list[CollapseHere]:
    """Return every collapse of the baseline in the post's tables, in their order."""
    measured = MeasuredFigures(campaign)
    return [
        collapse
        for table in published.tables
        if table.collapse and (collapse := _find_in_table(measured, table)) is not None
    ]


@dataclass(frozen=True, kw_only=True)
class _Curve:
    """A column of the post: the level at which its throughput collapses (None: nowhere), and its
    place in our results.
    """

    published: dict[int, float]
    begins: int | None
    variant: str
    workload: str
    measure: str


def _find_in_table(measured: MeasuredFigures, table: PublishedTable) -> CollapseHere | None:
    curves = {column: _read_curve(table, column) for column in table.columns}
    baseline = curves.get(table.baseline or "")
    if baseline is None or baseline.begins is None:
        return None
    needed = measured.scale_level(baseline.begins)
    others = [curve for curve in curves.values() if curve and curve.begins is None]
    levels = measured.find_blocks_by_level(baseline.variant, baseline.measure, baseline.workload)
    return CollapseHere(
        workload=baseline.workload,
        needed=needed,
        baseline=_compare_curve(measured, baseline, needed),
        others=tuple(_compare_curve(measured, curve, needed) for curve in others),
        blocks=min((len(blocks) for blocks in levels.values()), default=0),
    )


def _read_curve(table: PublishedTable, column: str) -> _Curve | None:
    """Return a column's curve; None for one without levels, or that no variant stands for."""
    cells = [c for c in table.cells if c.column == column]
    published = {c.threads: c.value for c in cells if isinstance(c.threads, int)}
    first = cells[0]
    if not published or first.variant is None or first.workload is None:
        return None
    return _Curve(
        published=published,
        begins=level_curves.find_peak_and_collapse(published).collapse_threads,
        variant=first.variant,
        workload=first.workload,
        measure=first.measure,
    )


def _compare_curve(measured: MeasuredFigures, curve: _Curve, needed: int) -> VariantShares:
    levels = measured.find_blocks_by_level(curve.variant, curve.measure, curve.workload)
    means = {n: statistics.fmean(blocks.values()) for n, blocks in levels.items() if blocks}
    reached = bool(means) and max(means) >= needed
    return VariantShares(
        variant=curve.variant,
        published=_compute_share(curve.published),
        measured=_compute_share(means) if reached else None,
        collapses=reached and level_curves.find_collapse(means) is not None,
    )


def _compute_share(throughput: dict[int, float]) -> LevelShare:
    top = max(throughput)
    best = max(throughput.values())
    return LevelShare(threads=top, share=throughput[top] / best if best else 0.0)
