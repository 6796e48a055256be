"""Charts of a search: every configuration in memory against cost, and the path of the search."""

from typing import Any

import altair as alt

from dballoc.analysis.tune.estimated_front import Estimated
from dballoc.analysis.tune.search_history import compare_with_default, convert_to_ratio
from dballoc.analysis.tune.tuned import Tuned
from dballoc.document.charts import POINTS, Variants, make_chart_data
from dballoc.document.model import Figure
from dballoc.report.charts.axes import copy_axis_for_field
from dballoc.report.wording.ratios_as_text import format_ratio

_HEIGHT = 320
_ON_FRONT, _BEHIND = "on the front", "behind it"


def draw_front(tuned: Tuned, bases: Variants) -> Figure:
    """Draw what is likely of every configuration, as ratios to its base's default, and the front,
    whose configurations have their intervals.
    """
    rows = [_make_front_row(e) for e in tuned.estimates if e.standing.base in bases.names]
    base = alt.Chart(make_chart_data(rows))
    axis = alt.Axis(format=".2f", tickCount=6)
    x = alt.X("memory:Q", title="peak RSS ÷ default", scale=alt.Scale(zero=False), axis=axis)
    y = alt.Y(
        "cost:Q", title="CPU per transaction ÷ default", scale=alt.Scale(zero=False), axis=axis
    )
    color = bases.encode_color(POINTS)
    bars = base.transform_filter(f"datum.place === '{_ON_FRONT}'").mark_rule(opacity=0.6)
    points = base.mark_point(filled=True, size=70, opacity=0.8).encode(
        x=x,
        y=y,
        color=color,
        shape=alt.Shape(
            "place:N",
            title=None,
            scale=alt.Scale(domain=[_ON_FRONT, _BEHIND], range=["diamond", "circle"]),
            legend=alt.Legend(symbolStrokeWidth=0, symbolFillColor="#808080"),
        ),
        tooltip=[
            alt.Tooltip("name:N"),
            alt.Tooltip("settings:N"),
            alt.Tooltip("likely:N"),
            alt.Tooltip("chance:Q", title="on the front", format=".0%"),
        ],
    )
    chart = alt.layer(
        bars.encode(x=copy_axis_for_field(x, "memory_low"), x2="memory_high:Q", y=y, color=color),
        bars.encode(y=copy_axis_for_field(y, "cost_low"), y2="cost_high:Q", x=x, color=color),
        points,
    )
    caption = (
        "A point is what is likely of a configuration, by the estimate that chose the finalists; "
        "left and below is better. Bars: intervals at 95 % of those on the front. These are search "
        "figures of short trials, no verdicts."
    )
    return Figure("front", "Memory against CPU", caption, chart.properties(height=_HEIGHT))


def _make_front_row(estimated: Estimated) -> dict[str, Any]:
    standing = estimated.standing
    memory, cost = estimated.memory.ratios, estimated.cost.ratios
    return {
        "variant": standing.base,
        "name": standing.variant,
        **dict(zip(("memory", "memory_low", "memory_high"), memory, strict=True)),
        **dict(zip(("cost", "cost_low", "cost_high"), cost, strict=True)),
        "place": _ON_FRONT if estimated.on_front else _BEHIND,
        "chance": estimated.front_chance,
        "settings": ", ".join(f"{n} = {v}" for n, v in standing.parameters.items()) or "defaults",
        "likely": f"peak RSS × {format_ratio(*memory)}; CPU × {format_ratio(*cost)}",
    }


def draw_path(tuned: Tuned, bases: Variants) -> Figure:
    """Draw peak RSS of every trial in their order."""
    rows = []
    for trial in tuned.tried:
        ratios = compare_with_default(trial, tuned.tried)
        if trial.stage == "server" and ratios is not None:
            rows.append(
                {
                    "variant": trial.base,
                    "number": trial.number,
                    "memory": convert_to_ratio(ratios.memory),
                    "name": f"{trial.variant} ({trial.origin})",
                }
            )
    points = (
        alt.Chart(make_chart_data(rows))
        .mark_point(filled=True, size=50, opacity=0.8)
        .encode(
            x=alt.X("number:Q", title="trial", axis=alt.Axis(format="d")),
            y=alt.Y("memory:Q", title="peak RSS ÷ default", scale=alt.Scale(zero=False)),
            color=bases.encode_color(POINTS),
            tooltip=[alt.Tooltip("name:N"), alt.Tooltip("memory:Q", format=".3f")],
        )
    )
    caption = "Every trial of a server that ended well, in the order of the search."
    return Figure("path", "The path of the search", caption, points.properties(height=_HEIGHT))
