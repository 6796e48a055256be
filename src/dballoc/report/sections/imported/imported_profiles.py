"""Report the profiles of imported results as those that a campaign takes: the split of the waits,
the tables of functions, a flame graph of each.
"""

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from dballoc.analysis.tables.profiles.imported_profiles import ImportedProfiles
from dballoc.document.model import Embed, Section, Table
from dballoc.profile.contention.dominant_frames import rank_dominant_frames
from dballoc.profile.contention.waits_below_malloc import split_waits
from dballoc.profile.model import Profile
from dballoc.report.sections import contention, frame_tables, profiles

# By what is counted: the words in captions, and the flame graph's title.
_NOUNS = {
    "wakeups": ("wake-ups", "Who woke others"),
    "cpu": ("CPU samples", "Where CPU time goes"),
}

_TEXT = (
    "Call stacks that another program recorded and counted. What a stack waits for, and whether it "
    "lies below malloc, is told by its functions, with the same rules as for our own profiles. "
    "Shares are of what the file holds: how many events its program missed, dballoc does not know."
)


def make_imported_profiles_section(profiled: ImportedProfiles) -> Section:
    """Return the section on profiles, for every machine, workload and level that has some."""
    several = len(profiled.places) > 1
    tables: list[Table] = []
    embeds: list[Embed] = []
    text: list[str] = [_TEXT]
    for number, place in enumerate(profiled.places, 1):
        name = _name_place(place)
        after = f", {name}" if several else ""
        watched = {w.variant: w for w in profiled.list_waits(place)}
        if watched:
            tables += [
                contention.tabulate_split(watched, after),
                *contention.tabulate_frames(watched, after),
            ]
            embeds += contention.make_flame_graphs(watched, f"imported-{number}", after)
            text += [
                contention.describe_method(replace(w, workload=name)) for w in watched.values()
            ]
        for counts, (noun, title) in _NOUNS.items():
            # Wake-ups stand beside the waits where there are some.
            others = {} if counts == "wakeups" and watched else profiled.of(place, counts)
            if others:
                tables += _tabulate_others(others, noun, f", {noun}{after}")
                embeds.append(_draw_others(others, f"{counts}-{number}", title + after))
        if not several:
            text.insert(1, f"All are of {name}.")
    text += [
        f"The profile of {p.variant}, {_name_place((p.machine, p.workload, p.threads))}, cannot be "
        "read."
        for p in profiled.profiles
        if p.profile is None
    ]
    return Section(key="contention", title="Contention", text=text, tables=tables, embeds=embeds)


def _name_place(place: tuple[str, str, int]) -> str:
    machine, workload, threads = place
    return f"{workload} at {threads}" + (f" on {machine}" if machine else "")


def _tabulate_others(others: Mapping[str, Profile], noun: str, after: str) -> list[Table]:
    value = next(iter(others.values())).values[0].key
    return [
        tabulate(others, value, after, noun)
        for tabulate in (
            frame_tables.tabulate_inclusive,
            frame_tables.tabulate_exclusive,
            frame_tables.tabulate_malloc_entries,
        )
    ]


def _draw_others(others: Mapping[str, Profile], key: str, title: str) -> Embed:
    named = list(others.items())
    return profiles.make_flame_graph(
        f"contention-imported-{key}", title, named, named[0][1].values[0].key
    )


_WAITS = {
    "machine": pl.String,
    "workload": pl.String,
    "threads": pl.Int64,
    "variant": pl.String,
    "place": pl.String,
    "for": pl.String,
    "share": pl.Float64,
}
_FRAMES = {
    "machine": pl.String,
    "workload": pl.String,
    "threads": pl.Int64,
    "counts": pl.String,
    "function": pl.String,
    "module": pl.String,
    "malloc": pl.Boolean,
    "variant": pl.String,
    "share": pl.Float64,
}


def collect_imported_profile_tables(profiled: ImportedProfiles) -> dict[str, pl.DataFrame]:
    """Return the tables for csv/ by file name; shares of all that a file counts (1 = all)."""
    waits: list[tuple[object, ...]] = []
    frames: list[tuple[object, ...]] = []
    for place in profiled.places:
        for watch in profiled.list_waits(place):
            assert watch.switches
            split = split_waits(watch.switches)
            waits += [
                (*place, watch.variant, where, group, split.share(cost))
                for where, groups in (
                    ("malloc", split.malloc),
                    ("elsewhere", split.elsewhere),
                    ("malloc, by call", split.calls),
                )
                for group, cost in groups.items()
            ]
        for counts in ("waits", "waited", "wakeups", "cpu"):
            of_count = profiled.of(place, counts)
            value = next((p.values[0].key for p in of_count.values()), "")
            frames += [
                (*place, counts, row.function, row.module, row.allocator, variant, share)
                for row in (rank_dominant_frames(of_count, value) if of_count else [])
                for variant, share in row.shares.items()
            ]
    return {
        "contention-waits": pl.DataFrame(waits, schema=_WAITS, orient="row"),
        "contention-frames": pl.DataFrame(frames, schema=_FRAMES, orient="row"),
    }
