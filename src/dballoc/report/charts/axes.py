"""Axes of ratios: what their frames show, the band of ±1 %, and the line at 1."""

import math
from collections.abc import Iterable
from typing import Any

from dballoc.analysis.decisions.sequential_test import MARGIN
from dballoc.document.charts import Channel, Layer, draw, make_axis, span

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
