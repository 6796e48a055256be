"""The chart of ``dballoc trace info --chart``: what is alive in a trace over its time."""

from collections.abc import Sequence

from dballoc.document.charts import draw, make_axis, make_chart, make_tips
from dballoc.document.model import Figure

_HEIGHT = 280
# More would be a hatching.
_MOST_MARKS = 40


def draw_live_curve(
    highs: Sequence[tuple[float, float]], marks: Sequence[tuple[float, str]], dropped: int
) -> Figure:
    """Draw the most bytes alive in each stretch of time, and the trace's marks. ``highs``: the end
    of each stretch in seconds, and bytes; ``marks``: seconds and names; ``dropped``: how many
    events are missing, which the chart says.
    """
    rows = [{"t": time, "mib": size / 2**20} for time, size in highs]
    x = make_axis("t", "time since the trace began, s")
    y = make_axis("mib", "alive, MiB", {"zero": True})
    shown = [{"t": time, "name": name} for time, name in marks[:_MOST_MARKS]]
    mark = {"strokeDash": [2, 3], "color": "#888888", "tooltip": make_tips({"name": "mark"})}
    layers = [
        draw(rows, "area", interpolate="step-before", opacity=0.6, x=x, y=y),
        draw(shown, "rule", x=x, **mark),
    ]
    left_out = f"; the first {_MOST_MARKS} of {len(marks):,}" if len(marks) > _MOST_MARKS else ""
    missing = f" {dropped:,} events are missing." if dropped else ""
    return Figure(
        "trace-live",
        "Alive over the trace",
        f"Bytes asked for and not freed, the most within each stretch. Dashed: marks{left_out}."
        f"{missing}",
        make_chart(_HEIGHT, layers),
    )
