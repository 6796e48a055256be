"""Every trial of ``dballoc fit``: the size of the cache against peak RSS, whether it survived, and
the memory limit.
"""

from dballoc.analysis.tables.largest_cache import Fits
from dballoc.document.charts import (
    AMOUNTS,
    GREY_POINTS,
    POINTS,
    Variants,
    draw,
    draw_points,
    encode_names,
    make_axis,
    make_chart,
    make_tips,
)
from dballoc.document.model import Figure
from dballoc.numbers import mebibytes

_HEIGHT = 320
_WORDS = {"survived": "survived", "killed": "killed", "other": "another fault"}
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
    x = make_axis("size", "cache, MiB", {"zero": True}, **AMOUNTS)
    y = make_axis("rss", "peak RSS, MiB", {"zero": True}, **AMOUNTS)
    layers = [
        draw([{"rss": fits.of.memory / 2**20}], "rule", style="reference", y=y),
        draw_points(
            rows, 90, opacity=0.9, x=x, y=y, **variants.encode_color(POINTS),
            shape=encode_names("outcome", _SHAPES, list(_SHAPES.values()), legend=GREY_POINTS),
            tooltip=make_tips({"variant": "", "words": "a trial"}),
        ),
    ]  # fmt: skip
    caption = f"A point is a trial. The line is the memory limit, {mebibytes(fits.of.memory)} MiB."
    return Figure(
        "fit",
        "Cache against peak RSS",
        caption,
        make_chart(_HEIGHT, layers),
    )
