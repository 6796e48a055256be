"""Look up a campaign's own figures, block by block, in the measures that published tables have."""

import math
from collections.abc import Mapping, Sequence

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.measures import OF_LEVEL, PEAK
from dballoc.analysis.published.published_figures import Level
from dballoc.analysis.tables import trial_tables
from dballoc.experiment import scale

# Measures of a whole trial: RSS and VSZ in bytes, VSZ as ps(1) shows it, which is what posts have
# (:mod:`dballoc.analysis.campaign_tables`); peak_to_pool: peak RSS ÷ the engine's cache. A
# level has :data:`dballoc.analysis.measures.OF_LEVEL`.
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
