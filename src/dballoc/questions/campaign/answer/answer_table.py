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
from dballoc.questions.compare.ratios_as_text import format_judged, format_ratio, show_ratio
from dballoc.questions.compare.verdict import Noninferiority
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
    against: str = "",
) -> Table | None:
    """Return the table; None where nothing was compared. ``against``: what ratios are to, in words,
    where that is not one baseline. A cell shows what decided: the interval of
    what is better or worse, else the bound. Of several workloads it shows the one that reaches
    farthest to the bad side, with its name.
    """
    comparisons = recommendation.comparisons
    names = list(dict.fromkeys(c.variant for c in comparisons.family))
    titles = _list_titles(comparisons.metrics)
    compared = any(c.ratio for c in comparisons.family)
    if not names or not compared or comparisons.baseline in comparisons.faulty:
        return None
    several = len({m.workload for m in comparisons.metrics if m.workload}) > 1
    show = _make_writer(recommendation)
    rows = []
    for name in names:
        cells = [
            _format_cell([c for c in comparisons.family if c.variant == name], key, show, several)
            for key in titles
        ]
        rows.append([_format_name(name, comparisons), *cells, *_format_tail(name, tails, several)])
    floor = [
        f"{comparisons.baseline}\nA/A floor",
        *(_format_cell(comparisons.floor, key, _show_interval, several) for key in titles),
        *([NOTHING] if tails else []),
    ]
    columns = ["", *titles.values(), *(["p99"] if tails else [])]
    return Table(
        title="The variants against the baseline",
        columns=columns,
        rows=[*rows, floor],
        caption=_compose_caption(recommendation, titles, several, bool(tails), against),
        words=columns,
        faint=[len(rows)],
    )


def _list_titles(metrics: Sequence[Metric]) -> dict[str, str]:
    """Return the headings by measure, memory first, then by the share of the error."""
    judged = sorted(metrics, key=lambda m: (m.question != "memory", -m.measure.error))
    return {m.measure.name: m.measure.short for m in judged if m.question}


def _make_writer(recommendation: Recommendation) -> Callable[[Comparison], str]:
    """Return what writes how a comparison stands, and its ratio with what decided."""

    def write(comparison: Comparison) -> str:
        if comparison.variant in recommendation.comparisons.faulty:
            return f"no verdict {_show_interval(comparison)}"
        standing = judge_comparison(comparison, recommendation.evidence.margin)
        assert comparison.ratio
        by_interval = standing in (Noninferiority.BETTER, Noninferiority.WORSE)
        figure = format_judged(comparison.ratio, comparison.metric.better, by_interval=by_interval)
        return f"{standing.value} {_break_figure(figure)}"

    return write


def _show_interval(comparison: Comparison) -> str:
    return _break_figure(show_ratio(comparison.ratio))


def _break_figure(figure: str) -> str:
    """Put a ratio's interval, or its bound, on a line of its own."""
    return figure.replace(" [", "\n[").replace(", at ", "\nat ")


def _format_name(name: str, comparisons: Comparisons) -> str:
    if name not in comparisons.faulty:
        return name
    failed, trials = comparisons.faulty[name]
    return f"{name}\nfailed {failed} of {trials}"


def _format_cell(
    comparisons: Sequence[Comparison], kind: str, show: Callable[[Comparison], str], several: bool
) -> str:
    """Return ``better 0.940`` and the interval below it, or ``no worse 1.004`` and the bound."""
    of_kind = [c for c in comparisons if c.metric.measure.name == kind and c.ratio]
    if not of_kind:
        return NOTHING
    shown = max(of_kind, key=_measure_disfavour)
    name = [shown.metric.workload] if several and shown.metric.workload else []
    return "\n".join([show(shown), *name])


def _measure_disfavour(comparison: Comparison) -> float:
    """Return how far the ratio may lie on the bad side; the higher, the worse."""
    assert comparison.ratio
    reach = comparison.ratio.reach
    if reach is None:
        return math.inf if comparison.metric.better == "lower" else 0.0
    return -reach.low if comparison.metric.better == "higher" else reach.high


def _format_tail(name: str, tails: Sequence[TailLatency], several: bool) -> list[str]:
    if not tails:
        return []
    of_variant = [t for t in tails if t.variant == name]
    if not of_variant:
        return [NOTHING]
    shown = max(of_variant, key=lambda t: t.high if t.high is not None else t.ratio)
    figure = _break_figure(format_ratio(shown.ratio, shown.low, shown.high))
    return ["\n".join(filter(None, [figure, shown.workload if several else ""]))]


def explain_cells(recommendation: Recommendation, against: str = "") -> str:
    """Say what the figures of the table are relative to, and what decided on them."""
    baseline, margin = recommendation.baseline, recommendation.evidence.margin
    itself = "the baseline" if against else baseline
    is_any_up = any(m.better == "higher" for m in recommendation.comparisons.metrics)
    return (
        f"Ratios to {against or baseline}; {itself} against itself is the A/A floor. Better and "
        "worse are read off the interval in brackets, no worse off the bound below the ratio: at "
        f"most {1 + margin:g}{f', of throughput at least {1 - margin:g}' if is_any_up else ''}."
    )


def _compose_caption(
    recommendation: Recommendation,
    titles: dict[str, str],
    several: bool,
    tails: bool,
    against: str,
) -> str:
    """Say what the figures are: once, below the table."""
    parts = [explain_cells(recommendation, against)]
    if PEAK.name in titles:
        parts.append(
            "Peak RSS: the most that the kernel counted in one server start, from its first step "
            "to its last."
        )
    if several:
        parts.append(
            "Of several workloads the one that may be the worst; all are under Verdicts in the "
            "report."
        )
    if tails:
        parts.append(
            f"p99 at the highest level, with a plain {percent(DESCRIPTIVE_CONFIDENCE, 0)} "
            "interval and no verdict."
        )
    return " ".join(parts)
