"""A chart of ratios to the baseline, block by block."""

import math

import polars as pl

from dballoc.document.charts import (
    Rows,
    Variants,
    draw,
    draw_points,
    is_valid,
    make_axis,
    make_chart,
    make_names_axis,
    make_tips,
    span,
)
from dballoc.document.model import Figure
from dballoc.ground.numbers import percent
from dballoc.questions.compare.measures import Metric
from dballoc.questions.compare.ratio_charts import draw_ratio_frame
from dballoc.questions.compare.ratios_as_text import format_ratio
from dballoc.questions.statistics.ratio_interval import compute_ratio

_ROW = 44


def draw_block_ratios(
    block_logs: pl.DataFrame,
    metric: Metric,
    names: list[str],
    variants: Variants,
    confidence: float,
) -> Figure:
    """Draw a metric of duets or turns, variant ÷ baseline, block by block. ``block_logs``: from
    :mod:`dballoc.questions.compare.values`.
    """
    rows = _make_rows(block_logs.filter(workload=metric.workload), names, confidence)
    measured = metric.measure.label[0].upper() + metric.measure.label[1:]
    order = list(dict.fromkeys(row["row"] for row in rows))
    values = [row["value"] for row in rows if "value" in row]
    low, high = min([0.98, *values]), max([1.02, *values])
    scale = {"domain": [low * 0.997, high * 1.003], "nice": False, "zero": False}
    title = f"{measured}, ratio to {names[0]}"
    x = make_axis("value", title, scale, tickCount=6, format=".3~f")
    bare = {"type": "quantitative", "scale": scale}
    y = make_names_axis("row", order)
    tip = make_tips({"row": "variant", "words": "ratio"})
    value = {"title": "ratio", "format": ".4f"}
    color, points = variants.encode_color(None), variants.encode_points(None)
    layers = [
        *draw_ratio_frame(x=bare),
        draw(
            rows, "rule", is_valid("low"), strokeWidth=2.5, clip=True, **span("x", bare), y=y,
            tooltip=tip, **color,
        ),
        draw_points(
            rows, 60, is_valid("value"), filled=False, opacity=0.75, yOffset=11, x=x, y=y,
            tooltip=make_tips({"row": "variant", "block:Q": "", "value:Q": value}), **points,
        ),
        draw_points(
            rows, 120, is_valid("estimate"), x=bare | {"field": "estimate"}, y=y, tooltip=tip,
            **points,
        ),
    ]  # fmt: skip
    return Figure(
        f"{metric.design}-{metric.workload}",
        f"{measured}, block by block, {metric.workload}",
        _describe_points(confidence, metric.better),
        make_chart(_ROW * max(1, len(order)), layers),
    )


def _describe_points(confidence: float, better: str) -> str:
    return (
        f"Full points with intervals at {percent(confidence, 2)}; the open points under them are "
        f"the blocks that they come from; the band is ±1 %. Better is {better}. The last row is "
        "the baseline against itself."
    )


def _make_rows(block_logs: pl.DataFrame, names: list[str], confidence: float) -> Rows:
    """Return a row for each variant's interval and for each of its blocks; the baseline last."""
    rows: Rows = []
    for name in [*names[1:], names[0]]:
        variant_blocks = block_logs.filter(variant=name)
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
