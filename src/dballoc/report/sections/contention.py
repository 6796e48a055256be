"""What the servers waited for: the split, the dominant frames across variants, a flame graph of
each.
"""

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.tables.profiles.contention import Contention, ContentionProfiles
from dballoc.numbers import NOTHING, count, number, percent
from dballoc.profile.contention.dominant_frames import DominantFrame, rank_dominant_frames
from dballoc.profile.contention.waits_below_malloc import (
    WAIT_GROUPS,
    WaitCost,
    WaitSplit,
    drop_client_waits,
    split_waits,
)
from dballoc.profile.model import Profile
from dballoc.profile.symbols import cpp_names
from dballoc.report.sections import profiles
from dballoc.report.sections.section import Embed, Section
from dballoc.report.sections.tables import Table

_MUTEXES = 6

_TEXT = (
    "After the levels and the idle time of the first block's trials the load ran once more with "
    "{clients}, unmeasured, and was profiled: it contributes to no other figure of this "
    "report. A wait is a context switch by which a thread gives up its CPU because it cannot go "
    "on; a preempted thread could have gone on. Below malloc: the call stack leads through malloc, "
    "free or a related function. A wait ends when the thread runs again, so its time includes "
    "queueing for a CPU."
)


def make_contention_section(campaign: Campaign, profiled: Contention) -> Section:
    """Return the section on waits, for every workload: the split, the table of frames, the flame
    graphs.
    """
    tables: list[Table] = []
    embeds: list[Embed] = []
    for workload, watched, after in profiles.list_profiled_workloads(
        campaign, (w.workload for w in profiled.watched), profiled.of
    ):
        tables += [_tabulate_split(watched, after), _tabulate_frames(watched, after)]
        embeds += _make_flame_graphs(watched, workload, after)
    if profiled.mutexes:
        tables.append(_tabulate_mutexes(profiled))
    clients = count(campaign.experiment.profiled_level, "client")
    text = [
        _TEXT.format(clients=clients),
        *dict.fromkeys(_describe_method(w) for w in profiled.watched if w.switches),
    ]
    text += [
        f"No profile of {w.variant} under {w.workload}: {w.missing}."
        for w in profiled.watched
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


def collect_contention_tables(profiled: Contention) -> dict[str, pl.DataFrame]:
    """Return the tables for csv/ by file name. Seconds; shares of all waits (1 = all)."""
    costs: list[tuple[object, ...]] = []
    functions: list[tuple[object, ...]] = []
    for workload in dict.fromkeys(w.workload for w in profiled.watched):
        watched = profiled.of(workload)
        for name, watch in watched.items():
            assert watch.switches
            wait_split = split_waits(watch.switches)
            costs += [
                (
                    workload,
                    name,
                    place,
                    group,
                    cost.waits,
                    cost.waited,
                    cost.queued,
                    wait_split.share(cost),
                )
                for place, groups in (
                    ("malloc", wait_split.malloc),
                    ("elsewhere", wait_split.elsewhere),
                    ("malloc, by call", wait_split.calls),
                )
                for group, cost in groups.items()
            ]
        functions += [
            (workload, row.function, row.module, row.allocator, variant, share)
            for row in _find_dominant_frames(watched)
            for variant, share in row.shares.items()
        ]
    return {
        "contention-waits": pl.DataFrame(costs, schema=_WAITS, orient="row"),
        "contention-frames": pl.DataFrame(functions, schema=_FRAMES, orient="row"),
    }


def choose_wait_value(profile: Profile) -> str:
    """Return the key of a profile's value: waits where they were counted, else time waited."""
    return profile.values[0].key


def _describe_method(watched: ContentionProfiles) -> str:
    assert watched.switches
    facts = watched.switches.facts
    losses = ""
    if {"stacks", "stacks cut off", "records lost", "times throttled"} <= set(facts):
        losses = (
            f"; {facts['stacks']} call stacks, {facts['stacks cut off']} of them cut off; "
            f"{facts['records lost']} records lost, throttled {facts['times throttled']} times"
        )
    early = f"; stopped early: {facts['stopped early']}" if "stopped early" in facts else ""
    return f"{watched.variant}, {watched.workload}: {facts.get('method', '')}{losses}{early}."


def _tabulate_split(watched: dict[str, ContentionProfiles], after: str) -> Table:
    columns = [
        "variant",
        "waits/s",
        "below malloc",
        *(f"{WAIT_GROUPS[g]} below malloc" for g in ("lock", "memory")),
        "kernel calls",
        *(WAIT_GROUPS[g] for g in ("lock", "memory", "condition", "disk", "client")),
        "preempted",
        "mean wait below malloc, µs",
    ]
    rows = []
    for name, watch in watched.items():
        assert watch.switches
        wait_split, seconds = split_waits(watch.switches), watch.switches.seconds or 1.0
        below = wait_split.below
        mean = number(below.waited / below.waits * 1e6) if below.waits else NOTHING
        rows.append(
            [
                name,
                number(wait_split.total.waits / seconds) if wait_split.counted else NOTHING,
                percent(wait_split.share(below)),
                *(
                    percent(wait_split.share(wait_split.malloc.get(g, WaitCost())))
                    for g in ("lock", "memory")
                ),
                _format_calls(wait_split),
                *(
                    percent(wait_split.share(wait_split.elsewhere.get(g, WaitCost())))
                    for g in ("lock", "memory", "condition", "disk", "client")
                ),
                percent(wait_split.preemption) if wait_split.counted else NOTHING,
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


def _format_calls(wait_split: WaitSplit) -> str:
    ordered = sorted(wait_split.calls.items(), key=lambda call: -wait_split.share(call[1]))
    return (
        "\n".join(f"{name} {percent(wait_split.share(cost))}" for name, cost in ordered) or NOTHING
    )


def _tabulate_frames(watched: dict[str, ContentionProfiles], after: str) -> Table:
    dominant_frames = _find_dominant_frames(watched)
    variants = list(dominant_frames[0].shares) if dominant_frames else []
    rows = [_make_frame_row(row, variants) for row in dominant_frames]
    caption = (
        "The share of each variant's waits whose call stack contains the function; the largest "
        "difference between variants first. malloc: the function is malloc, or runs mostly below "
        "it."
    )
    return Table(
        title=f"Dominant inclusive frames{after}",
        columns=["function", "", "module", *variants],
        rows=rows,
        caption=caption,
        words=("", "module"),
    )


def _find_dominant_frames(watched: dict[str, ContentionProfiles]) -> list[DominantFrame]:
    switches = {name: watch.switches for name, watch in watched.items() if watch.switches}
    if not switches:
        return []  # no profile of any variant can be read
    # One by /proc has times alone; shares of times and of counts are not compared.
    value = choose_wait_value(next(iter(switches.values())))
    return rank_dominant_frames(
        {
            name: profile
            for name, profile in switches.items()
            if choose_wait_value(profile) == value
        },
        value,
    )


def _make_frame_row(row: DominantFrame, variants: list[str]) -> list[str]:
    shares = [percent(row.shares[v], 2) if row.shares[v] else NOTHING for v in variants]
    return [
        profiles.shorten_function_name(cpp_names.shorten_name(row.function)),
        "malloc" if row.allocator else "",
        row.module,
        *shares,
    ]


def _make_flame_graphs(
    watched: dict[str, ContentionProfiles], workload: str, after: str
) -> list[Embed]:
    embeds = []
    switches = {name: w.switches for name, w in watched.items() if w.switches}
    for key, title, shown in (
        (
            "own-waits",
            "Waits, without those for the client",
            {name: drop_client_waits(of) for name, of in switches.items()},
        ),
        ("waits", "All waits", switches),
        ("wakeups", "Who woke others", {name: w.wakeups for name, w in watched.items()}),
    ):
        nonempty = [
            (name, profile) for name, profile in shown.items() if profile and profile.samples
        ]
        comparable = [
            (name, profile)
            for name, profile in nonempty
            if choose_wait_value(profile) == choose_wait_value(nonempty[0][1])
        ]
        if comparable:
            embeds.append(
                profiles.make_flame_graph(
                    f"contention-{key}-{workload}",
                    title + after,
                    comparable,
                    choose_wait_value(comparable[0][1]),
                )
            )
    return embeds


def _tabulate_mutexes(profiled: Contention) -> Table:
    rows = [
        [variant, m.name, f"{m.locked:,}", f"{m.waited:,}", f"{m.spun:,}", number(m.seconds * 1e3)]
        for variant, mutexes in profiled.mutexes.items()
        for m in mutexes[:_MUTEXES]
    ]
    columns = ["variant", "mutex", "locked", "waited", "spun", "waited, ms"]
    caption = "jemalloc's own statistics at the end of its trial, over the server's whole life."
    return Table(
        title="jemalloc's own mutexes", columns=columns, rows=rows, caption=caption, heads=2
    )
