"""Tables of a profile's functions across variants: by what they call included, by what waits
itself, and by where malloc is entered.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from dballoc.document.model import Table
from dballoc.numbers import NOTHING, percent
from dballoc.profile.contention.dominant_frames import DominantFrame, rank_dominant_frames
from dballoc.profile.contention.wait_rules import KERNEL
from dballoc.profile.model import Frame, Profile
from dballoc.profile.symbols import cpp_names
from dballoc.report.sections import profiles as profile_sections

# Functions with less than this share in every variant are not worth a line; at most so many have
# one.
_LEAST_SHARE, _MOST_ROWS = 0.005, 20


def tabulate_frames(
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
    return profile_sections.shorten_function_name(cpp_names.shorten_name(function))


def _format_share(share: float) -> str:
    return percent(share, 2) if share else NOTHING
