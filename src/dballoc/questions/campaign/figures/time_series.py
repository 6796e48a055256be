"""Build figures over time, with the steps of all trials on one clock so that the levels' borders
coincide.
"""

from dataclasses import dataclass

import polars as pl

from dballoc.questions.compare.campaign_tables import Campaign, add_virtual_size

# A line needs no more points than this; longer trials are averaged over wider bins.
POINTS = 300

# Samples closer than this say nothing about CPU: ticks are 10 ms.
_SHORTEST_GAP = 0.5

_STEP = ["start", "step"]
_PLACE = ["trial", "variant", "start", "step"]


@dataclass(frozen=True)
class TimeSeries:
    """``steps``: one row a step of the nominal trial: start, step, kind, workload, threads,
    ``begin`` and ``end`` in seconds. Each step is as long as its median over all trials; the starts
    of fresh levels follow one another.

    ``series``: one row a variant, measure and bin, means over trials: ``second`` on the clock of
    ``steps``, ``value``. Measures: ``tps`` and ``qps``; ``user`` in % of one CPU; ``host_user`` in
    % of all CPUs of the host; in bytes ``rss``, ``vsz``
    (:func:`dballoc.questions.compare.campaign_tables.add_virtual_size`) and ``usable`` (VSZ without
    any reserved address space).
    """

    steps: pl.DataFrame
    series: pl.DataFrame


def build_time_series(campaign: Campaign) -> TimeSeries:
    """Build the series of all good trials. A bin that fewer than half of a variant's trials reached
    is left out.
    """
    all_steps = _join_trials(campaign, campaign.step)
    steps = _lay_out_steps(all_steps)
    length = steps["end"].max() if steps.height else 0.0
    width = max(1.0, float(length or 0.0) / POINTS)  # type: ignore[arg-type]
    points = pl.concat(
        [
            _collect_throughput(campaign),
            _collect_server_samples(campaign),
            _collect_host_samples(campaign),
        ]
    )
    begun = all_steps.select("trial", "step", began="t")
    good = _number_starts(campaign, campaign.good, "level", "workload").select("variant", "start")
    trials = good.group_by("variant", "start").agg(trials=pl.len())
    series = (
        points.join(begun, on=["trial", "step"], how="inner")
        .join(steps.select(*_STEP, "begin", "end"), on=_STEP, how="inner")
        .with_columns(bin=((pl.col("t") - pl.col("began")).clip(0) / width).floor())
        .group_by("variant", "measure", *_STEP, "bin")
        .agg(
            pl.col("value").mean(),
            pl.col("begin", "end").first(),
            reached=pl.col("trial").n_unique(),
        )
        .join(trials, on=["variant", "start"])
        .filter(pl.col("reached") * 2 >= pl.col("trials"))
        # A trial may be slower than the median one; what is beyond the step's end there has no
        # place on the clock.
        .filter(pl.col("begin") + pl.col("bin") * width < pl.col("end"))
        .with_columns(
            second=pl.min_horizontal(pl.col("begin") + (pl.col("bin") + 0.5) * width, pl.col("end"))
        )
        .select("variant", "measure", *_STEP, "second", "value")
        .sort("measure", "variant", "second")
    )
    return TimeSeries(steps, series)


def _join_trials(campaign: Campaign, table: pl.DataFrame) -> pl.DataFrame:
    return _number_starts(campaign, campaign.of(table), "trial_level", "trial_workload")


def _number_starts(
    campaign: Campaign, rows: pl.DataFrame, level: str, workload: str
) -> pl.DataFrame:
    """Add ``start``: which of the variant's starts in a block the trial is, from 0. Only fresh
    levels or a fresh sequence give more than one.
    """
    schema = {level: pl.Int64, workload: pl.String}
    places = pl.DataFrame(campaign.starts, schema=schema, orient="row").with_row_index("start")
    places = places.with_columns(pl.col("start").cast(pl.Int64))
    return rows.join(
        places, on=[level, workload], how="inner", nulls_equal=True, maintain_order="left"
    )


def _lay_out_steps(all_steps: pl.DataFrame) -> pl.DataFrame:
    return (
        all_steps.group_by(*_STEP)
        .agg(pl.col("kind", "workload", "threads").first(), seconds=pl.col("seconds").median())
        .sort(*_STEP)
        .with_columns(end=pl.col("seconds").cum_sum())
        .with_columns(begin=pl.col("end") - pl.col("seconds"))
        .drop("seconds")
    )


def _collect_throughput(campaign: Campaign) -> pl.DataFrame:
    # sysbench may end with a report of a few milliseconds, whose rate says nothing.
    intervals = _join_trials(campaign, campaign.interval).filter(pl.col("seconds") > _SHORTEST_GAP)
    return pl.concat(
        intervals.select(
            *_PLACE,
            measure=pl.lit(measure),
            t=pl.col("t") - pl.col("seconds") / 2,
            value=pl.col(counted) / pl.col("seconds"),
        )
        for measure, counted in (("tps", "events"), ("qps", "queries"))
    )


def _collect_server_samples(campaign: Campaign) -> pl.DataFrame:
    samples = add_virtual_size(_join_trials(campaign, campaign.sample)).sort("trial", "t")
    user = _find_rates(samples, "user", used=pl.col("cpu_user"))
    sizes = {
        "rss": pl.col("rss"),
        "vsz": pl.col("virtual"),
        "usable": pl.col("vsz") - pl.col("reserved"),
    }
    return pl.concat(
        [
            user,
            *(
                samples.select(*_PLACE, measure=pl.lit(measure), t="t", value=size.cast(pl.Float64))
                for measure, size in sizes.items()
            ),
        ]
    )


def _collect_host_samples(campaign: Campaign) -> pl.DataFrame:
    samples = _join_trials(campaign, campaign.host_sample).sort("trial", "t")
    times = ("user", "system", "idle", "iowait", "steal")
    return _find_rates(samples, "host_user", used=pl.col("user"), of=pl.sum_horizontal(*times))


def _find_rates(
    samples: pl.DataFrame, measure: str, used: pl.Expr, of: pl.Expr | None = None
) -> pl.DataFrame:
    """Return how fast a counter goes from sample to sample of a step, in %: of the seconds between
    them, or of the counter ``of``.
    """
    within = ["trial", "step"]
    between = samples.with_columns(
        gap=pl.col("t").diff().over(within),
        used=used.diff().over(within),
        of=(pl.col("t") if of is None else of).diff().over(within),
    )
    return between.filter((pl.col("gap") > _SHORTEST_GAP) & (pl.col("of") > 0)).select(
        *_PLACE,
        measure=pl.lit(measure),
        t=pl.col("t") - pl.col("gap") / 2,
        value=pl.col("used") / pl.col("of") * 100,
    )
