"""How long malloc and free take, over the size of the block."""

from typing import Any

from dballoc.analysis.tables.profiles.heap_profiles import VariantHeap
from dballoc.document.charts import (
    AMOUNTS,
    POINTS,
    Variants,
    draw,
    draw_points,
    make_axis,
    make_chart,
    make_tips,
)
from dballoc.document.model import Figure

# A mean of fewer timed calls says little.
_LEAST = 10
_HEIGHT = 240


def draw_call_times(
    watched: dict[str, VariantHeap], workload: str, variants: Variants, after: str
) -> list[Figure]:
    """Draw one chart for malloc and one for free: the mean of the calls that were timed, by size
    class.
    """
    return [
        _draw_times_of_operation(watched, operation, workload, variants, after)
        for operation in ("malloc", "free")
    ]


def _draw_times_of_operation(
    watched: dict[str, VariantHeap], operation: str, workload: str, variants: Variants, after: str
) -> Figure:
    rows: list[dict[str, Any]] = [
        {
            "variant": name,
            "bytes": max(size["sizes"][0], 1),
            **{key: size[key] for key in ("mean", "p99", "timed")},
        }
        for name, heap in watched.items()
        for size in heap.figures["sizes"]
        if size["operation"] == operation and size["timed"] >= _LEAST
    ]
    common = {
        "x": make_axis(
            "bytes",
            "size of the block, bytes (log scale)",
            {"type": "log", "base": 2, "nice": False},
            tickCount=8,
            labelExpr="datum.value >= 1024 ? datum.value / 1024 + ' Ki' : datum.value",
        ),
        "y": make_axis(
            "mean",
            f"mean time of {operation}, ns (log scale)",
            {"type": "log", "nice": True},
            **AMOUNTS,
        ),
    }
    mean, timed = {"format": ",.0f"}, "calls timed"
    tip = make_tips({"variant": "", "bytes:Q": "", "mean:Q": mean, "p99:Q": "", "timed:Q": timed})
    layers = [
        draw(rows, "line", strokeWidth=1.8, **common, **variants.encode_lines(POINTS)),
        draw_points(rows, 60, tooltip=tip, **common, **variants.encode_points(POINTS)),
    ]
    caption = (
        f"Elapsed time, stalls included, where {_LEAST} calls or more were timed. Size classes "
        "double: 64 stands for 64 to 127 bytes."
    )
    return Figure(
        f"{operation}-time-{workload}",
        f"How long {operation} takes{after}",
        caption,
        make_chart(_HEIGHT, layers),
    )
