"""Ratios with their intervals: their axes, one plot for each primary metric, and every pair of
variants at a glance.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from dballoc.document.charts import (
    POINTS,
    Channel,
    Layer,
    Rows,
    Variants,
    draw,
    draw_points,
    encode_names,
    is_valid,
    make_axis,
    make_chart,
    make_names_axis,
    make_tips,
    span,
)
from dballoc.document.model import Figure
from dballoc.ground.numbers import percent
from dballoc.questions.compare.answer_words import describe_verdict
from dballoc.questions.compare.baseline_comparison import Comparison, Comparisons
from dballoc.questions.compare.measures import MEASURES, Metric
from dballoc.questions.compare.procedure import MARGIN
from dballoc.questions.compare.ratios_as_text import format_ratio, show_ratio

# An interval is cut here: one from two blocks may span many powers of ten.
CUT = (0.5, 2.0)

# The frame shows at least this much on both sides of 1, so that no difference looks like none.
_LEAST = 0.03


def compute_ratio_range(rows: Iterable[dict[str, Any]]) -> tuple[float, float]:
    """Return the frame's ends: all points, the intervals as far as they are not cut, and a little
    air.
    """
    lows, highs = [1 - _LEAST], [1 + _LEAST]
    for row in rows:
        lows += [row["ratio"], *([max(row["low"], CUT[0])] if row["low"] is not None else [])]
        highs += [row["ratio"], *([min(row["high"], CUT[1])] if row["high"] is not None else [])]
    low, high = math.log(min(lows)), math.log(max(highs))
    air = (high - low) * 0.04
    return math.exp(low - air), math.exp(high + air)


def make_ratio_axis(title: str, low: float, high: float) -> Channel:
    """Return an axis for ratios from ``low`` to ``high``: logarithmic where they are far apart."""
    wide = high / low > 2
    scale = {"domain": [low, high], "nice": False} | ({"type": "log"} if wide else {"zero": False})
    return make_axis("ratio", title, scale, tickCount=6, format=".2~f" if wide else ".3~f")


def draw_ratio_frame(**axes: Channel) -> list[Layer]:
    """Draw what lies behind ratios along ``x``, ``y`` or both: the band of what counts as
    equivalent, and the line at the baseline's ratio, 1.
    """
    edges, reference = [{"low": 1 - MARGIN, "high": 1 + MARGIN}], [{"one": 1.0}]
    return [
        *(draw(edges, "rect", style="margin", **span(x, axis)) for x, axis in axes.items()),
        *(
            draw(reference, "rule", style="reference", **{x: axis | {"field": "one"}})
            for x, axis in axes.items()
        ),
    ]


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
        "words": show_ratio(comparison.ratio),
        "verdict": describe_verdict(comparison, comparisons),
    }  # fmt: skip


def _cut_interval(row: dict[str, Any], low: float, high: float) -> dict[str, Any]:
    if row["low"] is None:
        return row
    more = {"beyond_low": low} if row["low"] < low else {}
    more |= {"beyond_high": high} if row["high"] > high else {}
    return row | more | {"low": max(row["low"], low), "high": min(row["high"], high)}


_PAIR_ROW = 34

# Okabe and Ito's blue and orange, thin enough for text on them in the light and in the dark.
_SHOWN = {"better": "#0072b2", "worse": "#d55e00", "not shown": "#888888"}
# With more letters than this the names above the columns would meet on a phone.
_LETTERS = 30


def draw_pair_matrix(
    pairs: pl.DataFrame, measure: str, workload: str | None, names: list[str]
) -> Figure:
    """Draw the row's figure ÷ the column's. ``pairs``:
    :func:`dballoc.questions.campaign.figures.level_curves.compare_all_pairs`; ``names``: the
    variants in their order.
    """
    title = MEASURES[measure].short
    more_is_better = MEASURES[measure].better == "higher"
    ratios = pairs.filter(pl.col("workload").eq_missing(workload), measure=measure)
    rows = []
    for row in ratios.iter_rows(named=True):
        ratio, low, high = row["ratio"], row["low"], row["high"]
        back = (1 / high, 1 / low) if low and high else (None, None)
        for first, second, r, ends in (
            (row["first"], row["second"], ratio, (low, high)),
            (row["second"], row["first"], 1 / ratio, back),
        ):
            rows.append(
                {
                    "row": first,
                    "column": second,
                    "text": f"{r:.3f}" if 0.001 < r < 1000 else "",
                    "words": format_ratio(r, *ends),
                    "shown": _classify_interval(ends[0], ends[1], more_is_better),
                }
            )
    upright = sum(map(len, names)) > _LETTERS
    x = make_names_axis("column", names, orient="top", labelAngle=-90 if upright else 0)
    del x["axis"]["grid"]
    common = {
        "x": x | {"scale": {"domain": names}},
        "y": make_names_axis("row", names) | {"scale": {"domain": names}},
        "tooltip": make_tips({"row": "variant", "column": "relative to", "words": "ratio"}),
    }
    legend = POINTS | {"symbolOpacity": 0.4}
    color = encode_names("shown", _SHOWN, list(_SHOWN.values()), legend=legend)
    text = {"field": "text", "type": "nominal"}
    layers = [
        draw(rows, "rect", opacity=0.3, color=color, **common),
        draw(rows, "text", style="label", text=text, **common),
    ]
    where = f", {workload}" if workload else ""
    better = "more" if more_is_better else "less"
    caption = (
        f"The row's {title} ÷ the column's; {better} is better. Coloured where the 95 % interval "
        "excludes 1; descriptive."
    )
    return Figure(
        f"pairs-{measure}-{workload}" if workload else f"pairs-{measure}",
        f"Every pair: {title}{where}",
        caption,
        make_chart(_PAIR_ROW * len(names), layers),
    )


def _classify_interval(low: float | None, high: float | None, more_is_better: bool) -> str:
    if low is None or high is None or low <= 1 <= high:
        return "not shown"
    return "better" if (low > 1) == more_is_better else "worse"
