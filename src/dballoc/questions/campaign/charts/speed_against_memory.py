"""Speed against memory: every variant as a point with its intervals both ways, the baseline at (1,
1).
"""

import math
from collections.abc import Sequence
from typing import Any

from dballoc.document.charts import (
    POINTS,
    WIDTH,
    Channel,
    Layer,
    Rows,
    Variants,
    draw,
    draw_points,
    is_valid,
    make_chart,
    make_tips,
    span,
)
from dballoc.document.model import Figure
from dballoc.ground.numbers import percent
from dballoc.questions.compare import baseline_comparison
from dballoc.questions.compare.answer_words import describe_verdict
from dballoc.questions.compare.baseline_comparison import Comparisons
from dballoc.questions.compare.measures import Metric
from dballoc.questions.compare.ratio_charts import (
    compute_ratio_range,
    draw_ratio_frame,
    make_ratio_axis,
)
from dballoc.questions.compare.ratios_as_text import format_ratio

_HEIGHT = 380

# Of a label, in pixels, for finding a free place: a letter's width, and a line's height.
_LETTER, _LINE = 7.0, 15.0

# Left, top, right and bottom in pixels.
_Box = tuple[float, float, float, float]

# From a point to its label: (right or left, below or above), the preferred first.
_SIDES = ((1, -1), (1, 1), (-1, -1), (-1, 1))


def draw_speed_against_memory(
    comparisons: Comparisons, metric: Metric, variants: Variants
) -> Figure:
    """Draw every variant's speed against its peak RSS. ``metric``: what tells the speed of its
    workload; what costs less is drawn as faster.
    """
    peak = next(m for m in comparisons.metrics if m.question == "memory")
    baseline = comparisons.baseline
    rows = _make_rows(comparisons, metric, peak, variants.names)
    ends_x, ends_y = (compute_ratio_range(_select_axis(rows, axis)) for axis in "xy")
    speed_title = "throughput" if metric.better == "higher" else "transactions per CPU second"
    axes = {
        "x": make_ratio_axis(f"{speed_title}, ratio to {baseline} (faster →)", *ends_x),
        "y": make_ratio_axis(f"peak RSS, ratio to {baseline}", *ends_y),
    }
    points = [(r["variant"], *_locate(r["x"], r["y"], ends_x, ends_y)) for r in rows]
    across, up = _locate(1.0, 1.0, ends_x, ends_y)
    lines = [(across - 1, 0.0, across + 1, float(_HEIGHT)), (0.0, up - 1, float(WIDTH), up + 1)]
    placed = place_labels(
        points, [*lines, *(bar for r in rows for bar in _compute_bar_boxes(r, ends_x, ends_y))]
    )
    rows = [row | place for row, place in zip(rows, placed, strict=True)]
    levels = " and ".join(
        dict.fromkeys(percent(comparisons.confidence(m), 2) for m in (metric, peak))
    )
    caption = (
        f"{metric.title}, against peak RSS. Bars: intervals at {levels}; the bands are ±1 % around "
        f"{baseline}. Below and to the right is better. The distance between two points is their "
        "ratio, whose interval is under Every pair."
    )
    chart = make_chart(_HEIGHT, _make_layers(rows, axes, variants, speed_title))
    key = f"speed-memory-{metric.key.replace(':', '-')}"
    return Figure(key, f"Speed against memory, {metric.workload}", caption, chart)


def _make_rows(
    comparisons: Comparisons, metric: Metric, peak: Metric, names: list[str]
) -> list[dict[str, Any]]:
    """Return a row for the baseline and for each variant that has both ratios."""
    baseline = comparisons.baseline
    rows: list[dict[str, Any]] = [
        {
            "variant": baseline,
            "x": 1.0,
            "y": 1.0,
            "speed": "1, the baseline",
            "memory": "1, the baseline",
        }
    ]
    for name in names[1:]:
        fast, small = comparisons.find(name, metric), comparisons.find(name, peak)
        ratio, speed = small.ratio, baseline_comparison.compute_speed(fast)
        if ratio and speed:
            ends = {"xlow": speed.low, "xhigh": speed.high} if speed.interval else {}
            ends |= {"ylow": ratio.low, "yhigh": ratio.high} if ratio.interval else {}
            rows.append(
                {
                    "variant": name,
                    "x": speed.estimate,
                    "y": ratio.estimate,
                    **ends,
                    "speed": f"{format_ratio(speed.estimate, speed.low, speed.high)}, "
                    f"{describe_verdict(fast, comparisons)}",
                    "memory": f"{format_ratio(ratio.estimate, ratio.low, ratio.high)}, "
                    f"{describe_verdict(small, comparisons)}",
                }
            )
    return rows


def _make_layers(
    rows: Rows, axes: dict[str, Channel], variants: Variants, speed_title: str
) -> list[Layer]:
    """Return the bands, the lines at 1, the corners' notes, the intervals, points and labels."""
    tip = make_tips({"variant": "", "speed": speed_title, "memory": "peak RSS"})
    at = {axis: channel | {"field": axis} for axis, channel in axes.items()}
    rule = {"strokeWidth": 2, "clip": True, **variants.encode_color(POINTS)}
    return [
        *draw_ratio_frame(**axes),
        *_draw_corner_notes(),
        *(
            draw(
                rows, "rule", is_valid(f"{axis}low"),
                **at | span(axis, channel, f"{axis}low", f"{axis}high") | rule,
            )
            for axis, channel in axes.items()
        ),
        draw_points(rows, 110, tooltip=tip, **at, **variants.encode_points(POINTS)),
        *(
            draw(
                rows, "text", f"datum.right === {right} && datum.below === {below}",
                style="label", align="left" if right > 0 else "right", baseline="middle",
                dx=10 * right, dy=12 * below, **at, text={"field": "variant", "type": "nominal"},
            )
            for right, below in _SIDES
        ),
    ]  # fmt: skip


def place_labels(
    points: list[tuple[str, float, float]], bars: Sequence[_Box] = ()
) -> list[dict[str, int]]:
    """Return for each (name, x, y in pixels) the side of the point where its label overlaps least
    with other points, labels and bars.
    """
    occupied = [(x - 6, y - 6, x + 6, y + 6) for _, x, y in points] + list(bars)
    sides = []
    for name, x, y in points:
        boxes = [_compute_label_box(name, x, y, *side) for side in _SIDES]
        cost = [
            _compute_cut_off(box) + sum(_compute_overlap(box, other) for other in occupied)
            for box in boxes
        ]
        best = min(range(len(boxes)), key=lambda i: (round(cost[i]), i))
        occupied.append(boxes[best])
        sides.append({"right": _SIDES[best][0], "below": _SIDES[best][1]})
    return sides


def _compute_label_box(name: str, x: float, y: float, right: int, below: int) -> _Box:
    start = x + 8 if right > 0 else x - 8 - _LETTER * len(name)
    top = y + 4 if below > 0 else y - 4 - _LINE
    return start, top, start + _LETTER * len(name), top + _LINE


def _compute_overlap(a: _Box, b: _Box) -> float:
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def _compute_cut_off(box: _Box) -> float:
    """Return the pixels that the frame would cut off, weighed so that such a place comes last."""
    return 100 * (
        max(0.0, -box[0])
        + max(0.0, box[2] - WIDTH)
        + max(0.0, -box[1])
        + max(0.0, box[3] - _HEIGHT)
    )


def _select_axis(rows: list[dict[str, Any]], axis: str) -> list[dict[str, Any]]:
    return [
        {"ratio": r[axis], "low": r.get(f"{axis}low"), "high": r.get(f"{axis}high")} for r in rows
    ]


def _locate(
    x: float, y: float, ends_x: tuple[float, float], ends_y: tuple[float, float]
) -> tuple[float, float]:
    """Return about where a ratio lies, in pixels; the axes take some of the width. One beyond the
    frame lies on its edge.
    """
    across, up = (
        min(1.0, max(0.0, math.log(max(value, low) / low) / math.log(high / low)))
        for value, (low, high) in ((x, ends_x), (y, ends_y))
    )
    return across * (WIDTH - 60), (1 - up) * _HEIGHT


def _compute_bar_boxes(
    row: dict[str, Any], ends_x: tuple[float, float], ends_y: tuple[float, float]
) -> list[_Box]:
    """Return a point's two bars, as thin boxes."""
    spans = []
    if "xlow" in row:
        spans.append((row["xlow"], row["y"], row["xhigh"], row["y"]))
    if "ylow" in row:
        spans.append((row["x"], row["yhigh"], row["x"], row["ylow"]))
    boxes = []
    for x, y, to_x, to_y in spans:
        (left_edge, top_edge), (right_edge, bottom_edge) = (
            _locate(x, y, ends_x, ends_y),
            _locate(to_x, to_y, ends_x, ends_y),
        )
        boxes.append((left_edge - 1.5, top_edge - 1.5, right_edge + 1.5, bottom_edge + 1.5))
    return boxes


def _draw_corner_notes() -> list[Layer]:
    """Draw what each corner means, the better one in front."""
    corners: list[tuple[str, str, str | int, str | int, str]] = [
        ("better: faster, less memory", "right", "width", "height", "label"),
        ("faster, more memory", "right", "width", 12, "note"),
        ("slower, less memory", "left", 6, "height", "note"),
        ("slower, more memory", "left", 6, 12, "note"),
    ]
    return [
        draw(
            [{}], "text", style=style, text=text, align=align, dx=-6 if align == "right" else 0,
            dy=-8 if y == "height" else 0, x={"value": x}, y={"value": y},
        )
        for text, align, x, y, style in corners
    ]  # fmt: skip
