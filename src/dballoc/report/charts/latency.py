"""How long malloc and free take, over the size of the block."""

from typing import Any

import altair as alt

from dballoc.analysis.tables.profiles.heap_profiles import VariantHeap
from dballoc.document.charts import POINTS, Variants, make_chart_data
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
    x = alt.X(
        "bytes:Q",
        title="size of the block, bytes (log scale)",
        scale=alt.Scale(type="log", base=2, nice=False),
        axis=alt.Axis(
            tickCount=8, labelExpr="datum.value >= 1024 ? datum.value / 1024 + ' Ki' : datum.value"
        ),
    )
    y = alt.Y(
        "mean:Q",
        title=f"mean time of {operation}, ns (log scale)",
        scale=alt.Scale(type="log", nice=True),
        axis=alt.Axis(format=",~r", tickCount=6),
    )
    tip = [
        alt.Tooltip("variant:N"),
        alt.Tooltip("bytes:Q"),
        alt.Tooltip("mean:Q", format=",.0f"),
        alt.Tooltip("p99:Q"),
        alt.Tooltip("timed:Q", title="calls timed"),
    ]
    base = alt.Chart(make_chart_data(rows)).encode(x=x, y=y, color=variants.encode_color(POINTS))
    chart = alt.layer(
        base.mark_line(strokeWidth=1.8).encode(strokeDash=variants.encode_dash(POINTS)),
        base.mark_point(filled=True, size=60, opacity=1).encode(
            shape=variants.encode_shape(POINTS), tooltip=tip
        ),
    ).properties(height=_HEIGHT)
    caption = (
        f"Elapsed time, stalls included, where {_LEAST} calls or more were timed. Size classes "
        "double: 64 stands for 64 to 127 bytes."
    )
    return Figure(
        f"{operation}-time-{workload}", f"How long {operation} takes{after}", caption, chart
    )
