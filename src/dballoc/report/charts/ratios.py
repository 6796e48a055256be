"""Ratios with their intervals: one plot for each primary metric."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from dballoc.analysis.tables.baseline_comparison import Comparison, Comparisons, Metric
from dballoc.document.charts import Variants, make_chart_data
from dballoc.document.model import Figure
from dballoc.numbers import percent
from dballoc.report.charts.axes import (
    compute_ratio_range,
    copy_axis_for_field,
    draw_margin_band,
    draw_reference_line,
    make_ratio_axis,
)
from dballoc.report.wording.answer import describe_verdict, format_comparison

_ROW = 34


def draw_forest(comparisons: Comparisons, metric: Metric, variants: Variants) -> Figure:
    """Draw a point and an interval for each variant in one metric, and the A/A floor under them."""
    floor = next(c for c in comparisons.floor if c.metric == metric)
    judged = [c for c in comparisons.family if c.metric == metric and c.ratio]
    rows = [_make_row(c, comparisons, c.variant) for c in judged]
    label = f"{floor.variant}, A2 ÷ A1"
    if floor.ratio:
        rows.append(_make_row(floor, comparisons, label) | {"verdict": "A/A floor"})
    names = [*(c.variant for c in judged), *([label] if floor.ratio else [])]
    caption = (
        f"Better is {metric.better}. Point and interval at "
        f"{percent(comparisons.confidence(metric), 2)}; the band is ±1 %. The last row is the "
        "baseline against itself."
    )
    key = metric.key.replace(":", "-")
    return Figure(
        f"verdict-{key}",
        capitalize_title(metric),
        caption,
        draw_intervals(rows, names, f"ratio to {floor.variant}", variants),
    )


def draw_intervals(
    rows: Sequence[dict[str, Any]], names: Sequence[str], title: str, variants: Variants
) -> alt.LayerChart | alt.FacetChart:
    """Draw a point and an interval for each row, in the order of ``names``. A row has ``row`` (its
    name), ``variant`` (its colour), ``ratio``, ``low`` and ``high`` (None: no interval), and the
    ``words`` and ``verdict`` of its tooltip.
    """
    low, high = compute_ratio_range(rows)
    data = make_chart_data([_cut_interval(row, low, high) for row in rows])
    y = alt.Y("row:N", sort=names, title=None, axis=alt.Axis(grid=False, ticks=False, domain=False))
    x = make_ratio_axis("x", title, low, high)
    tip = [
        alt.Tooltip("row:N", title="variant"),
        alt.Tooltip("words:N", title="ratio"),
        alt.Tooltip("verdict:N"),
    ]
    base = alt.Chart(data)
    layers = [
        draw_margin_band("x", x),
        draw_reference_line("x", x),
        base.mark_rule(strokeWidth=2.5)
        .encode(
            x=copy_axis_for_field(x, "low"),
            x2=alt.X2("high:Q"),
            y=y,
            color=variants.encode_color(None),
            tooltip=tip,
        )
        .transform_filter("isValid(datum.low)"),
        *_draw_arrows(base, x, y, variants),
        base.mark_point(filled=True, size=110, opacity=1).encode(
            x=copy_axis_for_field(x, "ratio"),
            y=y,
            color=variants.encode_color(None),
            shape=variants.encode_shape(None),
            tooltip=tip,
        ),
    ]
    return alt.layer(*layers).properties(height=_ROW * max(1, len(names)))


def capitalize_title(metric: Metric) -> str:
    """Return a metric's title as a heading; the name of a workload stays as it is."""
    return metric.title[0].upper() + metric.title[1:] if metric.workload is None else metric.title


def _make_row(comparison: Comparison, comparisons: Comparisons, label: str) -> dict[str, Any]:
    ratio = comparison.ratio
    assert ratio
    return {
        "variant": comparison.variant, "row": label, "ratio": ratio.estimate,
        "low": ratio.low, "high": ratio.high,
        "words": format_comparison(comparison),
        "verdict": describe_verdict(comparison, comparisons),
    }  # fmt: skip


def _cut_interval(row: dict[str, Any], low: float, high: float) -> dict[str, Any]:
    if row["low"] is None:
        return row
    more = {"beyond_low": low} if row["low"] < low else {}
    more |= {"beyond_high": high} if row["high"] > high else {}
    return row | more | {"low": max(row["low"], low), "high": min(row["high"], high)}


def _draw_arrows(base: alt.Chart, x: Any, y: alt.Y, variants: Variants) -> list[alt.Chart]:
    return [
        base.mark_point(shape=f"triangle-{side}", filled=True, size=70, opacity=1)
        .encode(x=copy_axis_for_field(x, field), y=y, color=variants.encode_color(None))
        .transform_filter(f"isValid(datum.{field})")
        for field, side in (("beyond_low", "left"), ("beyond_high", "right"))
    ]
