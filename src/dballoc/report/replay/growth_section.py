"""How far each malloc creeps over the repeated cycles of a trace: a sentence, a table, a chart."""

import polars as pl

from dballoc.analysis.replay.cycle_growth import CONFIDENCE, CycleGrowth, Cycles, Growth
from dballoc.analysis.replay.replay_facts import ReplayFacts
from dballoc.document.charts import Variants, draw, make_axis, make_chart, make_tips
from dballoc.document.model import Figure, Section, Table
from dballoc.numbers import NOTHING, count, listing, mebibytes, percent, with_unit

_HEIGHT = 280


def describe_growth(growth: CycleGrowth) -> str:
    """Return one sentence on which mallocs creep, and how far the others might at most."""
    growths, cycles = growth.growths, growth.cycles
    shown = [f"{g.variant} creeps by {_format_slope(g)}" for g in growths if _creeps(g)]
    shown += [f"{g.variant} shrinks by {_format_slope(g)}" for g in growths if _shrinks(g)]
    rest = [g for g in growths if g.has_interval and not _creeps(g) and not _shrinks(g)]
    shown += [f"{g.variant} is not seen to creep, at most {_format(g.high)}" for g in rest]
    shown += [
        f"{g.variant} changes by {_format(g.slope)} in its one replay"
        for g in growths
        if not g.has_interval
    ]
    cycle = count(len(cycles.marks), cycles.name)
    return f"From one {cycles.name} to the next, of {cycle}: {'; '.join(shown)}."


def make_growth_section(growth: CycleGrowth, facts: ReplayFacts) -> Section:
    """Return the section with its sentences, chart and table."""
    cycles = growth.cycles
    return Section(
        key="growth",
        title=f"Growth from {cycles.name} to {cycles.name}",
        text=[describe_growth(growth), *_list_reservations(facts)],
        figures=[_draw_growth(growth.growths, growth.ends, cycles)],
        tables=[_tabulate_growth(growth.growths, cycles)],
    )


def _list_reservations(facts: ReplayFacts) -> list[str]:
    if facts.keeps_the_clock or not facts.decaying:
        return []
    return [
        f"This replay does not keep the clock: {listing(list(facts.decaying))} would give back "
        "more in the pauses that it leaves out, so their growth may be less than it says."
    ]


def _creeps(growth: Growth) -> bool:
    return growth.has_interval and growth.low > 0


def _shrinks(growth: Growth) -> bool:
    return growth.has_interval and growth.high < 0


def _format(size: float) -> str:
    """Format bytes that may be negative."""
    return f"−{with_unit(-size)}" if size < 0 else with_unit(max(0.0, size))


def _format_slope(growth: Growth) -> str:
    low, high = sorted((abs(growth.low), abs(growth.high)))
    return f"{with_unit(abs(growth.slope))} [{with_unit(low)}, {with_unit(high)}]"


def _tabulate_growth(growths: list[Growth], cycles: Cycles) -> Table:
    rows = [
        [
            g.variant,
            mebibytes(g.heap),
            _format(g.slope),
            f"[{_format(g.low)}, {_format(g.high)}]" if g.has_interval else NOTHING,
            str(g.replays),
        ]
        for g in growths
    ]
    name = cycles.name
    return Table(
        title="Growth",
        columns=[
            "variant", f"heap after the last {name} but one, MiB", f"growth a {name}",
            f"{percent(CONFIDENCE, 0)} interval", "replays",
        ],
        rows=rows,
        words=("variant",),
        caption=(
            f"The heap at the end of each {name}, when the next begins, from {name} "
            f"{cycles.settled} on: the least-squares slope of each replay, their mean, and "
            "Student's interval over the replays. It speaks of this trace alone."
        ),
    )  # fmt: skip


def _draw_growth(growths: list[Growth], ends: pl.DataFrame, cycles: Cycles) -> Figure:
    """Draw the heap at the ends of the cycles, less that at the first that counts."""
    means = ends.group_by("variant", "cycle").agg(pl.col("heap").mean()).sort("variant", "cycle")
    first = means.filter(pl.col("cycle") == cycles.settled).select("variant", start="heap")
    rows = [
        {
            "variant": r["variant"],
            "cycle": r["cycle"],
            "mib": (r["heap"] - r["start"]) / 2**20,
            "words": f"{mebibytes(r['heap'])} MiB",
        }
        for r in means.join(first, on="variant").iter_rows(named=True)
    ]
    variants = Variants([g.variant for g in growths])
    line = draw(
        rows,
        "line",
        strokeWidth=1.8,
        point=True,
        x=make_axis("cycle", f"end of {cycles.name}", tickMinStep=1),
        y=make_axis("mib", f"heap, MiB more than after {cycles.name} {cycles.settled}"),
        tooltip=make_tips({"variant": "", "cycle:Q": cycles.name, "words": "heap"}),
        **variants.encode_lines({}),
    )
    return Figure(
        "replay-growth",
        f"Heap at the end of each {cycles.name}",
        f"Mean over replays, less what each malloc held after {cycles.name} {cycles.settled}.",
        make_chart(_HEIGHT, [line]),
    )
