"""The charts of traces: the heap over the trace's time, its fragmentation, peaks, and what is alive
(``dballoc trace info --chart``).
"""

from collections.abc import Sequence

import polars as pl

from dballoc.document.charts import (
    Channel,
    Layer,
    Rows,
    Variants,
    draw,
    make_axis,
    make_chart,
    make_tips,
)
from dballoc.document.model import Figure
from dballoc.ground.numbers import mebibytes, number
from dballoc.questions.campaign.charts.memory import Bar, draw_bars
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.measures import PEAK
from dballoc.questions.replay.figures import Fidelity
from dballoc.store.replay_facts import ReplayFacts

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
    y = make_axis("mib", "resident heap, MiB", {"zero": True})
    layers = [_draw_live(curves, x, y), _draw_lines(heap, x, y, variants)]
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
        make_chart(_HEIGHT, layers),
    )


def draw_fragmentation(curves: pl.DataFrame, facts: ReplayFacts, variants: Variants) -> Figure:
    """Draw heap ÷ live bytes of every variant over the trace's time."""
    rows = [
        {"variant": r["variant"], "t": r["t"], "ratio": r["fragmentation"]}
        for r in curves.filter(pl.col("fragmentation").is_not_null()).iter_rows(named=True)
    ]
    y = make_axis("ratio", "heap ÷ live bytes", {"zero": True})
    lines = _draw_lines(rows, _make_time_axis(facts), y, variants)
    return Figure(
        "replay-fragmentation",
        "Fragmentation over the trace" + _add_flaws(facts),
        "The resident heap for each byte that the program had asked for and not freed. Below 1 "
        "where the program has not touched all that it asked for.",
        make_chart(_HEIGHT, [lines]),
    )


def draw_peak_heaps(campaign: Campaign, facts: ReplayFacts, variants: Variants) -> Figure:
    """Draw peak heap from zero: the mean as a bar, every replay as a stroke."""
    peaks = campaign.good.filter(pl.col(PEAK.trial).is_not_null())
    bars = [
        Bar(name, name, peaks.filter(variant=name)[PEAK.trial].to_list()) for name in variants.names
    ]
    return Figure(
        "replay-peaks",
        "Peak heap" + _add_flaws(facts),
        "Bar: mean over trials; strokes: trials.",
        draw_bars(bars, "peak heap, MiB", variants, 30),
    )


def _add_flaws(facts: ReplayFacts) -> str:
    return f" ({'; '.join(facts.flaws)})" if facts.flaws else ""


def _make_time_axis(facts: ReplayFacts) -> Channel:
    scale = {"domain": [0, facts.seconds or 1.0], "nice": False}
    return make_axis("t", "recorded time since the trace began, s", scale)


def _draw_lines(rows: Rows, x: Channel, y: Channel, variants: Variants) -> Layer:
    words = [row | {"words": number(row[y["field"]])} for row in rows]
    tip = make_tips({"variant": "", "t:Q": {"title": "s", "format": ".3~r"}, "words": y["title"]})
    lines = variants.encode_lines({})
    return draw(
        words, "line", interpolate="step-before", strokeWidth=1.8, x=x, y=y, tooltip=tip, **lines
    )


def _draw_live(curves: pl.DataFrame, x: Channel, y: Channel) -> Layer:
    live = curves.group_by("t").agg(pl.col("live").mean()).sort("t")
    rows = [{"t": t, "mib": value / 2**20} for t, value in live.iter_rows()]
    dotted = {"interpolate": "step-before", "strokeDash": [1, 2], "color": "#888888"}
    return draw(rows, "line", x=x, y=y, **dotted)


def _draw_real_heap(fidelity: Fidelity, x: Channel, y: Channel) -> Layer:
    rows = [
        {"t": m.t, "mib": m.real / 2**20, "name": m.name, "words": f"{mebibytes(m.real)} MiB"}
        for m in fidelity.marks
    ]
    tip = make_tips({"name": "mark", "words": "real heap"})
    cross = {"shape": "cross", "size": 90, "angle": 45, "color": "#888888"}
    return draw(rows, "point", x=x, y=y, tooltip=tip, **cross)


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
