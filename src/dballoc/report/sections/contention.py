"""What the servers waited for: the split, the dominant frames across variants, a flame graph of
each.
"""

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.tables.contention import Contention, Watched
from dballoc.profile.contention.dominant_frames import Row, dominant
from dballoc.profile.contention.wait_split import GROUPS, Cost, Split, own_waits, split
from dballoc.profile.model import Profile
from dballoc.profile.symbols import cpp_names
from dballoc.report.sections import profiles
from dballoc.report.sections.section import Embed, Section
from dballoc.report.sections.tables import Table
from dballoc.report.wording.ratios_as_text import NOTHING, number, percent

_MUTEXES = 6

_TEXT = (
    "After the levels and the idle time of the first block's trials the same load ran once more, "
    "unmeasured, at the highest "
    "level, and was watched: nothing of it is in any other figure of this report. A wait is a "
    "switch by which a thread gives "
    "up its CPU because it cannot go on; one that was preempted could. Below malloc: the call "
    "stack leads through malloc, free "
    "or their kin. A wait's time ends when the thread runs again, so it has a part in the queue "
    "for a CPU."
)


def section(campaign: Campaign, found: Contention) -> Section:
    """For every workload: the wait split, the table of frames, the flame graphs."""
    tables: list[Table] = []
    embeds: list[Embed] = []
    for workload, watched, after in profiles.parts(
        campaign, (w.workload for w in found.watched), found.of
    ):
        tables += [_split(watched, after), _frames(watched, after)]
        embeds += _graphs(watched, workload, after)
    if found.mutexes:
        tables.append(_mutexes(found))
    text = [_TEXT, *dict.fromkeys(_method(w) for w in found.watched if w.switches)]
    text += [
        f"No profile of {w.variant} under {w.workload}: {w.missing}."
        for w in found.watched
        if not w.switches
    ]
    return Section(
        key="contention",
        title="Contention",
        text=text,
        figures=[],
        tables=tables,
        listings=[],
        embeds=embeds,
    )


_WAITS = {
    "workload": pl.String,
    "variant": pl.String,
    "place": pl.String,
    "for": pl.String,
    "waits": pl.Float64,
    "seconds": pl.Float64,
    "queued": pl.Float64,
    "share": pl.Float64,
}
_FRAMES = {
    "workload": pl.String,
    "function": pl.String,
    "module": pl.String,
    "malloc": pl.Boolean,
    "variant": pl.String,
    "share": pl.Float64,
}


def frames(found: Contention) -> dict[str, pl.DataFrame]:
    """The tables as CSV has them, by file name. Seconds; shares of all waits (1 = all)."""
    costs: list[tuple[object, ...]] = []
    functions: list[tuple[object, ...]] = []
    for workload in dict.fromkeys(w.workload for w in found.watched):
        watched = found.of(workload)
        for name, one in watched.items():
            assert one.switches
            said = split(one.switches)
            costs += [
                (
                    workload,
                    name,
                    place,
                    group,
                    cost.waits,
                    cost.waited,
                    cost.queued,
                    said.share(cost),
                )
                for place, groups in (
                    ("malloc", said.malloc),
                    ("elsewhere", said.elsewhere),
                    ("malloc, by call", said.calls),
                )
                for group, cost in groups.items()
            ]
        functions += [
            (workload, row.function, row.module, row.allocator, variant, share)
            for row in _dominant(watched)
            for variant, share in row.shares.items()
        ]
    return {
        "contention-waits": pl.DataFrame(costs, schema=_WAITS, orient="row"),
        "contention-frames": pl.DataFrame(functions, schema=_FRAMES, orient="row"),
    }


def value_of(profile: Profile) -> str:
    """Waits where they were counted, else the time waited."""
    return profile.values[0].key


def _method(watched: Watched) -> str:
    assert watched.switches
    facts = watched.switches.facts
    losses = ""
    if {"stacks", "stacks cut off", "records lost", "times throttled"} <= set(facts):
        losses = (
            f"; {facts['stacks']} call stacks, {facts['stacks cut off']} of them cut off; "
            f"{facts['records lost']} records "
            f"lost, throttled {facts['times throttled']} times"
        )
    early = f"; stopped early: {facts['stopped early']}" if "stopped early" in facts else ""
    return f"{watched.variant}, {watched.workload}: {facts.get('method', '')}{losses}{early}."


def _split(watched: dict[str, Watched], after: str) -> Table:
    columns = [
        "variant",
        "waits/s",
        "below malloc",
        *(f"{GROUPS[g]} below malloc" for g in ("lock", "memory")),
        "kernel calls",
        *(GROUPS[g] for g in ("lock", "memory", "condition", "disk", "client")),
        "preempted",
        "mean wait below malloc, µs",
    ]
    rows = []
    for name, one in watched.items():
        assert one.switches
        said, seconds = split(one.switches), one.switches.seconds or 1.0
        below = said.below
        mean = number(below.waited / below.waits * 1e6) if below.waits else NOTHING
        rows.append(
            [
                name,
                number(said.total.waits / seconds) if said.counted else NOTHING,
                percent(said.share(below)),
                *(percent(said.share(said.malloc.get(g, Cost()))) for g in ("lock", "memory")),
                _calls(said),
                *(
                    percent(said.share(said.elsewhere.get(g, Cost())))
                    for g in ("lock", "memory", "condition", "disk", "client")
                ),
                percent(said.preemption) if said.counted else NOTHING,
                mean,
            ]
        )
    caption = (
        "Shares of all waits; preempted: of all switches. The columns without malloc are waits "
        "that do not lie below it."
    )
    return Table(
        title=f"What the threads wait for{after}",
        columns=columns,
        rows=rows,
        caption=caption,
        words=("kernel calls",),
    )


def _calls(said: Split) -> str:
    ordered = sorted(said.calls.items(), key=lambda call: -said.share(call[1]))
    return "\n".join(f"{name} {percent(said.share(cost))}" for name, cost in ordered) or NOTHING


def _frames(watched: dict[str, Watched], after: str) -> Table:
    found = _dominant(watched)
    variants = list(found[0].shares) if found else []
    rows = [_row(row, variants) for row in found]
    caption = (
        "The share of each variant's waits whose call stack contains the function; the largest "
        "difference between variants "
        "first. malloc: it is malloc, or mostly runs below it."
    )
    return Table(
        title=f"Dominant inclusive frames{after}",
        columns=["function", "", "module", *variants],
        rows=rows,
        caption=caption,
        words=("", "module"),
    )


def _dominant(watched: dict[str, Watched]) -> list[Row]:
    switches = {name: one.switches for name, one in watched.items() if one.switches}
    if not switches:
        return []  # no profile of any variant can be read
    # One by /proc has times alone; shares of times and of counts are not compared.
    value = value_of(next(iter(switches.values())))
    return dominant(
        {name: profile for name, profile in switches.items() if value_of(profile) == value}, value
    )


def _row(row: Row, variants: list[str]) -> list[str]:
    shares = [percent(row.shares[v], 2) if row.shares[v] else NOTHING for v in variants]
    return [
        profiles.cell(cpp_names.short(row.function)),
        "malloc" if row.allocator else "",
        row.module,
        *shares,
    ]


def _graphs(watched: dict[str, Watched], workload: str, after: str) -> list[Embed]:
    found = []
    switches = {name: w.switches for name, w in watched.items() if w.switches}
    for key, title, shown in (
        (
            "own-waits",
            "Waits, without those for the client",
            {name: own_waits(of) for name, of in switches.items()},
        ),
        ("waits", "All waits", switches),
        ("wakeups", "Who woke others", {name: w.wakeups for name, w in watched.items()}),
    ):
        there = [(name, profile) for name, profile in shown.items() if profile and profile.samples]
        same = [
            (name, profile) for name, profile in there if value_of(profile) == value_of(there[0][1])
        ]
        if same:
            found.append(
                profiles.graph(
                    f"contention-{key}-{workload}", title + after, same, value_of(same[0][1])
                )
            )
    return found


def _mutexes(found: Contention) -> Table:
    rows = [
        [variant, m.name, f"{m.locked:,}", f"{m.waited:,}", f"{m.spun:,}", number(m.seconds * 1e3)]
        for variant, mutexes in found.mutexes.items()
        for m in mutexes[:_MUTEXES]
    ]
    columns = ["variant", "mutex", "locked", "waited", "spun", "waited, ms"]
    caption = "By the malloc's own word at the end of its trial, of the server's whole life."
    return Table(
        title="jemalloc's own mutexes", columns=columns, rows=rows, caption=caption, heads=2
    )
