"""Find levels whose throughput goes back and forth between two speeds, because client and server
threads that wait for each other are now on one CPU, now on two.

A thread that wakes another on its own CPU only marks it as runnable. To wake one on another CPU
takes an interrupt there (a rescheduling interrupt), which costs microseconds, and in a virtual
machine tens of them.
"""

from dataclasses import dataclass

import polars as pl

from dballoc.questions.compare.campaign_tables import Campaign

# A query has two wake-ups, the server's and the client's. From this many interrupts a query on, a
# second counts as one of wake-ups across CPUs.
ACROSS = 0.05
# Of the counted seconds, how many each speed must have, and what the speeds must differ by.
FEWEST_SECONDS = 3
LEAST_SHARE = 0.05
LEAST_RATIO = 1.1

# Seconds: the last report of a client may be of a few milliseconds.
_SHORTEST = 0.5
_LEVEL = ["workload", "threads"]


@dataclass(frozen=True, kw_only=True)
class TwoSpeeds:
    """A level's speeds, over all its seconds in all trials: ``near`` and ``across``, median
    transactions a second where threads wake each other on one CPU, and across CPUs;
    ``share_across``: of the seconds, 0 to 1; ``interrupts``: median rescheduling interrupts a
    transaction in those.
    """

    workload: str
    threads: int
    near: float
    across: float
    share_across: float
    interrupts: float


def find_two_speeds(campaign: Campaign) -> list[TwoSpeeds]:
    """Return the levels with two speeds, in the experiment's order. Results that have no count of
    rescheduling interrupts have none.

    Variants differ in speed, so each second is relative to the median of its variant at that level.
    """
    seconds = _join_interrupts(campaign)
    if not seconds.height:
        return []
    place = ["variant", *_LEVEL]
    seconds = seconds.with_columns(
        across=pl.col("reschedules") > ACROSS * pl.col("queries"),
        tps=pl.col("events") / pl.col("seconds"),
        each=pl.col("reschedules") / pl.col("events"),
    ).with_columns(relative=pl.col("tps") / pl.col("tps").median().over(place))
    speeds = seconds.group_by(_LEVEL, maintain_order=True).agg(
        median=pl.col("tps").median(),
        near=pl.col("relative").filter(~pl.col("across")).median(),
        far=pl.col("relative").filter(pl.col("across")).median(),
        share=pl.col("across").mean(),
        interrupts=pl.col("each").filter(pl.col("across")).median(),
        fewest=pl.min_horizontal(pl.col("across").sum(), (~pl.col("across")).sum()),
    )
    return [
        TwoSpeeds(
            workload=row["workload"],
            threads=row["threads"],
            near=row["near"] * row["median"],
            across=row["far"] * row["median"],
            share_across=row["share"],
            interrupts=row["interrupts"],
        )
        for row in speeds.iter_rows(named=True)
        if row["fewest"] >= FEWEST_SECONDS
        and LEAST_SHARE <= row["share"] <= 1 - LEAST_SHARE
        and row["near"] >= LEAST_RATIO * row["far"]
    ]


def _join_interrupts(campaign: Campaign) -> pl.DataFrame:
    """Return the clients' reports of all levels, a second each, with the host's rescheduling
    interrupts in that second, from the samples nearest to its ends.
    """
    levels = campaign.step.filter(kind="level").select("trial", "step", *_LEVEL)
    reports = (
        campaign.of(campaign.interval)
        .drop("threads")
        .join(levels, on=["trial", "step"], maintain_order="left")
        .filter((pl.col("seconds") > _SHORTEST) & (pl.col("events") > 0))
    )
    samples = campaign.host_sample.filter(pl.col("reschedules").is_not_null()).sort("t")
    for name, moment in (("first", pl.col("t") - pl.col("seconds")), ("last", pl.col("t"))):
        nearest = samples.select(
            "trial", "step", moment="t", **{name: "reschedules", f"{name}_t": "t"}
        )
        reports = (
            reports.with_columns(moment=moment)
            .sort("moment")
            .join_asof(
                nearest,
                on="moment",
                by=["trial", "step"],
                strategy="nearest",
                check_sortedness=False,
            )
        )
    gap = pl.col("last_t") - pl.col("first_t")
    return (
        reports.filter(gap > _SHORTEST)
        .with_columns(
            reschedules=(pl.col("last") - pl.col("first")) * pl.col("seconds") / gap,
        )
        .sort("trial", "t")
    )
