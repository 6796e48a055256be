"""Curves over the number of client threads, or of CPUs, each with its intervals."""

import math
from dataclasses import dataclass
from itertools import pairwise

import polars as pl

from dballoc.analysis.measures import OF_LEVEL, THROUGHPUT, Measure
from dballoc.document.charts import (
    AMOUNTS,
    POINTS,
    Channel,
    Layer,
    Rows,
    Variants,
    draw,
    draw_points,
    is_valid,
    make_axis,
    make_chart,
    make_tips,
    span,
)
from dballoc.document.model import Figure
from dballoc.report.charts.ratios import draw_ratio_frame
from dballoc.report.wording.ratios_as_text import format_mean

# A latency that grows by more than this over the levels is drawn on a logarithmic axis.
_WIDE = 30.0

# An interval beyond this many times the highest mean is cut: one from two blocks may be any size.
_CUT = 2.0

# How far the points of a level are spread, as a share of the way to the next level.
_APART = 0.14

_HEIGHT = 280

# Left free above and below ratios.
_AIR = 0.02


@dataclass(frozen=True, kw_only=True)
class Axis:
    """What a curve is drawn against, a field of its rows; ``tip``: more fields that a point tells
    of itself.
    """

    field: str
    title: str
    tip: tuple[str, ...] = ()


THREADS = Axis(field="threads", title="client threads (log scale)")

# A transaction of more queries than this has a chart of its own for queries.
_ONE_QUERY = 1.05


def has_measure(summary: pl.DataFrame, workload: str, measure: Measure) -> bool:
    """Whether a measure has any figure: a client may report no response times."""
    return summary.filter(measure=measure.levels, workload=workload).height > 0


def list_charted(summary: pl.DataFrame, workload: str, group: str) -> list[Measure]:
    """Return the measures of a group that have a chart and figures, those by operation first."""
    charted = [
        measure
        for measure in OF_LEVEL.values()
        if measure.group == group and measure.chart and has_measure(summary, workload, measure)
    ]
    return sorted(charted, key=lambda m: m.per != "window_events")


def has_many_queries(summary: pl.DataFrame, workload: str) -> bool:
    """Whether a transaction is more than one query, so that QPS is another figure than TPS."""
    of_workload = summary.filter(workload=workload)
    tps, qps = (
        math.fsum(of_workload.filter(measure=measure)["mean"]) for measure in ("tps", "qps")
    )
    return is_another_figure(tps, qps)


def is_another_figure(tps: float, qps: float) -> bool:
    """Whether queries per second are another figure than transactions per second."""
    return qps > _ONE_QUERY * tps


def draw_curve(
    summary: pl.DataFrame, workload: str, measure: Measure, variants: Variants
) -> Figure:
    """Draw a measure against threads, from
    :func:`dballoc.analysis.tables.level_curves.average_levels`.
    """
    measure_rows = summary.filter(measure=measure.levels, workload=workload)
    rows = [
        {
            "variant": r["variant"], "threads": r["threads"], "n": r["n"],
            **{k: None if r[k] is None else r[k] * measure.scale for k in ("mean", "low", "high")},
        }
        for r in measure_rows.iter_rows(named=True)
    ]  # fmt: skip
    values = [r["mean"] for r in rows if r["mean"] > 0] or [1.0]
    logarithmic = measure.logarithmic and max(values) > _WIDE * min(values)
    highest = max(r["high"] or r["mean"] for r in rows) if rows else 1.0
    top = min(highest, _CUT * max(values))
    if logarithmic:
        scale = {"type": "log", "domain": [min(values) / 2, top], "nice": False}
        for r in rows:
            r["low"] = None if r["low"] is None else max(r["low"], min(values) / 2)
    else:
        scale = {"domain": [0, top], "nice": True}
    title = measure.axis + (" (log scale)" if logarithmic else "")
    caption = (
        "Mean over blocks with its 95 % interval; the points of a level are set a little apart."
    )
    caption += " Intervals that leave the frame are cut." if highest > top else ""
    y = make_axis("mean", title, scale, **AMOUNTS)
    return Figure(
        f"{measure.levels.replace('_', '-')}-{workload}",
        f"{measure.chart}, {workload}",
        caption,
        make_chart(_HEIGHT, _make_curve_layers(rows, y, variants)),
    )


def draw_cpu_curve(points: pl.DataFrame, workload: str, title: str, key: str) -> Figure:
    """Draw throughput against CPUs, a line for each allocator, from
    :func:`dballoc.analysis.tables.level_curves.average_throughput`. ``title``: at which level.
    """
    rows = [
        {k: r[k] for k in ("variant", "cpus", "n", "mean", "low", "high", "threads")}
        for r in points.filter(workload=workload).iter_rows(named=True)
    ]
    highest = max((r["high"] or r["mean"] for r in rows), default=1.0)
    top = min(highest, _CUT * max((r["mean"] for r in rows), default=1.0))
    y = make_axis("mean", THROUGHPUT.axis, {"domain": [0, top], "nice": True}, **AMOUNTS)
    variants = Variants(list(dict.fromkeys(r["variant"] for r in rows)))
    axis = Axis(field="cpus", title="CPUs (log scale)", tip=("threads",))
    chart = make_chart(_HEIGHT, _make_curve_layers(rows, y, variants, axis))
    caption = (
        "A line is the variants that differ in their CPUs alone: mean over blocks with its 95 % "
        "interval; the points of a number of CPUs are set a little apart."
    )
    caption += " Intervals that leave the frame are cut." if highest > top else ""
    return Figure(f"{key}-{workload}", f"{title}, {workload}", caption, chart)


def draw_relative_curve(
    ratios: pl.DataFrame, workload: str, variants: Variants, measure_name: str = "QPS"
) -> Figure:
    """Draw QPS of every variant ÷ QPS of the baseline against threads, from
    :func:`dballoc.analysis.tables.level_curves.compute_relative_levels`; or TPS, where
      ``measure_name`` says so.
    """
    rows = [
        {**{k: r[k] for k in ("variant", "threads", "n", "low", "high")}, "mean": r["ratio"]}
        for r in ratios.filter(workload=workload).iter_rows(named=True)
    ]
    means = [r["mean"] for r in rows] + [0.95, 1.05]
    low = min([*means, *(max(r["low"], 1 / _CUT) for r in rows if r["low"] is not None)])
    high = max([*means, *(min(r["high"], _CUT) for r in rows if r["high"] is not None)])
    scale = {"domain": [low - _AIR, high + _AIR], "nice": False, "zero": False}
    title = f"{measure_name}, ratio to {variants.names[0]}"
    y = make_axis("mean", title, scale, format=".2f", tickCount=6)
    layers = [*draw_ratio_frame(y=y), *_make_curve_layers(rows, y, variants)]
    caption = (
        f"Ratio to {variants.names[0]}, block by block, with its 95 % interval; the band is ±1 %. "
        "The axis does not begin at zero."
    )
    return Figure(
        f"relative-{measure_name.lower()}-{workload}",
        f"Relative {measure_name}, {workload}",
        caption,
        make_chart(_HEIGHT, layers),
    )


def _make_curve_layers(
    rows: Rows, y: Channel, variants: Variants, axis: Axis = THREADS
) -> list[Layer]:
    levels = sorted({r[axis.field] for r in rows})
    for r in rows:
        r["x"] = r[axis.field] * _compute_nudge(
            levels, variants.names.index(r["variant"]), len(variants.names)
        )
        r["words"] = format_mean(r["mean"], r["low"], r["high"])
    domain = [levels[0] / 1.5, levels[-1] * 1.5] if levels else [1, 2]
    scale = {"type": "log", "base": 2, "domain": domain, "nice": False}
    x = make_axis("x", axis.title, scale, values=levels, format="d", grid=False)
    tip = {"variant": "", f"{axis.field}:Q": "", **dict.fromkeys(axis.tip, "")}
    tip |= {"words": "mean and interval", "n:Q": "blocks"}
    color, lines = variants.encode_color(POINTS), variants.encode_lines(POINTS)
    points, ends = variants.encode_points(POINTS), span("y", y)
    return [
        draw(rows, "line", strokeWidth=1.8, clip=True, x=x, y=y, **lines),
        draw(rows, "rule", is_valid("low"), strokeWidth=1.5, clip=True, x=x, **ends, **color),
        draw_points(rows, 60, x=x, y=y, **points, tooltip=make_tips(tip)),
    ]


def _compute_nudge(levels: list[int], place: int, places: int) -> float:
    """Return the factor by which a variant's points are moved along the logarithmic axis."""
    gaps = [math.log(b / a) for a, b in pairwise(levels)]
    reach = min([*gaps, math.log(2)]) * _APART
    return math.exp(reach * (place / (places - 1) - 0.5)) if places > 1 else 1.0
