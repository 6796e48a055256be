"""The report's section on replicas: what they applied, and how far behind their primaries."""

import polars as pl

from dballoc.document.model import Column, Section, tabulate
from dballoc.experiment.trial_steps import KEEPS_UP
from dballoc.ground.numbers import count, number
from dballoc.questions.campaign.figures.trial_tables import build_replica_table
from dballoc.questions.compare.campaign_tables import Campaign

_APART = "Primary and clients have CPUs of their own, {client}."
_TOGETHER = (
    "Replica, primary and clients share the CPUs, so a primary that writes more takes CPU from the "
    "replica; [cpu] server and client keep them apart."
)


def make_replica_section(campaign: Campaign) -> Section | None:
    """Return what replicas applied, level by level; None for a campaign without replicas."""
    rows = build_replica_table(campaign)
    if not rows.height:
        return None
    e = campaign.experiment
    text = [
        "The server that is measured is a replica. Its throughput is what it applied while the "
        "load ran on its primary, a server of the same build with its own malloc. After each load "
        f"the replica had {e.replica.catch_up:g} s to apply the rest.",
        _APART.format(client=e.cpu.client_set) if e.cpu.server and e.cpu.client_set else _TOGETHER,
        *describe_late_replicas(campaign),
    ]
    table = tabulate("Replicas", _COLUMNS, rows.iter_rows(named=True), caption=_CAPTION, heads=3)
    return Section(key="replica", title="Replica", text=text, tables=[table])


def describe_late_replicas(campaign: Campaign) -> list[str]:
    """Return a sentence on each variant whose replica did not keep up."""
    late = build_replica_table(campaign).filter(pl.col("late") > 0)
    return [
        f"{row['variant']} did not keep up with its primary in {row['late']} of {row['trials']} "
        f"runs of {row['workload']} at {count(row['threads'], 'client')}: up to "
        f"{number(row['lag'])} s behind; its throughput there is what it applied."
        for row in late.iter_rows(named=True)
    ]


_COLUMNS = (
    Column("workload"),
    Column("threads"),
    Column("variant"),
    Column("primary, transactions/s", "primary_tps", number),
    Column("applied, transactions/s", "tps", number),
    Column("behind at the end", "behind", "{:,}".format),
    Column("behind, s", "lag", number),
    Column(
        "caught up after, s",
        lambda row: (
            f"not after {row['waited']:.0f}" if row["left_behind"] else number(row["waited"])
        ),
    ),
    Column("late", lambda row: f"{row['late']} of {row['trials']}"),
)
_CAPTION = (
    "Means of throughput; of the rest the largest of all trials. Behind, in seconds: how long "
    "before the load's end the primary had been where the replica was then. Late: more than "
    f"{KEEPS_UP:g} s behind."
)
