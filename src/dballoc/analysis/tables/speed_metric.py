"""Define speed: one metric for each workload, and which direction is faster. Pure."""

from collections.abc import Sequence

from dballoc.analysis.decisions.verdict import Verdict
from dballoc.analysis.measures import CPU, Metric
from dballoc.analysis.statistics.ratio_interval import Ratio
from dballoc.analysis.tables.baseline_comparison import Comparison, Comparisons


def choose_speed_metrics(primary: Sequence[Metric]) -> list[Metric]:
    """Return one metric a workload: the server's CPU per transaction where it is a primary metric,
    because it has less noise; throughput elsewhere.
    """
    chosen: dict[str, Metric] = {}
    for metric in primary:
        if metric.workload is not None and (
            metric.workload not in chosen or metric.measure.name == CPU.name
        ):
            chosen[metric.workload] = metric
    return list(chosen.values())


def select_speed_comparisons(comparisons: Comparisons, variant: str) -> list[Comparison]:
    """Return a variant's comparisons in speed, one a workload. A variant may have been left out of
    the duet.
    """
    of_workloads = [
        c for c in comparisons.family if c.variant == variant and c.metric.workload is not None
    ]
    # The dictionary keeps the last comparison of each workload: CPU per transaction is sorted after
    # throughput, and both after comparisons without figures.
    order = sorted(
        of_workloads, key=lambda c: (c.ratio is not None, c.metric.measure.name == CPU.name)
    )
    return list({c.metric.workload: c for c in order}.values())


def list_pictured_metrics(comparisons: Comparisons) -> list[Metric]:
    """Return the metrics for a chart of all variants: one a workload, and also throughput where a
    variant has no CPU per transaction.
    """
    used = dict.fromkeys(choose_speed_metrics(comparisons.metrics))
    used |= dict.fromkeys(
        c.metric
        for v in dict.fromkeys(c.variant for c in comparisons.family)
        for c in select_speed_comparisons(comparisons, v)
        if c.ratio
    )
    return list(used)


def compute_speed(comparison: Comparison) -> Ratio | None:
    """Return a variant's speed ÷ the baseline's, above 1 if it is faster: the ratio of throughput,
    or the inverse ratio of cost. None without a ratio.
    """
    ratio = comparison.ratio
    if ratio is None or comparison.metric.better == "higher":
        return ratio
    return ratio.invert()


def is_shown_faster(comparison: Comparison) -> bool:
    """Whether the whole interval lies on the faster side of 1."""
    return comparison.verdict is (
        Verdict.HIGHER if comparison.metric.better == "higher" else Verdict.LOWER
    )


def is_shown_slower(comparison: Comparison, margin: float = 0.0) -> bool:
    """Whether the whole interval lies more than ``margin`` on the slower side of 1."""
    ratio = comparison.ratio
    if ratio is None or ratio.interval is None:
        return False
    low, high = ratio.interval
    return high < 1 - margin if comparison.metric.better == "higher" else low > 1 + margin
