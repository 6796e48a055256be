"""Ratios with their intervals: one plot for each primary metric, and speed against memory."""

import math
from collections.abc import Iterable
from typing import Any

import altair as alt

from dballoc.analysis.comparison import Comparison, Comparisons, Metric
from dballoc.analysis.procedure import MARGIN
from dballoc.report.answer import ratio_words, verdict_words
from dballoc.report.charts.theme import POINTS, Figure, Variants, frame
from dballoc.report.numbers import percent

# An interval beyond these is cut, with an arrow: two blocks may give one of many powers of ten.
_CUT = (0.5, 2.0)

# The frame shows at least this much on both sides of 1, so that a difference of nothing looks like nothing.
_LEAST = 0.03

_ROW = 34


def forest(comparisons: Comparisons, metric: Metric, variants: Variants) -> Figure:
    """A point and an interval for each variant in one metric, and the A/A floor under them."""
    floor = next(c for c in comparisons.floor if c.metric == metric)
    found = [c for c in comparisons.family if c.metric == metric and c.ratio]
    rows = [_row(c, comparisons, c.variant) for c in found]
    label = f"{floor.variant}, A2 ÷ A1"
    if floor.ratio:
        rows.append(_row(floor, comparisons, label) | {"verdict": "A/A floor"})
    low, high = _extent(rows)
    names = [*(c.variant for c in found), *([label] if floor.ratio else [])]
    data = frame([_cut(row, low, high) for row in rows])
    y = alt.Y("row:N", sort=names, title=None, axis=alt.Axis(grid=False, ticks=False, domain=False))
    x = _scale("x", f"ratio to {floor.variant}", low, high)
    tip = [alt.Tooltip("row:N", title="variant"), alt.Tooltip("words:N", title="ratio"), "verdict:N"]
    base = alt.Chart(data)
    layers = [
        _band("x", x),
        _line("x", x),
        base.mark_rule(strokeWidth=2.5).encode(x=_like(x, "low"), x2="high:Q", y=y, color=variants.color(None), tooltip=tip)
        .transform_filter("isValid(datum.low)"),
        *_arrows(base, x, y, variants),
        base.mark_point(filled=True, size=110, opacity=1)
        .encode(x=_like(x, "ratio"), y=y, color=variants.color(None), shape=variants.shape(None), tooltip=tip),
    ]  # fmt: skip
    caption = (
        f"Better is {metric.better}. Point and interval at {percent(comparisons.confidence(metric), 2)}; the band is ±1 %. "
        "The last row is the baseline against itself."
    )
    key = metric.key.replace(":", "-")
    return Figure(f"verdict-{key}", _title(metric), caption, alt.layer(*layers).properties(height=_ROW * max(1, len(names))))


def plane(comparisons: Comparisons, workload: str, variants: Variants) -> Figure:
    """Speed against memory, with intervals both ways."""
    speed = next(m for m in comparisons.metrics if m.workload == workload)
    peak = next(m for m in comparisons.metrics if m.key == "rss_peak")
    baseline = comparisons.floor[0].variant
    rows: list[dict[str, Any]] = [{"variant": baseline, "x": 1.0, "y": 1.0, "speed": "1", "memory": "1"}]
    for name in variants.names[1:]:
        tps, rss = comparisons.find(name, speed), comparisons.find(name, peak)
        if tps.ratio and rss.ratio:
            x, y = _row(rss, comparisons, name), _row(tps, comparisons, name)
            rows.append({
                "variant": name, "x": x["ratio"], "y": y["ratio"], "xlow": x["low"], "xhigh": x["high"], "ylow": y["low"],
                "yhigh": y["high"], "speed": y["words"], "memory": x["words"],
            })  # fmt: skip
    xlow, xhigh = _extent([{"ratio": r["x"], "low": r.get("xlow"), "high": r.get("xhigh")} for r in rows])
    ylow, yhigh = _extent([{"ratio": r["y"], "low": r.get("ylow"), "high": r.get("yhigh")} for r in rows])
    x = _scale("x", f"peak RSS, ratio to {baseline}", xlow, xhigh)
    y = _scale("y", f"throughput, ratio to {baseline}", ylow, yhigh)
    base = alt.Chart(frame(rows))
    tip = ["variant:N", alt.Tooltip("speed:N", title="throughput"), alt.Tooltip("memory:N", title="peak RSS")]
    color = variants.color(POINTS)
    layers = [
        _band("x", x), _band("y", y), _line("x", x), _line("y", y), *_quadrants(),
        base.mark_rule(strokeWidth=2, clip=True).encode(x=_like(x, "xlow"), x2="xhigh:Q", y=_like(y, "y"), color=color)
        .transform_filter("isValid(datum.xlow)"),
        base.mark_rule(strokeWidth=2, clip=True).encode(y=_like(y, "ylow"), y2="yhigh:Q", x=_like(x, "x"), color=color)
        .transform_filter("isValid(datum.ylow)"),
        base.mark_point(filled=True, size=110, opacity=1)
        .encode(x=_like(x, "x"), y=_like(y, "y"), color=color, shape=variants.shape(POINTS), tooltip=tip),
    ]  # fmt: skip
    levels = {percent(comparisons.confidence(m), 2) for m in (speed, peak)}
    caption = f"{_title(speed)}, against peak RSS. Intervals at {' and '.join(sorted(levels))}; the bands are ±1 %."
    chart = alt.layer(*layers).properties(height=340)
    return Figure(f"speed-memory-{workload}", f"Speed against memory, {workload}", caption, chart)


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


def _extent(rows: Iterable[dict[str, Any]]) -> tuple[float, float]:
    """The frame's ends: all points, the intervals as far as they are not cut, and a little air."""
    lows, highs = [1 - _LEAST], [1 + _LEAST]
    for row in rows:
        lows += [row["ratio"], *([max(row["low"], _CUT[0])] if row["low"] is not None else [])]
        highs += [row["ratio"], *([min(row["high"], _CUT[1])] if row["high"] is not None else [])]
    low, high = math.log(min(lows)), math.log(max(highs))
    air = (high - low) * 0.04
    return math.exp(low - air), math.exp(high + air)


def _cut(row: dict[str, Any], low: float, high: float) -> dict[str, Any]:
    if row["low"] is None:
        return row
    more = {"beyond_low": low} if row["low"] < low else {}
    more |= {"beyond_high": high} if row["high"] > high else {}
    return row | more | {"low": max(row["low"], low), "high": min(row["high"], high)}


def _scale(channel: str, title: str, low: float, high: float) -> Any:
    kind = alt.X if channel == "x" else alt.Y
    wide = high / low > 2
    kind_of = {"type": "log"} if wide else {"zero": False}
    scale = alt.Scale(domain=[low, high], nice=False, **kind_of)
    return kind("ratio:Q", title=title, scale=scale, axis=alt.Axis(tickCount=6, format=".2~f" if wide else ".3~f"))


def _like(channel: Any, field: str) -> Any:
    """The same axis for another field."""
    copy = channel.copy()
    copy.shorthand = f"{field}:Q"
    return copy


def _band(channel: str, axis: Any) -> alt.Chart:
    edges = frame([{"low": 1 - MARGIN, "high": 1 + MARGIN}])
    place = {channel: _like(axis, "low"), f"{channel}2": "high:Q"}
    return alt.Chart(edges).mark_rect(style="margin").encode(**place)


def _line(channel: str, axis: Any) -> alt.Chart:
    return alt.Chart(frame([{"one": 1.0}])).mark_rule(style="reference").encode(**{channel: _like(axis, "one")})


def _arrows(base: alt.Chart, x: Any, y: alt.Y, variants: Variants) -> list[alt.Chart]:
    return [
        base.mark_point(shape=f"triangle-{side}", filled=True, size=70, opacity=1)
        .encode(x=_like(x, field), y=y, color=variants.color(None))
        .transform_filter(f"isValid(datum.{field})")
        for field, side in (("beyond_low", "left"), ("beyond_high", "right"))
    ]


def _quadrants() -> list[alt.Chart]:
    corners = [
        ("faster, less memory", "left", 6, 12), ("faster, more memory", "right", "width", 12),
        ("slower, less memory", "left", 6, "height"), ("slower, more memory", "right", "width", "height"),
    ]  # fmt: skip
    return [
        alt.Chart(frame([{}]))
        .mark_text(style="note", text=text, align=align, dx=-6 if align == "right" else 0, dy=-8 if y == "height" else 0)  # type: ignore[arg-type]
        .encode(x=alt.value(x), y=alt.value(y))
        for text, align, x, y in corners
    ]
