"""Compare variants: from a campaign's rows to one logarithm a block, and from these to a ratio."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from dballoc.experiment.designs import Design
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.measures import IDLE, Metric
from dballoc.questions.statistics.duet_estimates import Estimate, Piece, compute_block_log
from dballoc.questions.statistics.ratio_interval import Ratio, compute_ratio

_BLOCK_LOGS: dict[str, pl.DataType | type[pl.DataType]] = {
    "block": pl.Int64,
    "variant": pl.String,
    "role": pl.String,
    "workload": pl.String,
    "log": pl.Float64,
}


# A turn that lasted so many times as long as planned ended late, as dballoc got no CPU to end it.
# Its round counts for no server: in a longer turn a server does more in a second.
LATE = 1.5


def read_declared_estimate(campaign: Campaign) -> Estimate:
    """Read which estimate the campaign declared before its first block."""
    return campaign.facts.duet.estimate


def compute_block_logs(
    campaign: Campaign,
    estimate: Estimate | None = None,
    measure: str = "cpu",
    workload: str | None = None,
) -> pl.DataFrame:
    """Return one row a duet: block, variant, role ("A2" for the baseline beside itself), workload,
    ``log`` (ln partner ÷ baseline). ``estimate``: another than the declared one; ``measure``: "cpu"
    per transaction, or "seconds" per transaction; ``workload``: only this one. Only duets whose two
    servers both ended well count, in the attempt that counts.
    """
    estimate = estimate or read_declared_estimate(campaign)
    block_rows = []
    for (block, _, name), duet in collect_pieces(campaign, measure, workload).items():
        value = compute_block_log(estimate, duet.baseline, duet.partner)
        if value is not None:
            block_rows.append((block, duet.variant, duet.role, name, value))
    return pl.DataFrame(block_rows, schema=_BLOCK_LOGS, orient="row").sort(
        "workload", "block", "variant", "role"
    )


def sum_turns(campaign: Campaign) -> pl.DataFrame:
    """Return one row a block and server that took turns: block, position, variant, role, workload,
    ``rounds``, ``seconds``, ``transactions``. Only servers that ended well count, in the attempt
    that counts, and only rounds without a late turn (:data:`LATE`).
    """
    good = campaign.rotation.filter("counted", outcome="ok")
    is_late = pl.col("seconds") > LATE * campaign.facts.turns.seconds
    of_round = ["block", "position", "workload", "round"]
    return (
        campaign.turn.join(good.select("trial", "block", "position", "variant", "role"), on="trial")
        .filter(~is_late.any().over(of_round))
        .group_by("block", "position", "workload", "variant", "role")
        .agg(pl.len().alias("rounds"), pl.col("seconds", "transactions").sum())
    )


def compute_turn_logs(campaign: Campaign, workload: str | None = None) -> pl.DataFrame:
    """Return one row a block and server that took turns: block, variant, role ("A2" for the
    baseline's second), workload, ``log``: ln of its throughput ÷ the baseline's, which is the mean
    of the baseline's servers in its rotation, of A2 that of A1. ``workload``: only this one.
    """
    sums = sum_turns(campaign).filter(pl.col("transactions") > 0)
    if workload is not None:
        sums = sums.filter(workload=workload)
    rates = sums.with_columns(log=(pl.col("transactions") / pl.col("seconds")).log())
    block_rows = []
    for (block, _, name), rotation in rates.group_by("block", "position", "workload"):
        logs = {(v, role): log for v, role, log in rotation.select("variant", "role", "log").rows()}
        of_baseline = {role: log for (_, role), log in logs.items() if role != "V"}
        if "A1" not in of_baseline:
            continue
        mean = math.fsum(of_baseline.values()) / len(of_baseline)
        block_rows += [
            (block, v, role, name, log - (mean if role == "V" else of_baseline["A1"]))
            for (v, role), log in logs.items()
            if role != "A1"
        ]
    return pl.DataFrame(block_rows, schema=_BLOCK_LOGS, orient="row").sort(
        "workload", "block", "variant", "role"
    )


@dataclass
class DuetPieces:
    """The pieces of both servers of a duet; ``variant`` and ``role`` are the partner's."""

    baseline: list[Piece] = field(default_factory=list)
    partner: list[Piece] = field(default_factory=list)
    variant: str = ""
    role: str = ""


def collect_pieces(
    campaign: Campaign, measure: str = "cpu", workload: str | None = None
) -> dict[tuple[int, int, str], DuetPieces]:
    """Return the pieces by (block, position, workload)."""
    slices = campaign.slice
    if workload is not None:
        slices = slices.filter(workload=workload)
    good = campaign.duet.filter("counted", outcome="ok")
    rows = slices.join(
        good.select("trial", "block", "position", "variant", "role"), on="trial", how="inner"
    )
    of_duet = ["block", "position", "workload", "variant", "role"]
    of_piece = ["slice", "half", measure, "events"]
    duets: dict[tuple[int, int, str], DuetPieces] = defaultdict(DuetPieces)
    for block, position, name, variant, role, *piece in rows.select(of_duet + of_piece).iter_rows():
        duet = duets[block, position, name]
        if role == "A1":
            duet.baseline.append(Piece(*piece))
        else:
            duet.partner.append(Piece(*piece))
            duet.variant, duet.role = variant, role
    return duets


def compute_absolute_figures(campaign: Campaign) -> pl.DataFrame:
    """Return one row a workload and variant: ``cpu`` microseconds per transaction and ``tps``,
    means over all its slices that count; for the baseline over all duets. ``cpu`` is null where no
    transaction ended in them.
    """
    good = campaign.duet.filter("counted", outcome="ok")
    return (
        campaign.slice.join(good.select("trial", "variant"), on="trial", how="inner")
        .group_by("workload", "variant")
        .agg(
            cpu=pl.when(pl.col("events").sum() > 0).then(
                pl.col("cpu").sum() / pl.col("events").sum() * 1e6
            ),
            tps=pl.col("events").sum() / pl.col("seconds").sum(),
        )
        .sort("workload", "variant")
    )


@dataclass(frozen=True, kw_only=True)
class Values:
    """What a campaign measured of one measure: ``logs`` of the values by variant, and by block and
    role. The other variants are relative to the mean of the baseline's two ``roles``.

    A duet's values are relative to the baseline that was loaded at the same time, whose own
    logarithm is 0.
    """

    logs: Mapping[str, Mapping[tuple[int, str], float]]
    baseline: str
    roles: tuple[str, str]

    def average_blocks(self, variant: str) -> dict[int, float]:
        """Return one logarithm a block, the mean of the baseline's runs that are there."""
        # Of several numbers of CPUs each has a baseline, whose roles are these, too.
        roles = {*self.roles, "V"}
        blocks: dict[int, list[float]] = {}
        for (block, role), log in sorted(self.logs.get(variant, {}).items()):
            if role in roles:
                blocks.setdefault(block, []).append(log)
        return {block: math.fsum(logs) / len(logs) for block, logs in blocks.items()}

    def list_ratios(self, variant: str, baseline: str) -> list[float]:
        """Return one ln(variant ÷ baseline) a block, as :meth:`map_ratios` has them."""
        return list(self.map_ratios(variant, baseline).values())

    def map_ratios(self, variant: str, baseline: str) -> dict[int, float]:
        """Return ln(variant ÷ baseline) by block. A block without one of the runs of the campaign's
        baseline is left out where that is what the variant is compared with; of the baseline and
        itself they are ln(A2 ÷ A1), the A/A floor.
        """
        if baseline != self.baseline:
            return subtract_blocks(self.average_blocks(variant), self.average_blocks(baseline))
        compared, role = self.logs.get(variant, {}), "V" if variant != baseline else "A2"
        of_baseline = self.logs.get(baseline, {})
        first, second = self.roles if variant != baseline else ("A1", "A1")
        return {
            block: compared[block, role]
            - (of_baseline[block, first] + of_baseline[block, second]) / 2
            for block in sorted({block for block, _ in compared})
            if (block, role) in compared
            and (block, first) in of_baseline
            and (block, second) in of_baseline
        }


def compare(
    values: Values,
    variant: str,
    baseline: str,
) -> Ratio | None:
    """Return variant ÷ baseline with a plain interval; None where no block has both."""
    logs = values.list_ratios(variant, baseline)
    return compute_ratio(logs) if logs else None


def subtract_blocks(first: Mapping[int, float], second: Mapping[int, float]) -> dict[int, float]:
    """Return the differences of two variants' logarithms by block, where both have one."""
    return {block: first[block] - second[block] for block in sorted(first.keys() & second.keys())}


def read_values(campaign: Campaign, metric: Metric) -> Values:
    """Read a campaign's values of a metric. With a server start for each level, the highest value
    of the starts and the idle RSS after the highest level count; with one for each workload, the
    highest of both.
    """
    measure = metric.measure
    if metric.design is Design.TURNS:
        return collect_paired_values(campaign, compute_turn_logs(campaign, metric.workload))
    if metric.design is Design.DUET:
        rows = compute_block_logs(campaign, workload=metric.workload)
        return collect_paired_values(campaign, rows)
    if metric.workload is None:
        rows = campaign.good
        if measure.name == IDLE.name and campaign.experiment.levels == "fresh":
            rows = rows.filter(level=max(campaign.experiment.threads))
        return collect_values(campaign, rows, measure.trial)
    rows = campaign.levels.filter(workload=metric.workload, threads=metric.threads)
    return collect_values(campaign, rows, measure.levels)


def collect_values(campaign: Campaign, rows: pl.DataFrame, column: str) -> Values:
    """Collect values from rows with block, variant and role. Only what is above zero has a
    logarithm.
    """
    best = (
        rows.filter(pl.col(column) > 0)
        .group_by("variant", "block", "role")
        .agg(pl.col(column).cast(pl.Float64).max())
    )
    logs: dict[str, dict[tuple[int, str], float]] = {}
    for variant, block, role, value in best.iter_rows():
        logs.setdefault(variant, {})[block, role] = math.log(value)
    return Values(logs=logs, baseline=campaign.experiment.baseline, roles=campaign.baseline_roles)


def collect_paired_values(campaign: Campaign, rows: pl.DataFrame) -> Values:
    """Collect values from the rows of :func:`compute_block_logs` or :func:`compute_turn_logs`."""
    baseline = campaign.experiment.baseline
    logs: dict[str, dict[tuple[int, str], float]] = {
        baseline: {(block, "A1"): 0.0 for block in rows["block"]}
    }
    for variant, block, role, log in rows.select("variant", "block", "role", "log").iter_rows():
        logs.setdefault(variant, {})[block, role] = log
    return Values(logs=logs, baseline=baseline, roles=("A1", "A1"))
