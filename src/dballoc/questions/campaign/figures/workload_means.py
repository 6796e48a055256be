"""Sum up the ratios of many workloads in one figure a variant, as posts do in their headlines, and
find the workloads whose ratio lies far from the others'. Descriptive.

The mean is the plain one of the workloads' ratios at the highest level, so a workload counts as
much as any other. Two intervals can stand beside it, and they answer different questions. That over
blocks takes the workloads as they are, one mean a block: how far the mean would change if the same
campaign ran again. That over workloads takes them as a sample, one ratio each: how far the mean
would change with other workloads like these, which is how far the workloads disagree.

An outlier lies beyond the outer fences of Tukey, Exploratory Data Analysis, 1977: more than three
times the range of the middle half away from that half. Ratios are compared as logarithms, so that
it does not matter which of two variants is the baseline.
"""

import math
import statistics
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from dballoc.experiment.model import LOAD
from dballoc.ground.distributions import compute_t_quantile
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.measures import MEASURES, Measure, Metric
from dballoc.questions.compare.values import Values, read_values
from dballoc.questions.statistics.ratio_interval import (
    DESCRIPTIVE_CONFIDENCE,
    Interval,
    Ratio,
    compute_ratio,
)

# Tukey's outer fences; his inner ones, at 1.5, mark one value of a hundred where nothing is odd.
FENCE = 3.0

# The middle half is taken to be at least this wide: published ratios are rounded to it, and half of
# them may be the same.
_LEAST_RANGE = 0.01


@dataclass(frozen=True, kw_only=True)
class WorkloadRatios:
    """A variant's ratios to the baseline by workload: of ``qps``, and of the server's CPU (``cpu``)
    and context ``switches`` by operation, as far as they are known. ``mean``: over all of ``qps``,
    with its interval over blocks; without one for figures of one run.
    """

    qps: Mapping[str, float]
    mean: Ratio
    cpu: Mapping[str, float] = field(default_factory=dict)
    switches: Mapping[str, float] = field(default_factory=dict)

    @property
    def over_workloads(self) -> Interval | None:
        """The interval of the mean over workloads; None below two."""
        return compute_interval_over_workloads(self.qps.values())

    @property
    def outliers(self) -> list[str]:
        """The workloads whose ratio of QPS is an outlier."""
        return find_outliers(self.qps)


def compute_interval_over_workloads(ratios: Collection[float]) -> Interval | None:
    """Return Student's t interval of the plain mean of ratios, one a workload; None below two."""
    if len(ratios) < 2:
        return None
    half = (
        compute_t_quantile(len(ratios) - 1, (1 + DESCRIPTIVE_CONFIDENCE) / 2)
        * statistics.stdev(ratios)
        / math.sqrt(len(ratios))
    )
    mean = statistics.fmean(ratios)
    return Interval(max(0.0, mean - half), mean + half)


def find_outliers(ratios: Mapping[str, float]) -> list[str]:
    """Return the names of the ratios beyond the outer fences, the furthest from the median first.
    Quartiles are interpolated linearly. Ratios are above zero; fewer than four have no middle half.
    """
    if len(ratios) < 4:
        return []
    logs = {name: math.log(ratio) for name, ratio in ratios.items()}
    first, median, third = statistics.quantiles(logs.values(), n=4, method="inclusive")
    reach = FENCE * max(third - first, _LEAST_RANGE)
    distances = {
        name: abs(log - median)
        for name, log in logs.items()
        if not first - reach <= log <= third + reach
    }
    return sorted(distances, key=lambda name: distances[name], reverse=True)


def compute_workload_ratios(campaign: Campaign) -> dict[str, WorkloadRatios]:
    """Return every variant's ratios at the highest level, the baseline's second run against its
    first included. A workload counts if it was measured in every block of the variant; what fills
    the tables is none.
    """
    workloads = [w for w in campaign.experiment.workloads if w != LOAD]
    qps = {w: _read_throughput(campaign, w) for w in workloads}
    cpu, switches = (
        {w: _read_level(campaign, MEASURES[name], w) for w in workloads}
        for name in ("cpu", "switches_per_op")
    )
    summed = {}
    for variant in campaign.names:
        logs = _map_logs(campaign, variant, qps)
        if not logs:
            continue
        blocks = next(iter(logs.values())).keys()
        means = [statistics.fmean(math.exp(logs[w][block]) for w in logs) for block in blocks]
        summed[variant] = WorkloadRatios(
            qps=_average_blocks(logs),
            mean=compute_ratio([math.log(mean) for mean in means]),
            cpu=_average_blocks(_map_logs(campaign, variant, cpu)),
            switches=_average_blocks(_map_logs(campaign, variant, switches)),
        )
    return summed


def _read_level(campaign: Campaign, measure: Measure, workload: str) -> Values:
    highest = max(campaign.experiment.threads)
    return read_values(campaign, Metric(measure=measure, workload=workload, threads=highest))


def _read_throughput(campaign: Campaign, workload: str) -> Values:
    """Read queries per second; transactions where the workload has no statements to count."""
    queries = _read_level(campaign, MEASURES["qps"], workload)
    return queries if queries.logs else _read_level(campaign, MEASURES["tps"], workload)


def _map_logs(
    campaign: Campaign, variant: str, values: Mapping[str, Values]
) -> dict[str, dict[int, float]]:
    """Return ln(variant ÷ baseline) by workload and block, of the workloads with all blocks."""
    baseline = campaign.experiment.baseline
    logs = {w: of_workload.map_ratios(variant, baseline) for w, of_workload in values.items()}
    blocks = {block for by_block in logs.values() for block in by_block}
    return {w: by_block for w, by_block in logs.items() if by_block and by_block.keys() == blocks}


def _average_blocks(logs: Mapping[str, Mapping[int, float]]) -> dict[str, float]:
    return {w: math.exp(statistics.fmean(blocks.values())) for w, blocks in logs.items()}
