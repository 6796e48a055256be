"""The figures of replays by variant, as data frames."""

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.measures import IDLE, PEAK
from dballoc.analysis.replay.replay_facts import ReplayFacts

# Below this share of the highest live bytes heap ÷ live says nothing: a program begins or ends.
_LEAST_LIVE = 0.05
# Points of a curve over the trace's time.
_POINTS = 300


def average_replays(campaign: Campaign) -> pl.DataFrame:
    """Return one row a variant, means over its good trials: ``peak``, ``idle``, ``end`` (heap),
    ``peak_live``, ``own_memory`` in bytes; ``fragmentation`` (peak heap ÷ peak live bytes);
    ``cpu`` and ``malloc`` in ns an event, ``events`` a second, ``faults`` a thousand events,
    ``waited`` seconds; ``failed`` allocations; ``n`` trials.
    """
    steps = campaign.step.filter(pl.col("kind") == "level")
    rows = (
        campaign.good.select("trial", "variant", PEAK.trial, IDLE.trial)
        .join(
            steps.select("trial", "cpu", "window_events", "tps", "minor_faults", "rss_end"),
            on="trial",
        )
        .join(campaign.replay, on="trial")
    )
    events = pl.col("window_events")
    averaged = rows.group_by("variant").agg(
        peak=pl.col(PEAK.trial).mean(),
        idle=pl.col("rss_idle").mean(),
        end=pl.col("rss_end").mean(),
        peak_live=pl.col("peak_live").mean(),
        own_memory=pl.col("own_memory").mean(),
        fragmentation=(pl.col(PEAK.trial) / pl.col("peak_live")).mean(),
        cpu=(pl.col("cpu") / events).mean() * 1e9,
        malloc=(pl.col("malloc_seconds") / events).mean() * 1e9,
        events=pl.col("tps").mean(),
        faults=(pl.col("minor_faults") / events).mean() * 1e3,
        waited=pl.col("waited").mean(),
        failed=pl.col("failed").sum(),
        n=pl.len(),
    )
    order = pl.DataFrame({"variant": campaign.names})
    return order.join(averaged, on="variant", how="inner", maintain_order="left")


def average_curves(campaign: Campaign, facts: ReplayFacts) -> pl.DataFrame:
    """Return the heap over the trace's time: ``variant``, ``t`` (s), ``heap`` (the most within the
    stretch that ends at ``t``, mean over trials), ``live`` (bytes) and ``fragmentation`` (heap ÷
    live; null where little is alive).
    """
    points = campaign.of(campaign.replay_point)
    length = max(facts.seconds, float(points["t"].max() or 0.0)) or 1.0  # type: ignore[arg-type]
    stretch = length / _POINTS
    by_trial = (
        points.with_columns(part=(pl.col("t") / stretch).floor().clip(0, _POINTS - 1))
        .group_by("variant", "trial", "part")
        .agg(heap=pl.col("heap").max(), live=pl.col("live").max())
    )
    return (
        by_trial.group_by("variant", "part")
        .agg(heap=pl.col("heap").mean(), live=pl.col("live").mean())
        .with_columns(
            t=(pl.col("part") + 1) * stretch,
            fragmentation=pl.when(pl.col("live") > _LEAST_LIVE * pl.col("live").max()).then(
                pl.col("heap") / pl.col("live")
            ),
        )
        .select("variant", "t", "heap", "live", "fragmentation")
        .sort("variant", "t")
    )


def average_latencies(campaign: Campaign) -> pl.DataFrame:
    """Return how long calls take: ``variant``, ``operation``, ``largest`` (bytes, of the size
    class), ``calls``, ``p50`` and ``p99`` in ns; means over the good trials.
    """
    return (
        campaign.of(campaign.replay_latency)
        .group_by("variant", "operation", "largest")
        .agg(pl.col("calls").mean(), pl.col("p50").mean(), pl.col("p99").mean())
        .sort("operation", "largest", "variant")
    )
