"""Where each variant's memory was at the end of the load: its RSS in pieces."""

import polars as pl

from dballoc.document.charts import (
    AMOUNTS,
    draw,
    encode_names,
    make_axis,
    make_chart,
    make_names_axis,
    make_tips,
)
from dballoc.document.model import Figure
from dballoc.numbers import mebibytes

# An owner below this share of the largest RSS gets no colour of its own; _MOST owners get one.
_SMALL = 0.01
_MOST = 7
_OTHER = "other"


def draw_memory_ledger(ledger: pl.DataFrame, names: list[str]) -> Figure:
    """Draw each variant's RSS in pieces. ``ledger``:
    :func:`dballoc.analysis.tables.memory_ledger.build_ledger_table`; ``names``: the variants in
      their order.
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
