"""Where each variant's memory was at the end of the load: its RSS in pieces."""

import altair as alt
import polars as pl

from dballoc.document.charts import make_chart_data
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
    bars = (
        alt.Chart(make_chart_data(rows))
        .mark_bar(height={"band": 0.7})
        .encode(
            x=alt.X("mib:Q", title="resident, MiB", axis=alt.Axis(format=",~r", tickCount=6)),
            y=alt.Y(
                "variant:N",
                sort=present_names,
                title=None,
                axis=alt.Axis(grid=False, ticks=False, domain=False),
            ),
            color=alt.Color("owner:N", title=None, scale=alt.Scale(domain=domain)),
            order=alt.Order("place:Q"),
            tooltip=[
                alt.Tooltip("variant:N"),
                alt.Tooltip("piece:N", title="owner"),
                alt.Tooltip("words:N", title="resident"),
            ],
        )
    )
    caption = "At the end of the load, means over trials. The pieces add up to RSS."
    return Figure(
        "ledger",
        "Where the memory was",
        caption,
        alt.layer(bars).properties(height=30 * max(2, len(present_names))),
    )
