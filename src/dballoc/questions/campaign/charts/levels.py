"""Curves over the number of client threads, or of CPUs, each with its intervals; and throughput,
CPU and memory over the trial's time, with the borders of its steps.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import polars as pl

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
from dballoc.ground.numbers import duration
from dballoc.questions.campaign.figures.time_series import TimeSeries
from dballoc.questions.compare.measures import OF_LEVEL, THROUGHPUT, Measure
from dballoc.questions.compare.ratio_charts import draw_ratio_frame
from dballoc.questions.compare.ratios_as_text import format_mean

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
    :func:`dballoc.questions.campaign.figures.level_curves.average_levels`.
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
    :func:`dballoc.questions.campaign.figures.over_cpus.average_throughput`. ``title``: at which
    level.
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
    :func:`dballoc.questions.campaign.figures.level_curves.compute_relative_levels`; or TPS, where
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


_TIME_HEIGHT = 240

# Pixels of a line of text above the frame.
_LINE = 18

# More levels, or more letters of workloads' names, than these have no room above the frame.
_MOST, _LETTERS = 16, 80

# Throughput and CPU begin anew with each step; memory goes on, as long as the server does.
_BROKEN = frozenset({"tps", "qps", "host_user", "user"})

# key: (name, axis, factor, what to know)
_OVER_TIME = {
    "tps": ("Transactions over time", "transactions per second", 1.0, ""),
    "qps": ("Queries over time", "queries per second", 1.0, ""),
    "host_user": (
        "User CPU over time",
        "user CPU of the whole host, % of all CPUs",
        1.0,
        " Of all that ran on the server's host, the clients too unless they had one to themselves.",
    ),
    "user": ("User CPU over time", "user CPU of the server, % of one CPU", 1.0, ""),
    "rss": ("RSS over time", "RSS, MiB", 2.0**-20, ""),
    "vsz": (
        "VSZ over time",
        "VSZ, MiB",
        2.0**-20,
        " The whole address space, as ps shows it, whether it was touched or not; without what a "
        "server reserves by the terabyte when it starts.",
    ),
}


def draw_time_series(over_time: TimeSeries, variants: Variants, each: bool = True) -> list[Figure]:
    """Draw queries, user CPU, RSS and VSZ over time, and transactions where they are another figure
    than queries: if ``each``, a chart for each workload with its levels side by side, and RSS and
    VSZ over the whole trial; otherwise, as for very many workloads, charts over the whole trial
    alone, and none of throughput, as statements differ in size.
    """
    # Where nothing is known of the host: the server's.
    user = "host_user" if "host_user" in set(over_time.series["measure"]) else "user"
    if not each:
        return [_draw_whole_trial(over_time, key, variants) for key in (user, "rss", "vsz")]
    measured_steps = over_time.steps.filter(kind="level")
    workloads = measured_steps["workload"].unique(maintain_order=True).to_list()
    levels = [
        _draw_levels(over_time, key, variants, workload)
        for workload in workloads
        for key in (*_choose_throughput(over_time, workload), user, "rss", "vsz")
    ]
    return [*levels, *(_draw_whole_trial(over_time, key, variants) for key in ("rss", "vsz"))]


def _choose_throughput(over_time: TimeSeries, workload: str) -> list[str]:
    """Return the measures of throughput that a workload has charts of."""
    steps = over_time.steps.filter(workload=workload)
    rates = over_time.series.join(steps.select("start", "step"), on=["start", "step"])
    tps, qps = (math.fsum(rates.filter(measure=measure)["value"]) for measure in ("tps", "qps"))
    return ["tps", "qps"] if is_another_figure(tps, qps) else ["qps"]


def _draw_levels(over_time: TimeSeries, key: str, variants: Variants, workload: str) -> Figure:
    """Draw a measure in each level of a workload: a panel a level, all with the same axes."""
    name, title, scale, remark = _OVER_TIME[key]
    panels = _lay_out_panels(over_time.steps, workload)
    offsets = {(p["start"], p["step"]): p["second"] - p["begin"] for p in panels}
    rows = [
        {
            "variant": r["variant"],
            "second": r["second"] + offsets[r["start"], r["step"]],
            "value": r["value"] * scale,
            "run": f"{r['start']}.{r['step']}",
        }
        for r in over_time.series.filter(measure=key).iter_rows(named=True)
        if (r["start"], r["step"]) in offsets
    ]
    end = panels[-1]["until"] if panels else 1.0
    length = median(p["until"] - p["second"] for p in panels) if panels else 0.0
    x = make_axis(
        "second",
        f"time in a level, {duration(length)} from border to border; client threads on top",
        {"domain": [0, end], "nice": False},
        grid=False,
        labels=False,
        ticks=False,
    )
    caption = f"Mean over trials. A panel a level; all have the same axes.{remark}"
    line = _draw_lines(rows, x, title, variants, {"offset": 6 + _LINE})
    chart = make_chart(_TIME_HEIGHT, [*_make_panel_layers(panels, x), line])
    return Figure(f"time-{key.replace('_', '-')}-{workload}", f"{name}, {workload}", caption, chart)


def _lay_out_panels(steps: pl.DataFrame, workload: str) -> list[dict[str, Any]]:
    """Return a workload's levels one beside the other, from 0 on: each from ``second`` to
    ``until``.
    """
    levels = steps.filter(workload=workload, kind="level")
    panels, second = [], 0.0
    for step in levels.sort("start", "step").iter_rows(named=True):
        until = second + step["end"] - step["begin"]
        panels.append({**step, "second": second, "until": until})
        second = until
    return panels


def _make_panel_layers(panels: list[dict[str, Any]], x: Channel) -> list[Layer]:
    """Return the borders between panels, and the numbers of client threads on top. Where there are
    more panels than have room, every second or third has its number.
    """
    borders = [{"second": p["second"]} for p in panels]
    numbers = [
        {"second": (p["second"] + p["until"]) / 2, "text": str(p["threads"])}
        for p in panels[:: max(1, -(-len(panels) // _MOST))]
    ]
    return [draw(borders, "rule", style="border", x=x), _write_on_top(numbers, x)]


def _write_on_top(rows: Rows, x: Channel, line: int = 0, **mark: Any) -> Layer:
    """Write texts above the frame, on that line."""
    y, text = {"value": -5 - line * _LINE}, {"field": "text", "type": "nominal"}
    return draw(rows, "text", style="note", baseline="bottom", x=x, y=y, text=text, **mark)


def _draw_lines(rows: Rows, x: Channel, title: str, variants: Variants, legend: Channel) -> Layer:
    y = make_axis("value", title, {"zero": True}, format=",~r", tickCount=5)
    detail = {"field": "run", "type": "nominal"}
    lines = variants.encode_lines(legend)
    return draw(rows, "line", strokeWidth=1.7, x=x, y=y, detail=detail, **lines)


def _draw_whole_trial(over_time: TimeSeries, key: str, variants: Variants) -> Figure:
    """Draw a measure from the trial's first step to its last, warm-up and idle time included."""
    name, title, scale, remark = _OVER_TIME[key]
    rows = [
        {
            "variant": r["variant"], "second": r["second"], "value": r["value"] * scale,
            "run": f"{r['start']}.{r['step']}" if key in _BROKEN else str(r["start"]),
        }
        for r in over_time.series.filter(measure=key).iter_rows(named=True)
    ]  # fmt: skip
    ends = [
        float(end) for row in over_time.steps.select("begin", "end").iter_rows() for end in row
    ] or [0.0, 1.0]
    x = make_axis(
        "second",
        "seconds since the trial's first step",
        {"domain": [min(ends), max(ends)], "nice": False},
        grid=False,
        tickMinStep=1,
        format="d",
    )
    borders = _make_step_layers(over_time.steps, x)
    # Above the frame stand the levels, and the workloads where there are several.
    legend = {"offset": 6 + _LINE * max(0, len(borders) - 2)}
    on_top = (
        "Numbers on top are client threads; grey"
        if _has_room_for_levels(over_time.steps)
        else "Dotted lines separate the levels; grey"
    )
    if over_time.steps["start"].n_unique() > 1:
        remark = f" The starts of the levels are drawn one after the other.{remark}"
    caption = f"Mean over trials, on a common clock. {on_top} is warm-up and idle time.{remark}"
    line = _draw_lines(rows, x, title, variants, legend)
    chart = make_chart(_TIME_HEIGHT, [*borders, line])
    return Figure(f"time-{key.replace('_', '-')}", f"{name}, from start to end", caption, chart)


def _has_room_for_levels(steps: pl.DataFrame) -> bool:
    """Whether the levels' numbers fit on top of a chart."""
    return steps.filter(kind="level").height <= _MOST


def _make_step_layers(steps: pl.DataFrame, x: Channel) -> list[Layer]:
    """Return the borders of the steps, their labels, and which of them are not measured."""
    rows = steps.iter_rows(named=True)
    pauses, borders, levels, workloads = [], [], [], []
    several = steps["workload"].drop_nulls().n_unique() > 1
    labelled: set[tuple[int, str]] = set()
    for r in rows:
        if r["kind"] != "level":
            pauses.append({"second": r["begin"], "until": r["end"]})
            continue
        borders += [{"second": r["begin"]}, {"second": r["end"]}]
        levels.append({"second": (r["begin"] + r["end"]) / 2, "text": str(r["threads"])})
        if several and (r["start"], r["workload"]) not in labelled:
            labelled.add((r["start"], r["workload"]))
            workloads.append({"second": r["begin"], "text": r["workload"]})
    rests = steps.filter(kind="idle").iter_rows(named=True)
    idle = [{"second": (r["begin"] + r["end"]) / 2, "text": "idle"} for r in rests]
    layers = [
        draw(pauses, "rect", style="pause", x=x, x2={"field": "until"}),
        draw(borders, "rule", style="border", x=x),
    ]
    if not _has_room_for_levels(steps):
        return layers
    layers.append(_write_on_top(levels + idle, x))
    if workloads and sum(len(w["text"]) for w in workloads) <= _LETTERS:
        layers.append(_write_on_top(workloads, x, 1, align="left"))
    return layers
