"""Look up the figures that ``--prefer``'s conditions are about."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions.fail_condition import Condition
from dballoc.analysis.decisions.noninferiority import Standing
from dballoc.analysis.decisions.preference import Preference
from dballoc.analysis.measures import CONDITIONS, Metric
from dballoc.analysis.statistics.ratio_interval import Ratio
from dballoc.analysis.tables.baseline_comparison import DESCRIPTIVE_CONFIDENCE, Comparisons
from dballoc.analysis.tables.values import compare, read_values


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A variant's figure under a constraint. ``primary``: whether it is of a primary metric."""

    constraint: Condition
    workload: str | None
    ratio: Ratio
    primary: bool

    @property
    def holds(self) -> bool | None:
        """Whether the figure keeps to the constraint in its whole interval, or nowhere in it; None
        if the interval holds the bound, or there is none.
        """
        return self.constraint.holds(*self.ratio.interval) if self.ratio.interval else None

    @property
    def standing(self) -> Standing:
        """No worse if the whole interval keeps to the constraint, worse if the whole interval lies
        beyond it.
        """
        return {True: Standing.NO_WORSE, False: Standing.WORSE, None: Standing.UNDECIDED}[
            self.holds
        ]


# The figures under the constraints, by variant.
Bounds = Mapping[str, list[Bound]]


def compute_constraint_bounds(
    campaign: Campaign, comparisons: Comparisons, preference: Preference
) -> Bounds:
    """Return every variant's figures under every constraint: with the interval of the primary
    metric where the constraint is on one, else with a plain 95 % interval at the highest level.
    """
    bounds: dict[str, list[Bound]] = {}
    for constraint in preference.constraints:
        for name, bound in _collect_bounds(campaign, comparisons, constraint):
            if constraint.concerns(name, bound.workload):
                bounds.setdefault(name, []).append(bound)
    return bounds


def _collect_bounds(
    campaign: Campaign, comparisons: Comparisons, constraint: Condition
) -> Iterator[tuple[str, Bound]]:
    measure = CONDITIONS[constraint.measure]
    compared = [*comparisons.family, *comparisons.descriptive]
    primary = [c for c in compared if c.metric.measure.name == measure.name]
    for c in primary:
        if c.ratio:
            is_primary = c.judged or c.metric.question is not None
            yield c.variant, _make_bound(constraint, c.metric, c.ratio, primary=is_primary)
    baseline, *others = campaign.names
    for workload in () if primary else campaign.experiment.workloads:
        top = max(campaign.experiment.threads)
        metric = Metric(measure=measure, workload=workload, threads=top)
        values = read_values(campaign, metric)
        for name in others:
            if ratio := compare(values, name, baseline, DESCRIPTIVE_CONFIDENCE):
                yield name, _make_bound(constraint, metric, ratio, primary=False)


def _make_bound(constraint: Condition, metric: Metric, ratio: Ratio, *, primary: bool) -> Bound:
    return Bound(constraint=constraint, workload=metric.workload, ratio=ratio, primary=primary)
