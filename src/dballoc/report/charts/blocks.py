"""Every block of a duet as a point, beside the interval that they make."""

import math
from typing import Any

import altair as alt
import polars as pl

from dballoc.analysis.decisions.sequential_test import MARGIN
from dballoc.analysis.statistics.ratio_interval import compute_ratio
from dballoc.document.charts import Variants, make_chart_data
from dballoc.document.model import Figure
from dballoc.numbers import percent
from dballoc.report.wording.ratios_as_text import format_ratio

_ROW = 44


def draw_duet_blocks(
    block_logs: pl.DataFrame, workload: str, names: list[str], variants: Variants, confidence: float
) -> Figure:
    """Draw CPU per transaction, variant ÷ baseline, block by block, from
    :func:`dballoc.analysis.statistics.duet_slices.compute_block_logs`.
    """
    rows = _make_rows(block_logs.filter(pl.col("workload") == workload), names, confidence)
    order = list(dict.fromkeys(row["row"] for row in rows))
    values = [row["value"] for row in rows if "value" in row]
    low, high = min([0.98, *values]), max([1.02, *values])
    scale = alt.Scale(domain=[low * 0.997, high * 1.003], nice=False, zero=False)
    x = alt.X(
        "value:Q",
        title=f"CPU per transaction, ratio to {names[0]}",
        scale=scale,
        axis=alt.Axis(tickCount=6, format=".3~f"),
    )
    y = alt.Y("row:N", sort=order, title=None, axis=alt.Axis(grid=False, ticks=False, domain=False))
    base = alt.Chart(make_chart_data(rows))
    of_variant = alt.Tooltip("row:N", title="variant")
    interval_tip = [of_variant, alt.Tooltip("words:N", title="ratio")]
    block_tip = [
        of_variant,
        alt.Tooltip("block:Q"),
        alt.Tooltip("value:Q", title="ratio", format=".4f"),
    ]
    color, shape = variants.encode_color(None), variants.encode_shape(None)
    margin = make_chart_data([{"low": 1 - MARGIN, "high": 1 + MARGIN}])
    layers = [
        alt.Chart(margin)
        .mark_rect(style="margin")
        .encode(x=alt.X("low:Q", scale=scale), x2=alt.X2("high:Q")),
        alt.Chart(make_chart_data([{"one": 1.0}]))
        .mark_rule(style="reference")
        .encode(x=alt.X("one:Q", scale=scale)),
        base.mark_rule(strokeWidth=2.5, clip=True)
        .encode(
            x=alt.X("low:Q", scale=scale),
            x2=alt.X2("high:Q"),
            y=y,
            color=color,
            tooltip=interval_tip,
        )
        .transform_filter("isValid(datum.low)"),
        base.mark_point(filled=False, size=60, opacity=0.75, yOffset=11)
        .encode(x=x, y=y, color=color, shape=shape, tooltip=block_tip)
        .transform_filter("isValid(datum.value)"),
        base.mark_point(filled=True, size=120, opacity=1)
        .encode(
            x=alt.X("estimate:Q", scale=scale), y=y, color=color, shape=shape, tooltip=interval_tip
        )
        .transform_filter("isValid(datum.estimate)"),
    ]
    chart = alt.layer(*layers).properties(height=_ROW * max(1, len(order)))
    return Figure(
        f"duet-{workload}",
        f"CPU per transaction, block by block, {workload}",
        _describe(confidence),
        chart,
    )


def _describe(confidence: float) -> str:
    return (
        f"Full points with intervals at {percent(confidence, 2)}; the open points under them are "
        "the blocks that they come from; the band is ±1 %. Better is lower. The last row is the "
        "baseline against itself."
    )


def _make_rows(
    block_logs: pl.DataFrame, names: list[str], confidence: float
) -> list[dict[str, Any]]:
    """Return a row for each variant's interval and for each of its blocks; the baseline last."""
    rows: list[dict[str, Any]] = []
    for name in [*names[1:], names[0]]:
        variant_blocks = block_logs.filter(pl.col("variant") == name)
        if not variant_blocks.height:
            continue
        label = f"{name}, A2 ÷ A1" if name == names[0] else name
        logs = variant_blocks["log"].to_list()
        r = compute_ratio(logs, confidence)
        interval = {
            "variant": name,
            "row": label,
            "words": format_ratio(r.estimate, r.low, r.high),
            "estimate": r.estimate,
        }
        rows.append(interval | ({"low": r.low, "high": r.high} if r.interval else {}))
        rows += [
            {"variant": name, "row": label, "block": block, "value": math.exp(log)}
            for block, log in variant_blocks.select("block", "log").iter_rows()
        ]
    return rows
