"""Peak RSS ÷ cache against the size of the cache: a line for each malloc, a cross where the kernel
killed a server for its memory.
"""

from collections.abc import Sequence
from itertools import pairwise

from dballoc.document.charts import (
    GREY_POINTS,
    POINTS,
    Rows,
    Variants,
    draw,
    draw_points,
    encode_names,
    make_axis,
    make_chart,
    make_tips,
)
from dballoc.document.model import Figure
from dballoc.ground.numbers import with_unit
from dballoc.questions.campaign.figures.cache_sizes import CacheLine, CacheSize

_HEIGHT = 320

# The points that the curve of the memory limit is drawn through, and each piece of a line.
_CURVE = 60
_PIECE = 20

# How sizes are written: Vega rounds a format without a precision to the distance of the ticks.
_EXACT = ",.6~r"

# Left free above the highest ratio, and beside the smallest and largest cache, as shares.
_AIR = 0.08
_MARGIN = 0.04

_OUTCOMES = {"survived": "circle", "killed for memory": "cross"}


def draw_cache_sizes(lines: Sequence[CacheLine], limit: int | None) -> Figure:
    """Draw every size of every line. ``limit``: the bytes that a server may have, None if as much
    as it takes.
    """
    points: Rows = [row for line in lines for size in line.sizes for row in _make_rows(size, limit)]
    sizes = sorted({size.size for line in lines for size in line.sizes})
    unit, name = (2**30, "GiB") if sizes[0] >= 2**30 else (2**20, "MiB")
    for row in points:
        row["cache"] = row["size"] / unit
    margin = _MARGIN * (sizes[-1] - sizes[0])
    ends = [(sizes[0] - margin) / unit, (sizes[-1] + margin) / unit]
    top = max((row["ratio"] for row in points), default=1.0) * (1 + _AIR)
    x = make_axis(
        "cache", f"cache, {name}", {"domain": ends, "nice": False},
        values=[size / unit for size in sizes], format=_EXACT, grid=False,
    )  # fmt: skip
    y = make_axis("ratio", "peak RSS ÷ cache", {"domain": [0, top], "nice": True})
    variants = Variants([line.name for line in lines])
    curve = _compute_limit_curve(limit, ends, unit) if limit else []
    dashed = {"style": "reference", "strokeDash": [4, 4], "clip": True}
    # Beside the curve where it comes into the frame.
    label = [row | {"text": "memory limit"} for row in curve if row["ratio"] <= top][:1]
    note = {"style": "note", "align": "left", "baseline": "middle", "dx": 8}
    text = {"field": "text", "type": "nominal"}
    paths = [row for line in lines for row in _interpolate(line, unit)]
    layers = [
        draw([{"ratio": 1.0}], "rule", style="reference", y=y),
        *([draw(curve, "line", **dashed, x=x, y=y)] if curve else []),
        *([draw(label, "text", **note, x=x, y=y, text=text)] if label else []),
        draw(paths, "line", strokeWidth=1.8, x=x, y=y, **variants.encode_lines(POINTS)),
        draw_points(
            points, 90, x=x, y=y, **variants.encode_color(POINTS),
            shape=encode_names(
                "outcome", _OUTCOMES, list(_OUTCOMES.values()), legend=GREY_POINTS
            ),
            tooltip=make_tips({"variant": "", "words": "trials"}),
        ),
    ]  # fmt: skip
    caption = (
        "Mean over the trials that ended as planned; between two sizes RSS is taken to grow "
        "evenly. The line at 1 is the cache itself."
    )
    if curve:
        caption += f" The dashed curve is the memory limit, {with_unit(limit)}."
    caption += (
        " A cross: a trial was killed for its memory, at the highest RSS that was seen of it."
    )
    return Figure("cache-sizes", "Peak RSS ÷ cache", caption, make_chart(_HEIGHT, layers))


def _make_rows(size: CacheSize, limit: int | None) -> Rows:
    """Return a point for the trials that survived, and one for those that were killed; of a killed
    server whose RSS was never seen, at the limit.
    """
    rows: Rows = []
    point = {"variant": size.line, "size": size.size}
    if size.ratio is not None:
        words = f"{size.ratio:.2f} times {with_unit(size.size)}"
        rows.append(point | {"ratio": size.ratio, "outcome": "survived", "words": words})
    killed_at = size.killed_at or limit
    if size.kills and killed_at:
        words = f"{size.kills} of {size.trials} killed with {with_unit(size.size)} of cache"
        outcome = "killed for memory"
        rows.append(point | {"ratio": killed_at / size.size, "outcome": outcome, "words": words})
    return rows


def _interpolate(line: CacheLine, unit: int) -> Rows:
    """Return the points that a line is drawn through. Between two sizes RSS is taken to grow
    evenly: a line crosses the memory limit only if one of its ends lies beyond.
    """
    rows: Rows = []
    for first, last in pairwise(line.survivors):
        assert first.peak is not None and last.peak is not None
        for step in range(_PIECE + 1):
            share = step / _PIECE
            size = first.size + (last.size - first.size) * share
            peak = first.peak + (last.peak - first.peak) * share
            rows.append({"variant": line.name, "cache": size / unit, "ratio": peak / size})
    return rows


def _compute_limit_curve(limit: int, ends: list[float], unit: int) -> Rows:
    first, last = ends
    sizes = [first + (last - first) * step / _CURVE for step in range(_CURVE + 1)]
    return [{"cache": size, "ratio": limit / (size * unit)} for size in sizes]
