"""Charts of a search: every configuration in memory against cost, and the path of the search."""

import math

import altair as alt

from dballoc.analysis.tune.search_history import Standing, compare_with_default, list_front
from dballoc.analysis.tune.tuned import Tuned
from dballoc.report.charts.variant_marks import POINTS, Figure, Variants, make_chart_data

_HEIGHT = 320


def draw_front(tuned: Tuned, bases: Variants) -> Figure:
    """Draw every configuration by its ratios to its base's default, and the front."""
    front = {s.variant for b in bases.names for s in list_front(_list_measured(tuned, b))}
    rows = [
        {
            "variant": s.base,
            "name": s.variant,
            "memory": math.exp(s.memory or 0.0),
            "cost": math.exp(s.cost or 0.0),
            "place": "on the front" if s.variant in front else "behind it",
            "settings": ", ".join(f"{n} = {v}" for n, v in s.parameters.items()) or "defaults",
        }
        for base in bases.names
        for s in _list_measured(tuned, base)
    ]
    axis = alt.Axis(format=".2f", tickCount=6)
    points = (
        alt.Chart(make_chart_data(rows))
        .mark_point(filled=True, size=70, opacity=0.8)
        .encode(
            x=alt.X("memory:Q", title="peak RSS ÷ default", scale=alt.Scale(zero=False), axis=axis),
            y=alt.Y(
                "cost:Q",
                title="CPU per transaction ÷ default",
                scale=alt.Scale(zero=False),
                axis=axis,
            ),
            color=bases.encode_color(POINTS),
            shape=alt.Shape(
                "place:N",
                title=None,
                scale=alt.Scale(domain=["on the front", "behind it"], range=["diamond", "circle"]),
                legend=alt.Legend(symbolStrokeWidth=0, symbolFillColor="#808080"),
            ),
            tooltip=[alt.Tooltip("name:N"), alt.Tooltip("settings:N")],
        )
    )
    caption = (
        "A point is a configuration, the mean of its trials; left and below is better. These are "
        "search figures of short trials, no verdicts."
    )
    return Figure("front", "Memory against CPU", caption, points.properties(height=_HEIGHT))


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
                    "memory": math.exp(ratios[0]),
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


def _list_measured(tuned: Tuned, base: str) -> list[Standing]:
    return [s for s in tuned.standings if s.base == base and s.memory is not None]
