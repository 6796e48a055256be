"""Throughput, CPU and memory over the trial's time, with the borders of its steps."""

from typing import Any

import altair as alt
import polars as pl

from dballoc.analysis.tables.time_series import TimeSeries
from dballoc.report.charts.variant_marks import Figure, Variants, make_chart_data

_HEIGHT = 240

# Pixels of a line of text above the frame.
_LINE = 18

# More levels, or more letters of workloads' names, than these have no room above the frame.
_MOST, _LETTERS = 16, 80

# key: (name, axis, factor, what to know)
_MEASURES = {
    "tps": ("Throughput over time", "transactions per second", 1.0, ""),
    "user": ("User CPU over time", "user CPU of the server, % of one CPU", 1.0, ""),
    "rss": ("RSS over time", "RSS, MiB", 2.0**-20, ""),
    "usable": (
        "VSZ over time",
        "VSZ without reserved address space, MiB",
        2.0**-20,
        " Address space that is reserved but cannot be touched is left out: it costs nothing and "
        "would hide the rest.",
    ),
}


def draw_time_series(over_time: TimeSeries, variants: Variants, each: bool = True) -> list[Figure]:
    """Draw a chart for each measure; of throughput one for each workload if ``each``, as their
    transactions differ in size.
    """
    workloads = (
        over_time.steps["workload"].drop_nulls().unique(maintain_order=True).to_list()
        if each
        else []
    )
    speed = [
        _draw_measure(_select_workload(over_time, w), "tps", variants, f"-{w}", f", {w}")
        for w in workloads
    ]
    return [*speed, *(_draw_measure(over_time, key, variants) for key in ("user", "rss", "usable"))]


def _select_workload(over_time: TimeSeries, workload: str) -> TimeSeries:
    steps = over_time.steps.filter(pl.col("workload") == workload)
    return TimeSeries(steps, over_time.series.join(steps, on=["start", "step"], how="semi"))


def _draw_measure(
    over_time: TimeSeries, key: str, variants: Variants, suffix: str = "", of: str = ""
) -> Figure:
    name, title, scale, remark = _MEASURES[key]
    # Throughput and CPU begin anew with each step; memory goes on, as long as the server does.
    broken = key in ("tps", "user")
    rows = [
        {
            "variant": r["variant"], "second": r["second"], "value": r["value"] * scale,
            "run": f"{r['start']}.{r['step']}" if broken else str(r["start"]),
        }
        for r in over_time.series.filter(pl.col("measure") == key).iter_rows(named=True)
    ]  # fmt: skip
    ends = [
        float(end) for row in over_time.steps.select("begin", "end").iter_rows() for end in row
    ] or [0.0, 1.0]
    x = alt.X(
        "second:Q",
        title="seconds since the trial's first step",
        axis=alt.Axis(grid=False, tickMinStep=1, format="d"),
        scale=alt.Scale(domain=[min(ends), max(ends)], nice=False),
    )
    y = alt.Y(
        "value:Q", title=title, scale=alt.Scale(zero=True), axis=alt.Axis(format=",~r", tickCount=5)
    )
    borders = _make_step_layers(over_time.steps, x)
    # Above the frame stand the levels, and the workloads where there are several.
    legend = alt.Legend(offset=6 + _LINE * max(0, len(borders) - 2))
    line = (
        alt.Chart(make_chart_data(rows))
        .mark_line(strokeWidth=1.7)
        .encode(
            x=x,
            y=y,
            color=variants.encode_color(legend),
            strokeDash=variants.encode_dash(legend),
            detail=alt.Detail("run:N"),
        )
    )
    on_top = (
        "Numbers on top are client threads; grey"
        if _has_room_for_levels(over_time.steps)
        else "Dotted lines separate the levels; grey"
    )
    if over_time.steps["start"].n_unique() > 1:
        remark = f" The starts of the levels are drawn one after the other.{remark}"
    caption = f"Mean over trials, on a common clock. {on_top} is warm-up and idle time.{remark}"
    chart = alt.layer(*borders, line).properties(height=_HEIGHT)
    return Figure(f"time-{key}{suffix}", name + of, caption, chart)


def _has_room_for_levels(steps: pl.DataFrame) -> bool:
    """Whether the levels' numbers fit on top of a chart."""
    return steps.filter(pl.col("kind") == "level").height <= _MOST


def _make_step_layers(steps: pl.DataFrame, x: alt.X) -> list[alt.Chart]:
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
    rests = steps.filter(pl.col("kind") == "idle").iter_rows(named=True)
    idle = [{"second": (r["begin"] + r["end"]) / 2, "text": "idle"} for r in rests]
    text: dict[str, Any] = {"style": "note", "baseline": "bottom"}
    layers = [
        alt.Chart(make_chart_data(pauses))
        .mark_rect(style="pause")
        .encode(x=x, x2=alt.X2("until:Q")),
        alt.Chart(make_chart_data(borders)).mark_rule(style="border").encode(x=x),
        alt.Chart(make_chart_data(levels + idle))
        .mark_text(**text)
        .encode(x=x, y=alt.value(-5), text=alt.Text("text:N")),
    ]
    if not _has_room_for_levels(steps):
        return layers[:2]
    if workloads and sum(len(w["text"]) for w in workloads) <= _LETTERS:
        layers.append(
            alt.Chart(make_chart_data(workloads))
            .mark_text(**text, align="left")
            .encode(x=x, y=alt.value(-5 - _LINE), text=alt.Text("text:N"))
        )
    return layers
