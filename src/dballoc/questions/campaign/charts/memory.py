"""Memory: peak and idle RSS, the mean as a bar and every trial as a stroke; and RSS in pieces at
the end of the load.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from dballoc.document.charts import (
    AMOUNTS,
    Rows,
    Variants,
    draw,
    encode_names,
    make_axis,
    make_chart,
    make_names_axis,
    make_tips,
)
from dballoc.document.model import Figure
from dballoc.ground.numbers import mebibytes
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.measures import IDLE, PEAK

# The store's column: its name, and how opaque its bar is.
_KINDS = {PEAK.trial: ("peak", 0.55), IDLE.trial: ("idle", 0.25)}


@dataclass(frozen=True)
class Bar:
    """A row of a chart: its name, its variant, the trials' ``values`` in bytes, and how opaque the
    bar is.
    """

    row: str
    variant: str
    values: list[float]
    shade: float = 0.55


def draw_bars(bars: Sequence[Bar], title: str, variants: Variants, height: int) -> dict[str, Any]:
    """Draw memory from zero: all that is taken, not the difference alone. Rows without a value are
    left out; each is ``height`` pixels high.
    """
    means: Rows = []
    trials: Rows = []
    for bar in bars:
        if bar.values:
            row = {"row": bar.row, "variant": bar.variant}
            mean = sum(bar.values) / len(bar.values)
            means.append(row | _describe(mean) | {"shade": bar.shade, "n": len(bar.values)})
            trials += [row | _describe(value) for value in bar.values]
    common = {
        "x": make_axis("mib", title, {"zero": True}, **AMOUNTS),
        "y": make_names_axis("row", [m["row"] for m in means]),
        **variants.encode_color(None),
    }
    layers = [
        draw(
            means, "bar", height={"band": 0.7}, **common,
            opacity={"field": "shade", "type": "quantitative", "scale": None},
            tooltip=make_tips({"row": "", "words": "mean", "n:Q": "trials"}),
        ),
        draw(
            trials, "tick", thickness=1.5, height={"band": 0.9}, orient="vertical", **common,
            tooltip=make_tips({"row": "", "words": "a trial"}),
        ),
    ]  # fmt: skip
    return make_chart(height * max(2, len(means)), layers)


def _describe(size: float) -> dict[str, Any]:
    return {"mib": size / 2**20, "words": f"{mebibytes(size)} MiB"}


def draw_peak_and_idle_rss(campaign: Campaign, variants: Variants) -> Figure:
    """Draw RSS of every variant."""
    fresh = campaign.experiment.levels == "fresh"
    top = max(campaign.experiment.threads)
    good = campaign.good.filter(level=top) if fresh else campaign.good
    bars = [
        Bar(f"{name}, {kind}", name, _list_values(good, name, column), shade)
        for name in variants.names
        for column, (kind, shade) in _KINDS.items()
    ]
    caption = "Bar: mean over trials; strokes: trials." + (
        f" Starts at {top} threads." if fresh else ""
    )
    return Figure("memory", "Peak and idle RSS", caption, draw_bars(bars, "RSS, MiB", variants, 22))


def _list_values(good: pl.DataFrame, name: str, column: str) -> list[float]:
    """Return a column's values of a variant. With a start for each workload, the highest of a
    block's starts.
    """
    return (
        good.filter(variant=name)
        .group_by("block", "role", maintain_order=True)
        .agg(pl.col(column).max())[column]
        .drop_nulls()
        .to_list()
    )


# An owner below this share of the largest RSS gets no colour of its own; _MOST owners get one.
_SMALL = 0.01
_MOST = 7
_OTHER = "other"


def draw_memory_ledger(ledger: pl.DataFrame, names: list[str]) -> Figure:
    """Draw each variant's RSS in pieces. ``ledger``:
    :func:`dballoc.questions.campaign.figures.trial_tables.build_ledger_table`; ``names``: the
    variants in their order.
    """
    largest = ledger.group_by("variant").agg(pl.col("resident").sum())["resident"].max()
    by_owner = ledger.group_by("owner", maintain_order=True).agg(pl.col("resident").max())
    shown = (
        by_owner.filter(pl.col("resident") >= _SMALL * largest)  # type: ignore[operator]
        .sort("resident", descending=True)["owner"]
        .head(_MOST)
    )
    owners = [owner for owner in by_owner["owner"] if owner in set(shown)]
    rows = [
        {
            "variant": variant,
            "owner": owner if owner in owners else _OTHER,
            "piece": owner,
            "mib": resident / 2**20,
            "words": f"{mebibytes(resident)} MiB",
            "place": owners.index(owner) if owner in owners else len(owners),
        }
        for owner, variant, resident in ledger.select("owner", "variant", "resident").iter_rows()
        if resident > 0
    ]
    present_names = [name for name in names if name in set(ledger["variant"])]
    domain = [*owners, *([_OTHER] if any(row["owner"] == _OTHER for row in rows) else [])]
    bars = draw(
        rows,
        "bar",
        height={"band": 0.7},
        x=make_axis("mib", "resident, MiB", **AMOUNTS),
        y=make_names_axis("variant", present_names),
        color=encode_names("owner", domain),
        order={"field": "place", "type": "quantitative"},
        tooltip=make_tips({"variant": "", "piece": "owner", "words": "resident"}),
    )
    caption = "At the end of the load, means over trials. The pieces add up to RSS."
    return Figure(
        "ledger",
        "Where the memory was",
        caption,
        make_chart(30 * max(2, len(present_names)), [bars]),
    )
