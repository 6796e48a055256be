"""Peak and idle RSS of every variant: the mean as a bar, every trial as a stroke."""

from typing import Any

import altair as alt
import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.document.charts import Variants, make_chart_data
from dballoc.document.model import Figure
from dballoc.numbers import mebibytes

# The store's column: its name, and how opaque its bar is.
_KINDS = {"rss_peak": ("peak", 0.55), "rss_idle": ("idle", 0.25)}


def draw_peak_and_idle_rss(campaign: Campaign, variants: Variants) -> Figure:
    """Draw RSS from zero: all that the server takes, not the difference alone."""
    fresh = campaign.experiment.levels == "fresh"
    top = max(campaign.experiment.threads)
    good = campaign.good.filter(pl.col("level") == top) if fresh else campaign.good
    means, trials = _make_rows(good, variants.names)
    y = alt.Y(
        "row:N",
        sort=[m["row"] for m in means],
        title=None,
        axis=alt.Axis(grid=False, ticks=False, domain=False),
    )
    x = alt.X(
        "mib:Q",
        title="RSS, MiB",
        scale=alt.Scale(zero=True),
        axis=alt.Axis(format=",~r", tickCount=6),
    )
    color = variants.encode_color(None)
    bars = (
        alt.Chart(make_chart_data(means))
        .mark_bar(height={"band": 0.7})
        .encode(
            x=x,
            y=y,
            color=color,
            opacity=alt.Opacity("shade:Q", scale=None),
            tooltip=[
                alt.Tooltip("row:N"),
                alt.Tooltip("words:N", title="mean"),
                alt.Tooltip("n:Q", title="trials"),
            ],
        )
    )
    ticks = (
        alt.Chart(make_chart_data(trials))
        .mark_tick(thickness=1.5, height={"band": 0.9}, orient="vertical")
        .encode(
            x=x,
            y=y,
            color=color,
            tooltip=[alt.Tooltip("row:N"), alt.Tooltip("words:N", title="a trial")],
        )
    )
    caption = "Bar: mean over trials; strokes: trials." + (
        f" Starts at {top} threads." if fresh else ""
    )
    return Figure(
        "memory",
        "Peak and idle RSS",
        caption,
        alt.layer(bars, ticks).properties(height=22 * max(2, len(means))),
    )


def _make_rows(
    good: pl.DataFrame, names: list[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return a row for each mean and a row for each trial behind it, in MiB."""
    means, trials = [], []
    for name in names:
        for column, (kind, shade) in _KINDS.items():
            # With a start for each workload, the highest of a block's starts.
            peaks_by_start = (
                good.filter(pl.col("variant") == name)
                .group_by("block", "role", maintain_order=True)
                .agg(pl.col(column).max())
            )
            values = peaks_by_start[column].drop_nulls().to_list()
            if values:
                mean = sum(values) / len(values)
                place = {"variant": name, "row": f"{name}, {kind}"}
                means.append(
                    {
                        **place,
                        "shade": shade,
                        "mib": mean / 2**20,
                        "words": f"{mebibytes(mean)} MiB",
                        "n": len(values),
                    }
                )
                trials += [
                    {**place, "mib": v / 2**20, "words": f"{mebibytes(v)} MiB"} for v in values
                ]
    return means, trials
