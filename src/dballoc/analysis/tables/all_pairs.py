"""Compare any two variants with each other, not only with the baseline. Descriptive, outside the
declared family.
"""

from itertools import combinations

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.measures import CPU, PEAK, THROUGHPUT, Metric
from dballoc.analysis.statistics.ratio_interval import compute_ratio
from dballoc.analysis.tables.level_curves import CONFIDENCE
from dballoc.analysis.tables.values import read_values, subtract_blocks
from dballoc.experiment.designs import Design

_SCHEMA = {
    "first": pl.String,
    "second": pl.String,
    "measure": pl.String,
    "workload": pl.String,
    "ratio": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "n": pl.Int64,
}


def compare_all_pairs(campaign: Campaign) -> pl.DataFrame:
    """Return one row a pair of variants and measure: ``first`` ÷ ``second`` as ``ratio`` with
    ``low``, ``high`` (95 %; null below two blocks) and ``n`` blocks. The solo design has peak RSS
    (workload null) and throughput at the highest level of each ``workload``, with the baseline's
    two runs of a block averaged first. The duet has CPU per transaction, where two variants are
    compared through the baseline that ran beside each. Replays have peak heap and CPU per event.
    """
    rows = []
    for metric in _list_metrics(campaign):
        values = read_values(campaign, metric)
        for first, second in combinations(campaign.names, 2):
            logs = subtract_blocks(values.average_blocks(first), values.average_blocks(second))
            if logs:
                r = compute_ratio(logs, CONFIDENCE)
                place = (first, second, metric.measure.name, metric.workload)
                rows.append((*place, *r.figures, r.blocks))
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _list_metrics(campaign: Campaign) -> list[Metric]:
    workloads, top = campaign.experiment.workloads, max(campaign.experiment.threads)
    speed = CPU if campaign.is_replay else THROUGHPUT
    metrics = []
    if Design.SOLO in campaign.designs:
        metrics = [Metric(measure=PEAK)]
        metrics += [Metric(measure=speed, workload=w, threads=top) for w in workloads]
    if Design.DUET in campaign.designs:
        metrics += [Metric(measure=CPU, workload=w, design=Design.DUET) for w in workloads]
    return metrics
