"""Compare two campaigns: each variant's figure in the second ÷ its figure in the first.

Two ratios answer two questions. *Relative*: each campaign's variant ÷ its own baseline, block by
block, and then the second ÷ the first. Whatever changed between the campaigns and moved the
baseline too cancels. *Absolute*: the variant's figure ÷ its earlier one, with all that happened to
the machine between them; its interval includes the scatter within each campaign and nothing of
that. The relative one is judged where both campaigns have the same baseline. The baseline itself
has the absolute one alone: it shows what changed.
"""

import json
import math
from dataclasses import dataclass, field, replace
from typing import Literal

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions.comparability import Pairing, pair_campaigns
from dballoc.analysis.decisions.diff_levels import (
    LookTaken,
    declare_diff_levels,
    find_look_share,
    list_looks_taken,
)
from dballoc.analysis.decisions.fail_condition import MEASURES
from dballoc.analysis.decisions.sequential_test import Procedure
from dballoc.analysis.decisions.verdict import Verdict, judge_ratio
from dballoc.analysis.statistics.ratio_interval import (
    UnpairedRatio,
    compute_logs_to_baseline,
    compute_unpaired_ratio,
)
from dballoc.analysis.tables import baseline_comparison, level_curves
from dballoc.experiment.designs import Design

RatioKind = Literal["relative", "absolute"]

# A campaign's values by variant, and by the trial's block and role.
_Values = dict[str, dict[tuple[int, str], float]]

_PRIMARY = ("tps", "rss", "rss_idle")
_COLUMNS = {"rss": "rss_peak", "rss_idle": "rss_idle", "cpu": "cpu_per_op"}
_TITLES = {
    "tps": "transactions per second",
    "rss": "peak RSS",
    "rss_idle": "idle RSS after the load",
    "qps": "queries per second",
    "cpu": "CPU per transaction",
}
# What a replay's figures are called; others than these it has not.
_REPLAY_TITLES = {
    "cpu": "CPU per event",
    "rss": "peak heap",
    "rss_idle": "idle heap after the last event",
    "tps": "events per second",
}


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What is compared. ``name`` is one of
    :data:`dballoc.analysis.decisions.fail_condition.MEASURES`; ``primary`` measures share the
    family's error, the others have plain 95 % intervals. ``workload`` and ``threads`` are None for
    a measure of the whole trial. CPU per transaction is the duet's where both campaigns have a
    duet.
    """

    name: str
    title: str
    better: str
    primary: bool
    workload: str | None = None
    threads: int | None = None
    design: Design = Design.SOLO


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A variant in one measure, second ÷ first. A ratio is None where no block has both figures it
    takes. ``faults``: (trials with a fault, trials) of each campaign that had any; then there is no
    verdict.
    """

    variant: str
    measure: Measure
    relative: UnpairedRatio | None
    absolute: UnpairedRatio | None
    judged: RatioKind
    faults: tuple[tuple[int, int] | None, tuple[int, int] | None] = (None, None)

    @property
    def ratio(self) -> UnpairedRatio | None:
        """The ratio that is judged."""
        return self.relative if self.judged == "relative" else self.absolute

    @property
    def verdict(self) -> Verdict:
        """The verdict by the judged interval; undecided without one."""
        return judge_ratio(self.ratio)


@dataclass(frozen=True, kw_only=True)
class CampaignDiff:
    """The differences of two campaigns. ``judged``: which ratio the verdicts are about, and
    ``why``; ``confidence``: the level of the primary measures' intervals; ``moved``: the common
    baseline's own absolute figures, where the relative ones are judged; ``withheld``: why there are
    no verdicts at all, empty if there are; ``looks``: where a campaign is judged at another look
    than its planned end.
    """

    pairing: Pairing
    judged: RatioKind
    why: str
    confidence: float
    measures: list[Measure]
    figures: list[Figure]
    moved: list[Figure]
    withheld: str = ""
    looks: list[LookTaken] = field(default_factory=list)

    def no_verdict(self, figure: Figure) -> str:
        """Return why a figure has no verdict; empty if it has one."""
        if self.withheld:
            return self.withheld
        for look in self.looks:
            of_design = figure.measure.primary and look.design == figure.measure.design
            if of_design and look.blocks is None:
                return f"the {look.campaign} campaign is not judged yet"
        for k_of_n, which in zip(figure.faults, ("first", "second"), strict=True):
            if k_of_n:
                return f"{k_of_n[0]} of {k_of_n[1]} trials ended in a fault in the {which}"
        if figure.ratio is None:
            return "no figures"
        return "" if figure.ratio.interval else "one block has no interval"

    def of(self, measure: Measure) -> list[Figure]:
        """Return the figures of all variants in one measure."""
        return [f for f in self.figures if f.measure == measure]


def compare_campaigns(
    first: Campaign, second: Campaign, kind: RatioKind | None = None
) -> CampaignDiff:
    """Compare two campaigns. ``kind``: which ratio to judge; by default the relative one where
    there is a common baseline.

    ValueError for ``kind="relative"`` without one.
    """
    pairing = pair_campaigns(first, second)
    judged, why = _choose_ratio(pairing, kind)
    relative = judged == "relative"
    names = [n for n in pairing.variants if not (relative and n == pairing.baseline)]
    procedures = (
        baseline_comparison.declare_procedures(first),
        baseline_comparison.declare_procedures(second),
    )
    primary = ("cpu", "rss") if first.is_replay else ("tps", "rss")
    measures = _list_measures(first, pairing, primary)
    levels = _list_levels(measures, procedures, len(names))
    faults = (
        _list_faults(first, pairing.baseline if relative else None),
        _list_faults(second, pairing.baseline if relative else None),
    )

    first = baseline_comparison.select_judged_blocks(first, procedures[0])
    second = baseline_comparison.select_judged_blocks(second, procedures[1])
    figures: list[Figure] = []
    moved: list[Figure] = []
    for measure, confidence in levels.items():
        values = _collect_values(first, measure), _collect_values(second, measure)
        duets = _collect_duet_logs(first, measure), _collect_duet_logs(second, measure)
        for name in pairing.variants:
            if measure.design == Design.DUET:
                to_baseline = _contrast_duets(duets, name, pairing, confidence)
                absolute = None
            else:
                to_baseline = _contrast_relative(values, name, pairing, confidence)
                absolute = _contrast_absolute(values, name, confidence)
            is_moved = relative and name == pairing.baseline
            figure = Figure(
                variant=name,
                measure=measure,
                relative=to_baseline,
                absolute=absolute,
                judged="absolute" if is_moved else judged,
                faults=(faults[0].get(name), faults[1].get(name)),
            )
            (moved if is_moved else figures).append(figure)
    return CampaignDiff(
        pairing=pairing,
        judged=judged,
        why=why,
        confidence=max(levels.values(), default=level_curves.CONFIDENCE),
        measures=measures,
        figures=figures,
        moved=moved,
        withheld=_explain_withheld(pairing, relative),
        looks=list_looks_taken("first", procedures[0]) + list_looks_taken("second", procedures[1]),
    )


def _explain_withheld(pairing: Pairing, relative: bool) -> str:
    """Return why there are no verdicts at all; empty if there are."""
    if pairing.machine and not relative:
        return f"different machines ({'; '.join(pairing.machine)}) and no common baseline"
    return ""


def _list_faults(campaign: Campaign, baseline: str | None) -> dict[str, tuple[int, int]]:
    """Return (trials with a fault, trials) by variant; with faults of the ``baseline`` that ratios
    are to, they are every variant's that has none of its own.
    """
    faults = baseline_comparison.count_faults(campaign)
    if baseline in faults:
        return dict.fromkeys(campaign.names, faults[baseline]) | faults
    return faults


def _list_levels(
    measures: list[Measure],
    procedures: tuple[dict[str, Procedure], dict[str, Procedure]],
    variants: int,
) -> dict[Measure, float]:
    """Return the level of each measure's intervals; ``variants``: how many are judged."""
    judged = [(m.name, m.design) for m in measures if m.primary]
    errors = declare_diff_levels(judged, variants)
    return {
        m: 1 - errors[m.name] * math.prod(find_look_share(p, m.design) for p in procedures)
        if m.primary
        else level_curves.CONFIDENCE
        for m in measures
    }


def _choose_ratio(pairing: Pairing, kind: RatioKind | None) -> tuple[RatioKind, str]:
    if kind == "relative" and pairing.baseline is None:
        raise ValueError(pairing.no_baseline)
    if kind == "absolute":
        return "absolute", "as requested"
    if pairing.baseline is None:
        return "absolute", pairing.no_baseline
    if len(pairing.variants) == 1:
        return "absolute", f"{pairing.baseline}, the baseline, is the only variant in both"
    return "relative", f"both campaigns have the same baseline, {pairing.baseline}"


def _list_measures(first: Campaign, pairing: Pairing, primary: tuple[str, ...]) -> list[Measure]:
    """Return the comparable measures, the primary ones first."""
    names = ("cpu", "tps", "rss", "rss_idle", "qps", "p50", "p95", "p99", "p999")
    measures = [m for name in names for m in _list_measures_named(name, first, pairing, primary)]
    return sorted(measures, key=lambda m: not m.primary)


def _list_measures_named(
    name: str, first: Campaign, pairing: Pairing, primary: tuple[str, ...]
) -> list[Measure]:
    """Return the measure of the whole trial, or of each workload; none if it is not comparable."""
    if first.is_replay and name not in _REPLAY_TITLES:
        return []
    titles = _REPLAY_TITLES if first.is_replay else _TITLES
    title, better = titles.get(name, f"response time, {name}"), MEASURES[name]
    of_trial = Measure(name=name, title=title, better=better, primary=name in primary)
    if name == "rss":
        return [] if pairing.no_memory else [of_trial]
    if name == "rss_idle":
        return [] if pairing.no_idle or not first.experiment.time.idle else [of_trial]
    if name == "cpu" and not pairing.no_duet:
        of_duet = replace(
            of_trial,
            title=f"server {title} at half width",
            primary=True,
            threads=json.loads(first.facts["duet"])["threads"],
            design=Design.DUET,
        )
        return [replace(of_duet, workload=workload) for workload in pairing.workloads]
    if pairing.no_speed:
        return []
    return [
        replace(of_trial, workload=workload, threads=threads)
        for workload, threads in pairing.levels.items()
    ]


def _collect_values(campaign: Campaign, measure: Measure) -> _Values:
    """Return the solo design's values by variant, and by block and role."""
    column = _COLUMNS.get(measure.name, measure.name)
    if measure.workload is not None:
        rows = level_curves.compute_levels(campaign).filter(
            (pl.col("workload") == measure.workload) & (pl.col("threads") == measure.threads)
        )
    else:
        rows = campaign.good
        # With a start for each level: the highest peak of the starts, and the idle RSS after the
        # highest level.
        if measure.name == "rss_idle" and campaign.experiment.levels == "fresh":
            rows = rows.filter(pl.col("level") == max(campaign.experiment.threads))
    rows = (
        rows.filter(pl.col(column) > 0)
        .group_by("variant", "block", "role")
        .agg(pl.col(column).cast(pl.Float64).max())
    )
    by_variant: _Values = {}
    for variant, block, role, value in rows.iter_rows():
        by_variant.setdefault(variant, {})[block, role] = value
    return by_variant


def _collect_duet_logs(campaign: Campaign, measure: Measure) -> dict[str, list[float]]:
    """Return the blocks' ln ratios to the baseline that was loaded at the same time, by variant."""
    if measure.design != Design.DUET:
        return {}
    return next(
        baseline_comparison.collect_duet_logs(campaign, m)
        for m in baseline_comparison.list_metrics(campaign)
        if m.design == Design.DUET and m.workload == measure.workload
    )


def _contrast_duets(
    duets: tuple[dict[str, list[float]], dict[str, list[float]]],
    name: str,
    pairing: Pairing,
    confidence: float,
) -> UnpairedRatio | None:
    """Contrast the relative figures; a duet has no absolute ones, because the cost of a transaction
    depends on the half of the CPUs.
    """
    if pairing.baseline is None or name == pairing.baseline:
        return None
    return _contrast_if_both(duets[0].get(name, []), duets[1].get(name, []), confidence)


def _contrast_relative(
    values: tuple[_Values, _Values], name: str, pairing: Pairing, confidence: float
) -> UnpairedRatio | None:
    if pairing.baseline is None or name == pairing.baseline:
        return None
    logs = [compute_logs_to_baseline(v.get(pairing.baseline, {}) | v.get(name, {})) for v in values]
    return _contrast_if_both(logs[0], logs[1], confidence)


def _contrast_absolute(
    values: tuple[_Values, _Values], name: str, confidence: float
) -> UnpairedRatio | None:
    logs = [_average_by_block(v.get(name, {})) for v in values]
    return _contrast_if_both(logs[0], logs[1], confidence)


def _average_by_block(values: dict[tuple[int, str], float]) -> list[float]:
    """Return one logarithm a block: the baseline's two runs are averaged because they share the
    block.
    """
    blocks: dict[int, list[float]] = {}
    for (block, _), value in values.items():
        blocks.setdefault(block, []).append(math.log(value))
    return [math.fsum(logs) / len(logs) for _, logs in sorted(blocks.items())]


def _contrast_if_both(
    first: list[float], second: list[float], confidence: float
) -> UnpairedRatio | None:
    return compute_unpaired_ratio(first, second, confidence) if first and second else None
