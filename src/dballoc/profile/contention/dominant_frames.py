"""The table of dominant inclusive frames across variants. Pure.

A function's share is that of all waits whose stack contains it, however often. The kernel's
functions are left out, and those on nearly every stack of every variant, for they lead to all waits
and tell nothing, unless it is they that enter the kernel.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dballoc.profile.model import Profile
from dballoc.profile.profile_tables import sum_inclusive

# A function on so many stacks of every variant leads to all of them; one with less in every variant
# is not worth a line. Of the allocator's own functions so many have one in any case, however little
# they are: that is what was asked.
UBIQUITOUS_SHARE, LEAST_SHARE, LEAST_ALLOCATOR_SHARE, MAX_ALLOCATOR_ROWS = 0.95, 0.005, 0.0001, 6


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
        shares = self.shares.values()
        return max(shares) - (min(shares) if len(shares) > 1 else 0.0)


def dominant(profiles: Mapping[str, Profile], value: str, max_rows: int = 25) -> list[Row]:
    """The rows, the largest difference first. KeyError if a profile has no such value."""
    shares = {}
    entering: set[str] = set()
    sides: dict[str, float] = {}
    modules: dict[str, str] = {}
    for name, profile in profiles.items():
        total = profile.total(value) or 1.0
        shares[name] = {
            function: share / total for function, share in sum_inclusive(profile, value).items()
        }
        _weigh_malloc_sides(profile, value, total, sides, modules)
        entering |= _find_kernel_callers(profile, value, total)
    rows = [
        Row(
            function,
            module,
            {name: variant_shares.get(function, 0.0) for name, variant_shares in shares.items()},
            sides[function] > 0,
        )
        for function, module in modules.items()
        if module != "[kernel]"
    ]
    rows = [r for r in rows if max(r.shares.values()) >= LEAST_ALLOCATOR_SHARE]
    rows = [r for r in rows if min(r.shares.values()) < UBIQUITOUS_SHARE or r.function in entering]
    rows.sort(key=lambda r: (-r.difference, -max(r.shares.values()), r.function))
    largest = [r for r in rows if max(r.shares.values()) >= LEAST_SHARE][:max_rows]
    of_allocator = [r for r in rows if r.allocator][:MAX_ALLOCATOR_ROWS]
    return [*largest, *(r for r in of_allocator if r not in largest)]


def _weigh_malloc_sides(
    profile: Profile, value: str, total: float, sides: dict[str, float], modules: dict[str, str]
) -> None:
    """Add up each function's share below malloc less its share elsewhere; note the module
    it is of.
    """
    column = profile.column(value)
    for sample in profile.samples:
        entry, share = sample.labels.get("malloc", ""), sample.values[column] / total
        below: dict[str, bool] = {}
        inside = False
        for frame in sample.stack:
            inside = inside or (bool(entry) and frame.function == entry)
            below[frame.function] = below.get(frame.function, False) or inside
            modules.setdefault(frame.function, frame.module)
        for function, in_malloc in below.items():
            sides[function] = sides.get(function, 0.0) + (share if in_malloc else -share)


def _find_kernel_callers(profile: Profile, value: str, total: float) -> set[str]:
    """The innermost functions outside the kernel of stacks worth a line."""
    column = profile.column(value)
    innermost_shares: dict[str, float] = {}
    for sample in profile.samples:
        innermost = next(
            (f.function for f in reversed(sample.stack) if f.module != "[kernel]"), None
        )
        if innermost is not None:
            innermost_shares[innermost] = (
                innermost_shares.get(innermost, 0.0) + sample.values[column] / total
            )
    return {function for function, share in innermost_shares.items() if share >= LEAST_SHARE}
