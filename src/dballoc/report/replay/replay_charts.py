"""The charts of replays: the heap over the trace's time, its fragmentation, and peaks."""

from typing import Any

import altair as alt
import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.replay.fidelity import Fidelity
from dballoc.analysis.replay.replay_facts import ReplayFacts
from dballoc.document.charts import Variants, make_chart_data
from dballoc.document.model import Figure
from dballoc.numbers import mebibytes, number

_HEIGHT = 280


def draw_heap_curves(
    curves: pl.DataFrame, facts: ReplayFacts, variants: Variants, fidelity: Fidelity | None
) -> Figure:
    """Draw the heap of every variant over the trace's time, the live bytes, and the recorded
    process's own heap where it was measured.
    """
    heap = [
        {"variant": r["variant"], "t": r["t"], "mib": r["heap"] / 2**20}
        for r in curves.iter_rows(named=True)
    ]
    x = _make_time_axis(facts)
    y = alt.Y("mib:Q", title="resident heap, MiB", scale=alt.Scale(zero=True))
    layers: list[Any] = [_draw_live(curves, x, y), _draw_lines(heap, x, y, variants, "mib")]
    caption = (
        "Mean over trials of the most within each 300th of the trace. Dotted grey: live bytes, as "
        "they were asked for."
    )
    if fidelity:
        layers.append(_draw_real_heap(fidelity, x, y))
        caption += f" Crosses: the real heap of the recorded process, under {fidelity.variant}."
    return Figure(
        "replay-heap",
        "Heap over the trace" + _add_flaws(facts),
        caption,
        alt.layer(*layers).properties(height=_HEIGHT),
    )


def draw_fragmentation(curves: pl.DataFrame, facts: ReplayFacts, variants: Variants) -> Figure:
    """Draw heap ÷ live bytes of every variant over the trace's time."""
    rows = [
        {"variant": r["variant"], "t": r["t"], "ratio": r["fragmentation"]}
        for r in curves.filter(pl.col("fragmentation").is_not_null()).iter_rows(named=True)
    ]
    y = alt.Y("ratio:Q", title="heap ÷ live bytes", scale=alt.Scale(zero=True))
    lines = _draw_lines(rows, _make_time_axis(facts), y, variants, "ratio")
    return Figure(
        "replay-fragmentation",
        "Fragmentation over the trace" + _add_flaws(facts),
        "The resident heap for each byte that the program had asked for and not freed. Below 1 "
        "where the program has not touched all that it asked for.",
        alt.layer(lines).properties(height=_HEIGHT),
    )


def draw_peak_heaps(campaign: Campaign, facts: ReplayFacts, variants: Variants) -> Figure:
    """Draw peak heap from zero: the mean as a bar, every replay as a stroke."""
    means, trials = [], []
    for name in variants.names:
        values = campaign.good.filter(pl.col("variant") == name)["rss_peak"].drop_nulls().to_list()
        if values:
            mean = sum(values) / len(values)
            words = f"{mebibytes(mean)} MiB"
            means.append({"variant": name, "mib": mean / 2**20, "words": words, "n": len(values)})
            trials += [{"variant": name, "mib": value / 2**20} for value in values]
    y = alt.Y(
        "variant:N",
        sort=[m["variant"] for m in means],
        title=None,
        axis=alt.Axis(grid=False, ticks=False, domain=False),
    )
    x = alt.X("mib:Q", title="peak heap, MiB", scale=alt.Scale(zero=True))
    color = variants.encode_color(None)
    bars = (
        alt.Chart(make_chart_data(means))
        .mark_bar(height={"band": 0.7}, opacity=0.55)
        .encode(
            x=x,
            y=y,
            color=color,
            tooltip=[
                alt.Tooltip("variant:N"),
                alt.Tooltip("words:N", title="mean"),
                alt.Tooltip("n:Q", title="trials"),
            ],
        )
    )
    ticks = (
        alt.Chart(make_chart_data(trials))
        .mark_tick(thickness=1.5, height={"band": 0.9}, orient="vertical")
        .encode(x=x, y=y, color=color)
    )
    return Figure(
        "replay-peaks",
        "Peak heap" + _add_flaws(facts),
        "Bar: mean over trials; strokes: trials.",
        alt.layer(bars, ticks).properties(height=30 * max(2, len(means))),
    )


def _add_flaws(facts: ReplayFacts) -> str:
    return f" ({'; '.join(facts.flaws)})" if facts.flaws else ""


def _make_time_axis(facts: ReplayFacts) -> alt.X:
    return alt.X(
        "t:Q",
        title="recorded time since the trace began, s",
        scale=alt.Scale(domain=[0, facts.seconds or 1.0], nice=False),
    )


def _draw_lines(
    rows: list[dict[str, Any]], x: alt.X, y: alt.Y, variants: Variants, field: str
) -> alt.Chart:
    legend = alt.Legend()
    words = [row | {"words": number(row[field])} for row in rows]
    return (
        alt.Chart(make_chart_data(words))
        .mark_line(interpolate="step-before", strokeWidth=1.8)
        .encode(
            x=x,
            y=y,
            color=variants.encode_color(legend),
            strokeDash=variants.encode_dash(legend),
            tooltip=[
                alt.Tooltip("variant:N"),
                alt.Tooltip("t:Q", title="s", format=".3~r"),
                alt.Tooltip("words:N", title=str(y.title)),
            ],
        )
    )


def _draw_live(curves: pl.DataFrame, x: alt.X, y: alt.Y) -> alt.Chart:
    live = curves.group_by("t").agg(pl.col("live").mean()).sort("t")
    rows = [{"t": t, "mib": value / 2**20} for t, value in live.iter_rows()]
    return (
        alt.Chart(make_chart_data(rows))
        .mark_line(interpolate="step-before", strokeDash=[1, 2], color="#888888")
        .encode(x=x, y=y)
    )


def _draw_real_heap(fidelity: Fidelity, x: alt.X, y: alt.Y) -> alt.Chart:
    rows = [
        {"t": m.t, "mib": m.real / 2**20, "name": m.name, "words": f"{mebibytes(m.real)} MiB"}
        for m in fidelity.marks
    ]
    return (
        alt.Chart(make_chart_data(rows))
        .mark_point(shape="cross", size=90, angle=45, color="#888888")
        .encode(
            x=x,
            y=y,
            tooltip=[
                alt.Tooltip("name:N", title="mark"),
                alt.Tooltip("words:N", title="real heap"),
            ],
        )
    )
