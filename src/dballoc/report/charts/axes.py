"""Axes of ratios: what their frames show, the band of ±1 %, and the line at 1."""

import math
from collections.abc import Iterable
from typing import Any

import altair as alt

from dballoc.analysis.decisions.sequential_test import MARGIN
from dballoc.document.charts import make_chart_data

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


def make_ratio_axis(channel: str, title: str, low: float, high: float) -> Any:
    """Return an axis for ratios from ``low`` to ``high``: logarithmic where they are far apart.
    ``channel``: x or y.
    """
    kind = alt.X if channel == "x" else alt.Y
    wide = high / low > 2
    kind_of = {"type": "log"} if wide else {"zero": False}
    ends = alt.Scale(domain=[low, high], nice=False, **kind_of)
    return kind(
        "ratio:Q",
        title=title,
        scale=ends,
        axis=alt.Axis(tickCount=6, format=".2~f" if wide else ".3~f"),
    )


def copy_axis_for_field(channel: Any, field: str) -> Any:
    """Return the same axis for another field."""
    copy = channel.copy()
    copy.shorthand = f"{field}:Q"
    return copy


def draw_margin_band(channel: str, axis: Any) -> alt.Chart:
    """Draw the band of what counts as equivalent."""
    edges = make_chart_data([{"low": 1 - MARGIN, "high": 1 + MARGIN}])
    place = {channel: copy_axis_for_field(axis, "low"), f"{channel}2": "high:Q"}
    return alt.Chart(edges).mark_rect(style="margin").encode(**place)


def draw_reference_line(channel: str, axis: Any) -> alt.Chart:
    """Draw the line at the baseline's ratio, 1."""
    return (
        alt.Chart(make_chart_data([{"one": 1.0}]))
        .mark_rule(style="reference")
        .encode(**{channel: copy_axis_for_field(axis, "one")})
    )
