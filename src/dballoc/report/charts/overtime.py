"""Throughput, CPU and memory over the trial's time, with the borders of its steps."""

import math
from statistics import median
from typing import Any

import polars as pl

from dballoc.analysis.tables.time_series import TimeSeries
from dballoc.document.charts import Channel, Layer, Rows, Variants, draw, make_axis, make_chart
from dballoc.document.model import Figure
from dballoc.numbers import duration
from dballoc.report.charts.levels import is_another_figure

_HEIGHT = 240

# Pixels of a line of text above the frame.
_LINE = 18

# More levels, or more letters of workloads' names, than these have no room above the frame.
_MOST, _LETTERS = 16, 80

# Throughput and CPU begin anew with each step; memory goes on, as long as the server does.
_BROKEN = frozenset({"tps", "qps", "host_user", "user"})

# key: (name, axis, factor, what to know)
_MEASURES = {
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
    name, title, scale, remark = _MEASURES[key]
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
    chart = make_chart(_HEIGHT, [*_make_panel_layers(panels, x), line])
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
    name, title, scale, remark = _MEASURES[key]
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
    chart = make_chart(_HEIGHT, [*borders, line])
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
