"""Charts of a search: every configuration in memory against cost, and the path of the search."""

from typing import Any

from dballoc.analysis.tune.estimated_front import Estimated
from dballoc.analysis.tune.search_history import compare_with_default, convert_to_ratio
from dballoc.analysis.tune.tuned import Tuned
from dballoc.document.charts import (
    GREY_POINTS,
    POINTS,
    Variants,
    draw,
    draw_points,
    encode_names,
    make_axis,
    make_chart,
    make_tips,
    span,
)
from dballoc.document.model import Figure
from dballoc.report.wording.ratios_as_text import format_ratio

_HEIGHT = 320
_ON_FRONT, _BEHIND = "on the front", "behind it"


def draw_front(tuned: Tuned, bases: Variants) -> Figure:
    """Draw what is likely of every configuration, as ratios to its base's default, and the front,
    whose configurations have their intervals.
    """
    rows = [_make_front_row(e) for e in tuned.estimates if e.standing.base in bases.names]
    axis = {"format": ".2f", "tickCount": 6}
    axes = {
        "x": make_axis("memory", "peak RSS ÷ default", {"zero": False}, **axis),
        "y": make_axis("cost", "CPU per transaction ÷ default", {"zero": False}, **axis),
    }
    color = bases.encode_color(POINTS)
    on_front = f"datum.place === '{_ON_FRONT}'"
    shapes = ["diamond", "circle"]
    tip = {"name": "", "settings": "", "likely": ""}
    chance = {"title": "on the front", "format": ".0%"}
    layers = [
        *(
            draw(
                rows, "rule", on_front, opacity=0.6, **color,
                **axes | span(key, x, f"{x['field']}_low", f"{x['field']}_high"),
            )
            for key, x in axes.items()
        ),
        draw_points(
            rows, 70, opacity=0.8, **axes, **color,
            shape=encode_names("place", [_ON_FRONT, _BEHIND], shapes, legend=GREY_POINTS),
            tooltip=make_tips(tip | {"chance:Q": chance}),
        ),
    ]  # fmt: skip
    caption = (
        "A point is what is likely of a configuration, by the estimate that chose the finalists; "
        "left and below is better. Bars: intervals at 95 % of those on the front. These are search "
        "figures of short trials, no verdicts."
    )
    return Figure("front", "Memory against CPU", caption, make_chart(_HEIGHT, layers))


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
    points = draw_points(
        rows, 50, opacity=0.8, **bases.encode_color(POINTS),
        x=make_axis("number", "trial", format="d"),
        y=make_axis("memory", "peak RSS ÷ default", {"zero": False}),
        tooltip=make_tips({"name": "", "memory:Q": {"format": ".3f"}}),
    )  # fmt: skip
    caption = "Every trial of a server that ended well, in the order of the search."
    return Figure("path", "The path of the search", caption, make_chart(_HEIGHT, [points]))
