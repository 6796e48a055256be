"""Ratios with their intervals: one plot for each primary metric."""

from collections.abc import Sequence
from typing import Any

from dballoc.analysis.measures import Metric
from dballoc.analysis.tables.baseline_comparison import Comparison, Comparisons
from dballoc.document.charts import (
    Rows,
    Variants,
    draw,
    draw_points,
    is_valid,
    make_chart,
    make_names_axis,
    make_tips,
    span,
)
from dballoc.document.model import Figure
from dballoc.numbers import percent
from dballoc.report.charts.axes import compute_ratio_range, draw_ratio_frame, make_ratio_axis
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
    rows: Rows, names: Sequence[str], title: str, variants: Variants
) -> dict[str, Any]:
    """Draw a point and an interval for each row, in the order of ``names``. A row has ``row`` (its
    name), ``variant`` (its colour), ``ratio``, ``low`` and ``high`` (None: no interval), and the
    ``words`` and ``verdict`` of its tooltip.
    """
    low, high = compute_ratio_range(rows)
    rows = [_cut_interval(row, low, high) for row in rows]
    x, color = make_ratio_axis(title, low, high), variants.encode_color(None)
    common = {
        "y": make_names_axis("row", names),
        "tooltip": make_tips({"row": "variant", "words": "ratio", "verdict": ""}),
    }
    layers = [
        *draw_ratio_frame(x=x),
        draw(rows, "rule", is_valid("low"), strokeWidth=2.5, **span("x", x), **common, **color),
        *(
            draw_points(
                rows, 70, is_valid(field), shape=f"triangle-{side}", x=x | {"field": field},
                y=common["y"], **color,
            )
            for field, side in (("beyond_low", "left"), ("beyond_high", "right"))
        ),
        draw_points(rows, 110, x=x, **common, **variants.encode_points(None)),
    ]  # fmt: skip
    return make_chart(_ROW * max(1, len(names)), layers)


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
