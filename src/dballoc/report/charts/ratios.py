"""Ratios with their intervals: one plot for each primary metric."""

from typing import Any

import altair as alt

from dballoc.analysis.tables.baseline_comparison import Comparison, Comparisons, Metric
from dballoc.report.charts.axes import band, extent, like, line, scale
from dballoc.report.charts.theme import Figure, Variants, frame
from dballoc.report.wording.answer import ratio_words, verdict_words
from dballoc.report.wording.ratios_as_text import percent

_ROW = 34


def forest(comparisons: Comparisons, metric: Metric, variants: Variants) -> Figure:
    """A point and an interval for each variant in one metric, and the A/A floor under them."""
    floor = next(c for c in comparisons.floor if c.metric == metric)
    found = [c for c in comparisons.family if c.metric == metric and c.ratio]
    rows = [_row(c, comparisons, c.variant) for c in found]
    label = f"{floor.variant}, A2 ÷ A1"
    if floor.ratio:
        rows.append(_row(floor, comparisons, label) | {"verdict": "A/A floor"})
    low, high = extent(rows)
    names = [*(c.variant for c in found), *([label] if floor.ratio else [])]
    data = frame([_cut(row, low, high) for row in rows])
    y = alt.Y("row:N", sort=names, title=None, axis=alt.Axis(grid=False, ticks=False, domain=False))
    x = scale("x", f"ratio to {floor.variant}", low, high)
    tip = [
        alt.Tooltip("row:N", title="variant"),
        alt.Tooltip("words:N", title="ratio"),
        "verdict:N",
    ]
    base = alt.Chart(data)
    layers = [
        band("x", x),
        line("x", x),
        base.mark_rule(strokeWidth=2.5)
        .encode(x=like(x, "low"), x2="high:Q", y=y, color=variants.color(None), tooltip=tip)
        .transform_filter("isValid(datum.low)"),
        *_arrows(base, x, y, variants),
        base.mark_point(filled=True, size=110, opacity=1).encode(
            x=like(x, "ratio"),
            y=y,
            color=variants.color(None),
            shape=variants.shape(None),
            tooltip=tip,
        ),
    ]
    caption = (
        f"Better is {metric.better}. Point and interval at "
        f"{percent(comparisons.confidence(metric), 2)}; the band is ±1 %. "
        "The last row is the baseline against itself."
    )
    key = metric.key.replace(":", "-")
    return Figure(
        f"verdict-{key}",
        _title(metric),
        caption,
        alt.layer(*layers).properties(height=_ROW * max(1, len(names))),
    )


def _title(metric: Metric) -> str:
    return metric.title[0].upper() + metric.title[1:] if metric.workload is None else metric.title


def _row(comparison: Comparison, comparisons: Comparisons, label: str) -> dict[str, Any]:
    ratio = comparison.ratio
    assert ratio
    known = ratio.blocks > 1
    return {
        "variant": comparison.variant, "row": label, "ratio": ratio.estimate,
        "low": ratio.low if known else None, "high": ratio.high if known else None,
        "words": ratio_words(comparison), "verdict": verdict_words(comparison, comparisons),
    }  # fmt: skip


def _cut(row: dict[str, Any], low: float, high: float) -> dict[str, Any]:
    if row["low"] is None:
        return row
    more = {"beyond_low": low} if row["low"] < low else {}
    more |= {"beyond_high": high} if row["high"] > high else {}
    return row | more | {"low": max(row["low"], low), "high": min(row["high"], high)}


def _arrows(base: alt.Chart, x: Any, y: alt.Y, variants: Variants) -> list[alt.Chart]:
    return [
        base.mark_point(shape=f"triangle-{side}", filled=True, size=70, opacity=1)
        .encode(x=like(x, field), y=y, color=variants.color(None))
        .transform_filter(f"isValid(datum.{field})")
        for field, side in (("beyond_low", "left"), ("beyond_high", "right"))
    ]
