"""Relative QPS of every workload in one chart, for campaigns of many workloads."""

import altair as alt

from dballoc.document.charts import POINTS, Variants, make_chart_data
from dballoc.document.model import Figure
from dballoc.report.charts.axes import (
    compute_ratio_range,
    copy_axis_for_field,
    draw_margin_band,
    draw_reference_line,
    make_ratio_axis,
)
from dballoc.report.sections.workload_groups import Cell
from dballoc.report.wording.ratios_as_text import format_ratio

# Pixels for each variant of a row, and between rows.
_POINT, _GAP = 9, 8


def draw_relative_qps(cells: list[Cell], threads: int, variants: Variants) -> Figure:
    """Draw one row a workload in the order of ``cells``, one point a variant, at that level."""
    rows = [
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
    y = alt.Y(
        "row:N",
        sort=names,
        title=None,
        axis=alt.Axis(grid=True, ticks=False, domain=False, labelLimit=220),
    )
    offset = alt.YOffset("variant:N", sort=variants.names[1:])
    x = make_ratio_axis("x", f"QPS, ratio to {variants.names[0]}", low, high)
    tip = [
        alt.Tooltip("row:N", title="workload"),
        alt.Tooltip("group:N"),
        alt.Tooltip("variant:N"),
        alt.Tooltip("words:N", title="ratio"),
    ]
    base = alt.Chart(make_chart_data(rows)).encode(
        y=y, yOffset=offset, color=variants.encode_color(POINTS)
    )
    layers = [
        draw_margin_band("x", x),
        draw_reference_line("x", x),
        base.mark_rule(strokeWidth=1.5)
        .encode(x=copy_axis_for_field(x, "low"), x2=alt.X2("high:Q"))
        .transform_filter("isValid(datum.low)"),
        base.mark_point(filled=True, size=45, opacity=1).encode(
            x=copy_axis_for_field(x, "ratio"), shape=variants.encode_shape(POINTS), tooltip=tip
        ),
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
        alt.layer(*layers).properties(height=height),
    )
