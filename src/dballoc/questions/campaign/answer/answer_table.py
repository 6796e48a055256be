"""The table under the answer: a row a variant, a column a question. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dballoc.document.model import Table
from dballoc.experiment.designs import Design
from dballoc.ground.numbers import NOTHING, percent
from dballoc.questions.campaign.answer.recommendation import Recommendation, judge_comparison
from dballoc.questions.campaign.figures import level_curves
from dballoc.questions.compare.baseline_comparison import Comparison, Comparisons
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.measures import PEAK, Metric
from dballoc.questions.compare.ratios_as_text import format_ratio
from dballoc.questions.statistics.ratio_interval import DESCRIPTIVE_CONFIDENCE


@dataclass(frozen=True, kw_only=True)
class TailLatency:
    """A variant's p99 at the highest level of a workload, relative to the baseline's."""

    variant: str
    workload: str
    ratio: float
    low: float | None
    high: float | None


def collect_tail_latencies(campaign: Campaign) -> list[TailLatency]:
    """Return p99 at the highest level of every variant and workload; none without solo trials."""
    if Design.SOLO not in campaign.facts.designs:
        return []
    rows = level_curves.compute_relative_levels(campaign, "p99").filter(
        threads=max(campaign.experiment.threads)
    )
    return [
        TailLatency(**row)
        for row in rows.select("variant", "workload", "ratio", "low", "high").iter_rows(named=True)
    ]


def make_answer_table(
    recommendation: Recommendation,
    tails: Sequence[TailLatency] = (),
) -> Table | None:
    """Return the table; None where nothing was compared. Of several workloads a cell shows the one
    whose interval is the least favourable to the variant, with its name.
    """
    comparisons = recommendation.comparisons
    names = list(dict.fromkeys(c.variant for c in comparisons.family))
    titles = _list_titles(comparisons.metrics)
    compared = any(c.ratio for c in comparisons.family)
    if not names or not compared or comparisons.baseline in comparisons.faulty:
        return None
    several = len({m.workload for m in comparisons.metrics if m.workload}) > 1
    judge = _make_judge(recommendation)
    rows = []
    for name in names:
        cells = [
            _format_cell([c for c in comparisons.family if c.variant == name], key, judge, several)
            for key in titles
        ]
        rows.append([_format_name(name, comparisons), *cells, *_format_tail(name, tails, several)])
    floor = [
        f"{comparisons.baseline}\nA/A floor",
        *(_format_cell(comparisons.floor, key, lambda _: "", several) for key in titles),
        *([NOTHING] if tails else []),
    ]
    columns = ["", *titles.values(), *(["p99"] if tails else [])]
    return Table(
        title="The variants against the baseline",
        columns=columns,
        rows=[*rows, floor],
        caption=_compose_caption(comparisons, titles, several, bool(tails)),
        words=columns,
        faint=[len(rows)],
    )


def _list_titles(metrics: Sequence[Metric]) -> dict[str, str]:
    """Return the headings by measure, memory first, then by the share of the error."""
    judged = sorted(metrics, key=lambda m: (m.question != "memory", -m.measure.error))
    return {m.measure.name: m.measure.short for m in judged if m.question}


def _make_judge(recommendation: Recommendation) -> Callable[[Comparison], str]:
    def judge(comparison: Comparison) -> str:
        if comparison.variant in recommendation.comparisons.faulty:
            return "no verdict"
        return judge_comparison(comparison, recommendation.evidence.margin).value

    return judge


def _format_name(name: str, comparisons: Comparisons) -> str:
    if name not in comparisons.faulty:
        return name
    failed, trials = comparisons.faulty[name]
    return f"{name}\nfailed {failed} of {trials}"


def _format_cell(
    comparisons: Sequence[Comparison], kind: str, judge: Callable[[Comparison], str], several: bool
) -> str:
    """Return ``better 0.940`` and the interval below it."""
    of_kind = [c for c in comparisons if c.metric.measure.name == kind and c.ratio]
    if not of_kind:
        return NOTHING
    shown = max(of_kind, key=_measure_disfavour)
    ratio = shown.ratio
    assert ratio
    name = [shown.metric.workload] if several and shown.metric.workload else []
    estimate, _, interval = format_ratio(ratio.estimate, ratio.low, ratio.high).partition(" ")
    return "\n".join(filter(None, [f"{judge(shown)} {estimate}".strip(), interval, *name]))


def _measure_disfavour(comparison: Comparison) -> float:
    """Return the end of the interval that is the least favourable; the higher, the worse."""
    ratio = comparison.ratio
    assert ratio
    if ratio.interval is None:
        return math.inf if comparison.metric.better == "lower" else 0.0
    return -ratio.interval.low if comparison.metric.better == "higher" else ratio.interval.high


def _format_tail(name: str, tails: Sequence[TailLatency], several: bool) -> list[str]:
    if not tails:
        return []
    of_variant = [t for t in tails if t.variant == name]
    if not of_variant:
        return [NOTHING]
    shown = max(of_variant, key=lambda t: t.high if t.high is not None else t.ratio)
    estimate, _, interval = format_ratio(shown.ratio, shown.low, shown.high).partition(" ")
    return ["\n".join(filter(None, [estimate, interval, shown.workload if several else ""]))]


def _compose_caption(
    comparisons: Comparisons, titles: dict[str, str], several: bool, tails: bool
) -> str:
    """Say what the figures are: once, below the table."""
    baseline = comparisons.baseline
    parts = [f"Ratios to {baseline}; {baseline} against itself is the A/A floor."]
    if PEAK.name in titles:
        parts.append(
            "Peak RSS: the most that the kernel counted in one server start, from its first step "
            "to its last."
        )
    if several:
        parts.append(
            "Of several workloads the one with the least favourable interval; all are under "
            "Verdicts in the report."
        )
    if tails:
        parts.append(
            f"p99 at the highest level, with a plain {percent(DESCRIPTIVE_CONFIDENCE, 0)} "
            "interval and no verdict."
        )
    return " ".join(parts)
