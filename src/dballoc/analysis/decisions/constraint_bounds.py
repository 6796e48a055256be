"""Look up the figures that ``--prefer``'s conditions are about."""

from collections.abc import Mapping
from dataclasses import dataclass

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions.fail_condition import Condition
from dballoc.analysis.decisions.noninferiority import Standing
from dballoc.analysis.decisions.preference import Preference
from dballoc.analysis.tables import level_curves
from dballoc.analysis.tables.baseline_comparison import Comparison, Comparisons

# A measure's key among the primary metrics, where it is not its name. A workload's metric has the
# workload behind the key.
_KEYS = {"rss": "rss_peak"}

# A descriptive measure's name in :mod:`dballoc.analysis.tables.level_curves`, where it differs.
_CURVES = {"cpu": "cpu_per_op"}


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A variant's figure under a constraint. ``low`` and ``high`` are None where there is no
    interval; ``blocks``: what the figures are from.
    """

    constraint: Condition
    workload: str | None
    ratio: float
    low: float | None
    high: float | None
    confidence: float
    primary: bool
    blocks: int

    @property
    def standing(self) -> Standing:
        """No worse if the whole interval keeps to the constraint, worse if the whole interval lies
        beyond it.
        """
        if self.low is None or self.high is None:
            return Standing.UNDECIDED
        holds = self.constraint.holds(self.low, self.high)
        return {True: Standing.NO_WORSE, False: Standing.WORSE, None: Standing.UNDECIDED}[holds]


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
        key = _KEYS.get(constraint.measure, constraint.measure)
        compared = [*comparisons.family, *comparisons.descriptive]
        primary = [c for c in compared if c.metric.measure == key]
        for name, bound in (
            _collect_primary_bounds(constraint, primary)
            if primary
            else _collect_descriptive_bounds(campaign, constraint)
        ):
            if constraint.concerns(name, bound.workload):
                bounds.setdefault(name, []).append(bound)
    return bounds


def _collect_primary_bounds(
    constraint: Condition, comparisons: list[Comparison]
) -> list[tuple[str, Bound]]:
    bounds = []
    for c in comparisons:
        if c.ratio:
            bounds.append(
                (
                    c.variant,
                    Bound(
                        constraint=constraint,
                        workload=c.metric.workload,
                        ratio=c.ratio.estimate,
                        low=c.ratio.low,
                        high=c.ratio.high,
                        confidence=c.ratio.confidence,
                        primary=c.judged or c.metric.question is not None,
                        blocks=c.ratio.blocks,
                    ),
                )
            )
    return bounds


def _collect_descriptive_bounds(
    campaign: Campaign, constraint: Condition
) -> list[tuple[str, Bound]]:
    top = max(campaign.experiment.threads)
    rows = level_curves.compute_relative_levels(
        campaign, _CURVES.get(constraint.measure, constraint.measure)
    ).filter(threads=top)
    return [
        (
            name,
            Bound(
                constraint=constraint,
                workload=workload,
                ratio=ratio,
                low=low,
                high=high,
                confidence=level_curves.CONFIDENCE,
                primary=False,
                blocks=blocks,
            ),
        )
        for name, workload, ratio, low, high, blocks in rows.select(
            "variant", "workload", "ratio", "low", "high", "n"
        ).iter_rows()
    ]
