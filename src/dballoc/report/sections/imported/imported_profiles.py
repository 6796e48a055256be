"""Report the profiles of imported results as those that a campaign takes: the split of the waits,
the tables of functions, a flame graph of each.
"""

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from dballoc.analysis.tables.profiles.imported_profiles import ImportedProfiles
from dballoc.document.csv import make_frame
from dballoc.document.model import Embed, Section, Table
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
                tables += frame_tables.tabulate_frames(
                    *_find_value(others), f", {noun}{after}", noun
                )
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


def _draw_others(others: Mapping[str, Profile], key: str, title: str) -> Embed:
    named = list(others.items())
    return profiles.make_flame_graph(
        f"contention-imported-{key}", title, named, named[0][1].values[0].key
    )


_PLACE = ("machine", "workload", "threads")
_WAITS = (*_PLACE, "variant", "place", "for", "share")
_FRAMES = (*_PLACE, "counts", "function", "module", "malloc", "variant", "share")


def collect_imported_profile_tables(profiled: ImportedProfiles) -> dict[str, pl.DataFrame]:
    """Return the tables for csv/ by file name; shares of all that a file counts (1 = all)."""
    waits = [
        (*place, watch.variant, where, group, share)
        for place in profiled.places
        for watch in profiled.list_waits(place)
        for where, group, _, share in contention.list_waits(watch)
    ]
    frames = [
        (*place, counts, *row)
        for place in profiled.places
        for counts in ("waits", "waited", "wakeups", "cpu")
        for row in frame_tables.list_shares(*_find_value(profiled.of(place, counts)))
    ]
    return {
        "contention-waits": make_frame(_WAITS, waits),
        "contention-frames": make_frame(_FRAMES, frames),
    }


def _find_value(others: Mapping[str, Profile]) -> tuple[Mapping[str, Profile], str]:
    """Return profiles with the key of their first value."""
    return others, next((profile.values[0].key for profile in others.values()), "")
