"""What the servers waited for: the split, the dominant frames across variants (by what they call
included, by what waits itself, and by where malloc is entered), a flame graph of each.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import polars as pl

from dballoc.document.csv import make_frame
from dballoc.document.model import Embed, Section, Table
from dballoc.ground.numbers import NOTHING, count, number, percent
from dballoc.profile import flamegraph
from dballoc.profile.contention.dominant_frames import DominantFrame, rank_dominant_frames
from dballoc.profile.contention.wait_rules import KERNEL
from dballoc.profile.contention.waits import PREEMPTED
from dballoc.profile.contention.waits_below_malloc import (
    WAIT_GROUPS,
    WaitCost,
    WaitSplit,
    drop_client_waits,
    split_waits,
)
from dballoc.profile.model import Frame, Profile
from dballoc.profile.symbols import cpp_names
from dballoc.questions.campaign.figures.profiles import CampaignContention, ContentionProfiles
from dballoc.questions.compare.campaign_tables import Campaign

# Functions whose names do not fit a column.
_LONGEST = 90

Of = TypeVar("Of")


def list_profiled_workloads(
    campaign: Campaign, workloads: Iterable[str], of: Callable[[str], dict[str, Of]]
) -> Iterator[tuple[str, dict[str, Of], str]]:
    """Yield each workload that has profiles, these by variant, and what its titles end with where
    there are several ``workloads``.
    """
    several = len(set(workloads)) > 1
    for workload in campaign.experiment.workloads:
        if by_variant := of(workload):
            yield workload, by_variant, f", {workload}" if several else ""


def shorten_function_name(function: str) -> str:
    """Return a function's name cut to what a table's column holds."""
    return function if len(function) <= _LONGEST else function[: _LONGEST - 1] + "…"


def make_flame_graph(
    key: str, title: str, profiles: Sequence[tuple[str, Profile]], value: str
) -> Embed:
    """Return a flame graph with a switch between the named profiles."""
    return Embed(
        key,
        title,
        flamegraph.render_fragment(profiles, value, title),
        flamegraph.render_page(profiles, value, title),
    )


# Functions with less than this share in every variant are not worth a line; at most so many have
# one.
_LEAST_SHARE, _MOST_ROWS = 0.005, 20


def tabulate_functions(
    profiles: Mapping[str, Profile], value: str, after: str, noun: str
) -> list[Table]:
    """Return the tables of a value of profiles, by variant. ``after``: what the titles end with;
    ``noun``: what the profiles count, like waits.
    """
    arguments = profiles, value, after, noun
    return [
        _tabulate_inclusive(*arguments),
        _tabulate_exclusive(*arguments),
        _tabulate_malloc_entries(*arguments),
    ]


def list_shares(profiles: Mapping[str, Profile], value: str) -> list[tuple[Any, ...]]:
    """Return function, module, whether it is malloc, variant and share, of the functions that most
    stacks contain.
    """
    return [
        (row.function, row.module, row.allocator, variant, share)
        for row in (rank_dominant_frames(profiles, value) if profiles else [])
        for variant, share in row.shares.items()
    ]


def _tabulate_inclusive(
    profiles: Mapping[str, Profile], value: str, after: str, noun: str
) -> Table:
    """Return the functions that most stacks contain."""
    ranked = rank_dominant_frames(profiles, value) if profiles else []
    variants = list(ranked[0].shares) if ranked else []
    caption = (
        f"The share of each variant's {noun} whose call stack contains the function; the largest "
        "difference between variants first. malloc: the function is malloc, or runs mostly below "
        "it."
    )
    return Table(
        title=f"Dominant inclusive frames{after}",
        columns=["function", "", "module", *variants],
        rows=[_make_inclusive_row(row, variants) for row in ranked],
        caption=caption,
        words=("", "module"),
    )


def _make_inclusive_row(row: DominantFrame, variants: list[str]) -> list[str]:
    shares = [_format_share(row.shares[v]) for v in variants]
    return [_shorten(row.function), "malloc" if row.allocator else "", row.module, *shares]


def _tabulate_exclusive(
    profiles: Mapping[str, Profile], value: str, after: str, noun: str
) -> Table:
    """Return the innermost functions of the stacks, the kernel's left out."""
    shares = [_sum_exclusive(profile, value) for profile in profiles.values()]
    return Table(
        title=f"Exclusive frames{after}",
        columns=["function", "module", *profiles],
        rows=_make_rows(shares),
        caption=f"The share of each variant's {noun} whose innermost function it is, below which "
        "there is the kernel alone.",
        words=("module",),
    )


def _tabulate_malloc_entries(
    profiles: Mapping[str, Profile], value: str, after: str, noun: str
) -> Table:
    """Return the functions by which malloc was entered."""
    shares = [_sum_entries(profile, value) for profile in profiles.values()]
    totals = [_format_share(sum(of.values())) for of in shares]
    return Table(
        title=f"First allocator frame{after}",
        columns=["function", "module", *profiles],
        rows=[*_make_rows(shares), ["all below malloc", "", *totals]],
        caption=f"The share of each variant's {noun} that lie below malloc, by the outermost "
        "function of the allocator on the stack.",
        words=("module",),
    )


# A variant's shares, by function and module.
_Shares = dict[tuple[str, str], float]


def _make_rows(shares: list[_Shares]) -> list[list[str]]:
    """Return a row for each function, the largest share in any variant first."""
    largest: _Shares = defaultdict(float)
    for of in shares:
        for key, share in of.items():
            largest[key] = max(largest[key], share)
    ranked = sorted(largest.items(), key=lambda item: (-item[1], item[0]))
    return [
        [_shorten(key[0]), key[1], *(_format_share(of.get(key, 0.0)) for of in shares)]
        for key, share in ranked[:_MOST_ROWS]
        if share >= _LEAST_SHARE
    ]


def _sum_exclusive(profile: Profile, value: str) -> _Shares:
    column, total = profile.column(value), profile.total(value) or 1.0
    shares: _Shares = defaultdict(float)
    for sample in profile.samples:
        frame = next((f for f in reversed(sample.stack) if f.module != KERNEL), None)
        if frame is not None:
            shares[frame.function, frame.module] += sample.values[column] / total
    return shares


def _sum_entries(profile: Profile, value: str) -> _Shares:
    column, total = profile.column(value), profile.total(value) or 1.0
    shares: _Shares = defaultdict(float)
    for sample in profile.samples:
        if entry := sample.labels.get("malloc"):
            frame = next((f for f in sample.stack if f.function == entry), Frame(entry))
            shares[entry, frame.module] += sample.values[column] / total
    return shares


def _shorten(function: str) -> str:
    return shorten_function_name(cpp_names.shorten_name(function))


def _format_share(share: float) -> str:
    return percent(share, 2) if share else NOTHING


_MUTEXES = 6

_TEXT = (
    "After the levels and the idle time of the first block's trials the load ran once more with "
    "{clients}, unmeasured, and was profiled: it contributes to no other figure of this "
    "report. A wait is a context switch by which a thread gives up its CPU because it cannot go "
    "on; a preempted thread could have gone on. Below malloc: the call stack leads through malloc, "
    "free or a related function. A wait ends when the thread runs again, so its time includes "
    "queueing for a CPU."
)


def make_contention_section(campaign: Campaign, profiled: CampaignContention) -> Section:
    """Return the section on waits, for every workload: the split, the table of frames, the flame
    graphs.
    """
    tables: list[Table] = []
    embeds: list[Embed] = []
    for workload, watched, after in list_profiled_workloads(
        campaign, (w.workload for w in profiled.watched), profiled.of
    ):
        tables += [tabulate_split(watched, after), *tabulate_frames(watched, after)]
        embeds += make_flame_graphs(watched, workload, after)
    if profiled.mutexes:
        tables.append(_tabulate_mutexes(profiled))
    clients = count(campaign.experiment.profiled_level, "client")
    text = [
        _TEXT.format(clients=clients),
        *dict.fromkeys(describe_method(w) for w in profiled.watched if w.switches),
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
        tables=tables,
        embeds=embeds,
    )


_WAITS = ("workload", "variant", "place", "for", "waits", "seconds", "queued", "share")
_FRAMES = ("workload", "function", "module", "malloc", "variant", "share")


def collect_contention_tables(profiled: CampaignContention) -> dict[str, pl.DataFrame]:
    """Return the tables for csv/ by file name. Seconds; shares of all waits (1 = all)."""
    costs: list[tuple[Any, ...]] = []
    functions: list[tuple[Any, ...]] = []
    for workload in dict.fromkeys(w.workload for w in profiled.watched):
        watched = profiled.of(workload)
        costs += [
            (workload, name, place, group, cost.waits, cost.waited, cost.queued, share)
            for name, watch in watched.items()
            for place, group, cost, share in list_waits(watch)
        ]
        switches, value = _select_comparable(watched)
        functions += [(workload, *row) for row in list_shares(switches, value)]
    return {
        "contention-waits": make_frame(_WAITS, costs),
        "contention-frames": make_frame(_FRAMES, functions),
    }


def list_waits(watched: ContentionProfiles) -> list[tuple[str, str, WaitCost, float]]:
    """Return where threads waited, for what, what that cost, and its share of all waits."""
    assert watched.switches
    split = split_waits(watched.switches)
    places = {"malloc": split.malloc, "elsewhere": split.elsewhere, "malloc, by call": split.calls}
    return [
        (place, group, cost, split.share(cost))
        for place, groups in places.items()
        for group, cost in groups.items()
    ]


def choose_wait_value(profile: Profile) -> str:
    """Return the key of a profile's value: waits where they were counted, else time waited."""
    return profile.values[0].key


def describe_method(watched: ContentionProfiles) -> str:
    """Return a sentence on how the profiles of a variant and workload were made."""
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


def tabulate_split(watched: Mapping[str, ContentionProfiles], after: str) -> Table:
    """Return what each variant's waits are for. ``after``: what the title ends with. What a profile
    does not tell (its length, preemptions, times) is left open.
    """
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
        wait_split, seconds = split_waits(watch.switches), watch.switches.seconds
        below = wait_split.below
        is_timed = below.waits and below.waited
        mean = number(below.waited / below.waits * 1e6) if is_timed else NOTHING
        rows.append(
            [
                name,
                number(wait_split.total.waits / seconds)
                if wait_split.counted and seconds
                else NOTHING,
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
                percent(wait_split.preemption) if PREEMPTED in watch.switches.values else NOTHING,
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


def tabulate_frames(watched: Mapping[str, ContentionProfiles], after: str) -> list[Table]:
    """Return the tables of functions: inclusive, exclusive, and where malloc is entered."""
    switches, value = _select_comparable(watched)
    # Without switches no profile of any variant can be read.
    return tabulate_functions(switches, value, after, "waits") if switches else []


def _select_comparable(watched: Mapping[str, ContentionProfiles]) -> tuple[dict[str, Profile], str]:
    """Return the profiles that have what the first one has, and the key of that. One by /proc has
    times alone; shares of times and of counts are not compared.
    """
    switches = {name: watch.switches for name, watch in watched.items() if watch.switches}
    return _select_alike(switches)


def _select_alike(profiles: Mapping[str, Profile]) -> tuple[dict[str, Profile], str]:
    values = {name: choose_wait_value(profile) for name, profile in profiles.items()}
    first = next(iter(values.values()), "")
    return {name: profiles[name] for name, value in values.items() if value == first}, first


def make_flame_graphs(
    watched: Mapping[str, ContentionProfiles], key_end: str, after: str
) -> list[Embed]:
    """Return the flame graphs: the waits without those for the client, all, and who woke others.
    ``key_end``: the prefix that tells their keys from those of other profiles; ``after``: what
    their titles end with.
    """
    embeds = []
    switches = {name: w.switches for name, w in watched.items() if w.switches}
    shown: Mapping[str, Profile | None]
    for key, title, shown in (
        (
            "own-waits",
            "Waits, without those for the client",
            {name: drop_client_waits(of) for name, of in switches.items()},
        ),
        ("waits", "All waits", switches),
        ("wakeups", "Who woke others", {name: w.wakeups for name, w in watched.items()}),
    ):
        alike, value = _select_alike({n: p for n, p in shown.items() if p and p.samples})
        if alike:
            graph = f"contention-{key}-{key_end}"
            embeds.append(make_flame_graph(graph, title + after, list(alike.items()), value))
    return embeds


def _tabulate_mutexes(profiled: CampaignContention) -> Table:
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
