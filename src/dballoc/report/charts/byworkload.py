"""Relative QPS of every workload in one chart, for campaigns of many workloads."""

from dballoc.document.charts import (
    POINTS,
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
from dballoc.report.charts.axes import compute_ratio_range, draw_ratio_frame, make_ratio_axis
from dballoc.report.sections.workload_groups import Cell
from dballoc.report.wording.ratios_as_text import format_ratio

# Pixels for each variant of a row, and between rows.
_POINT, _GAP = 9, 8


def draw_relative_qps(cells: list[Cell], threads: int, variants: Variants) -> Figure:
    """Draw one row a workload in the order of ``cells``, one point a variant, at that level."""
    rows: Rows = [
        {
            "variant": c.variant, "row": c.workload, "ratio": c.ratio, "low": c.low, "high": c.high,
            "words": format_ratio(c.ratio, c.low, c.high), "group": c.group or "–",
        }
        for c in cells if c.threads == threads
    ]  # fmt: skip
    low, high = compute_ratio_range(rows)
    for row in rows:
        row["low"] = None if row["low"] is None else max(row["low"], low)
        row["high"] = None if row["high"] is None else min(row["high"], high)
    names = list(dict.fromkeys(c.workload for c in cells if c.threads == threads))
    x = make_ratio_axis(f"QPS, ratio to {variants.names[0]}", low, high)
    common = {
        "y": make_names_axis("row", names, grid=True, labelLimit=220),
        "yOffset": {"field": "variant", "type": "nominal", "sort": variants.names[1:]},
    }
    tip = make_tips({"row": "workload", "group": "", "variant": "", "words": "ratio"})
    color, points = variants.encode_color(POINTS), variants.encode_points(POINTS)
    layers = [
        *draw_ratio_frame(x=x),
        draw(rows, "rule", is_valid("low"), strokeWidth=1.5, **span("x", x), **common, **color),
        draw_points(rows, 45, x=x, tooltip=tip, **common, **points),
    ]
    height = len(names) * (_GAP + _POINT * max(1, len(variants.names) - 1))
    caption = (
        f"QPS with the variant ÷ QPS with {variants.names[0]} at {threads} client threads, with 95 "
        "% intervals where there are two blocks or more; descriptive. The band is ±1 %."
    )
    return Figure(
        "relative-qps",
        "Relative QPS of every workload",
        caption,
        make_chart(height, layers),
    )
