"""Every trial of ``dballoc fit``: the size of the cache against peak RSS, whether it survived, and
the memory limit.
"""

import altair as alt

from dballoc.analysis.tables.largest_cache import Fits
from dballoc.document.charts import POINTS, Variants, make_chart_data
from dballoc.document.model import Figure
from dballoc.numbers import mebibytes

_HEIGHT = 320
_WORDS = {"survived": "survived", "killed": "killed", "other": "another fault"}
# Seen on light and dark pages alike.
_OUTCOMES = alt.Legend(symbolStrokeWidth=0, symbolFillColor="#808080")
_SHAPES = {"survived": "circle", "killed": "cross", "another fault": "triangle-up"}


def draw_cache_against_rss(fits: Fits, variants: Variants) -> Figure:
    """Draw every trial; one without any sample is left out."""
    rows = [
        {
            "variant": p.variant,
            "size": p.size / 2**20,
            "rss": p.peak / 2**20,
            "outcome": _WORDS[p.outcome],
            "words": f"{mebibytes(p.peak)} MiB with {mebibytes(p.size)} MiB of cache, "
            f"{_WORDS[p.outcome]}",
        }
        for p in fits.probes
        if p.peak is not None
    ]
    limit = fits.of.memory / 2**20
    x = alt.X(
        "size:Q",
        title="cache, MiB",
        scale=alt.Scale(zero=True),
        axis=alt.Axis(format=",~r", tickCount=6),
    )
    y = alt.Y(
        "rss:Q",
        title="peak RSS, MiB",
        scale=alt.Scale(zero=True),
        axis=alt.Axis(format=",~r", tickCount=6),
    )
    shape = alt.Shape(
        "outcome:N",
        title=None,
        scale=alt.Scale(domain=list(_SHAPES), range=list(_SHAPES.values())),
        legend=_OUTCOMES,
    )
    points = (
        alt.Chart(make_chart_data(rows))
        .mark_point(filled=True, size=90, opacity=0.9)
        .encode(
            x=x, y=y, color=variants.encode_color(POINTS), shape=shape,
            tooltip=[alt.Tooltip("variant:N"), alt.Tooltip("words:N", title="a trial")],
        )
    )  # fmt: skip
    bound = alt.Chart(make_chart_data([{"rss": limit}])).mark_rule(style="reference").encode(y=y)
    caption = f"A point is a trial. The line is the memory limit, {mebibytes(fits.of.memory)} MiB."
    return Figure(
        "fit",
        "Cache against peak RSS",
        caption,
        alt.layer(bound, points).properties(height=_HEIGHT),
    )
