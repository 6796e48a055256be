"""The table of dominant inclusive frames across variants. Pure.

A function's share is that of all waits whose stack contains it, however often. The kernel's
functions are left out, and those on nearly every stack of every variant, for they lead to all waits
and tell nothing, unless it is they that enter the kernel.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dballoc.profile.model import Profile
from dballoc.profile.profile_tables import inclusive

# A function on so many stacks of every variant leads to all of them; one with less in every variant
# is not worth a line. Of the allocator's own functions so many have one in any case, however little
# they are: that is what was asked.
EVERYWHERE, LEAST, LEAST_OF_ALLOCATOR, ALLOCATORS = 0.95, 0.005, 0.0001, 6


@dataclass(frozen=True)
class Row:
    """``shares``: by variant, of its whole value; ``allocator``: more of it lies below malloc, or
    is malloc, than elsewhere.
    """

    function: str
    module: str
    shares: Mapping[str, float]
    allocator: bool

    @property
    def difference(self) -> float:
        """Between the variants with the most and the least of it; the share itself where there is
        one variant.
        """
        found = self.shares.values()
        return max(found) - (min(found) if len(found) > 1 else 0.0)


def dominant(profiles: Mapping[str, Profile], value: str, most: int = 25) -> list[Row]:
    """The rows, the largest difference first. KeyError if a profile has no such value."""
    shares = {}
    entering: set[str] = set()
    sides: dict[str, float] = {}
    modules: dict[str, str] = {}
    for name, profile in profiles.items():
        whole = profile.total(value) or 1.0
        shares[name] = {
            function: share / whole for function, share in inclusive(profile, value).items()
        }
        _sides(profile, value, whole, sides, modules)
        entering |= _entering(profile, value, whole)
    rows = [
        Row(
            function,
            module,
            {name: mine.get(function, 0.0) for name, mine in shares.items()},
            sides[function] > 0,
        )
        for function, module in modules.items()
        if module != "[kernel]"
    ]
    rows = [r for r in rows if max(r.shares.values()) >= LEAST_OF_ALLOCATOR]
    rows = [r for r in rows if min(r.shares.values()) < EVERYWHERE or r.function in entering]
    rows.sort(key=lambda r: (-r.difference, -max(r.shares.values()), r.function))
    told = [r for r in rows if max(r.shares.values()) >= LEAST][:most]
    first = [r for r in rows if r.allocator][:ALLOCATORS]
    return [*told, *(r for r in first if r not in told)]


def _sides(
    profile: Profile, value: str, whole: float, sides: dict[str, float], modules: dict[str, str]
) -> None:
    """Add up each function's share below malloc less its share elsewhere; note the module
    it is of.
    """
    column = profile.column(value)
    for sample in profile.samples:
        entry, share = sample.labels.get("malloc", ""), sample.values[column] / whole
        below: dict[str, bool] = {}
        inside = False
        for frame in sample.stack:
            inside = inside or (bool(entry) and frame.function == entry)
            below[frame.function] = below.get(frame.function, False) or inside
            modules.setdefault(frame.function, frame.module)
        for function, in_malloc in below.items():
            sides[function] = sides.get(function, 0.0) + (share if in_malloc else -share)


def _entering(profile: Profile, value: str, whole: float) -> set[str]:
    """The innermost functions outside the kernel of stacks worth a line."""
    column = profile.column(value)
    own: dict[str, float] = {}
    for sample in profile.samples:
        inner = next((f.function for f in reversed(sample.stack) if f.module != "[kernel]"), None)
        if inner is not None:
            own[inner] = own.get(inner, 0.0) + sample.values[column] / whole
    return {function for function, share in own.items() if share >= LEAST}
