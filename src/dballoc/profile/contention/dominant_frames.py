"""The table of dominant inclusive frames across variants. Pure.

A function's share is that of the waits whose stack contains it, however often. The kernel's
functions are left out. So are functions on nearly every stack of every variant, such as a thread's
start: they lead to all waits and explain none, unless they are the ones that enter the kernel.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dballoc.profile.model import Profile
from dballoc.profile.profile_tables import sum_inclusive

# A function with at least the first share in every variant leads to all waits; one with less than
# the second in every variant is not worth a line. Some functions of the allocator have a line down
# to the third share, as they are what the table is for; the last number says how many.
UBIQUITOUS_SHARE, LEAST_SHARE, LEAST_ALLOCATOR_SHARE, MAX_ALLOCATOR_ROWS = 0.95, 0.005, 0.0001, 6


@dataclass(frozen=True)
class DominantFrame:
    """A function. ``shares``: by variant, of the variant's total; ``allocator``: most of it lies
    below malloc, or is malloc itself.
    """

    function: str
    module: str
    shares: Mapping[str, float]
    allocator: bool

    @property
    def difference(self) -> float:
        """The largest share less the smallest; the share itself if there is one variant."""
        shares = self.shares.values()
        return max(shares) - (min(shares) if len(shares) > 1 else 0.0)


def rank_dominant_frames(
    profiles: Mapping[str, Profile], value: str, max_rows: int = 25
) -> list[DominantFrame]:
    """Return the rows, the largest difference first. Raises KeyError if a profile has no such
    value.
    """
    shares = {}
    kernel_callers: set[str] = set()
    malloc_sides: dict[str, float] = defaultdict(float)
    modules = _list_modules(profiles.values())
    for name, profile in profiles.items():
        total = profile.total(value) or 1.0
        shares[name] = {
            function: share / total for function, share in sum_inclusive(profile, value).items()
        }
        for function, side in _weigh_malloc_sides(profile, value, total).items():
            malloc_sides[function] += side
        kernel_callers |= _find_kernel_callers(profile, value, total)
    rows = [
        DominantFrame(
            function,
            module,
            {name: variant_shares.get(function, 0.0) for name, variant_shares in shares.items()},
            malloc_sides[function] > 0,
        )
        for function, module in modules.items()
        if module != "[kernel]"
    ]
    rows = [r for r in rows if max(r.shares.values()) >= LEAST_ALLOCATOR_SHARE]
    rows = [
        r for r in rows if min(r.shares.values()) < UBIQUITOUS_SHARE or r.function in kernel_callers
    ]
    rows.sort(key=lambda r: (-r.difference, -max(r.shares.values()), r.function))
    largest = [r for r in rows if max(r.shares.values()) >= LEAST_SHARE][:max_rows]
    of_allocator = [r for r in rows if r.allocator][:MAX_ALLOCATOR_ROWS]
    return [*largest, *(r for r in of_allocator if r not in largest)]


def _list_modules(profiles: Iterable[Profile]) -> dict[str, str]:
    """Return the module of each function; the first, if several have a function of that name."""
    modules: dict[str, str] = {}
    for profile in profiles:
        for sample in profile.samples:
            for frame in sample.stack:
                modules.setdefault(frame.function, frame.module)
    return modules


def _weigh_malloc_sides(profile: Profile, value: str, total: float) -> dict[str, float]:
    """Return each function's share below malloc less its share elsewhere."""
    column = profile.column(value)
    sides: dict[str, float] = defaultdict(float)
    for sample in profile.samples:
        entry, share = sample.labels.get("malloc", ""), sample.values[column] / total
        below: dict[str, bool] = {}
        inside = False
        for frame in sample.stack:
            inside = inside or (bool(entry) and frame.function == entry)
            below[frame.function] = below.get(frame.function, False) or inside
        for function, in_malloc in below.items():
            sides[function] += share if in_malloc else -share
    return sides


def _find_kernel_callers(profile: Profile, value: str, total: float) -> set[str]:
    """Return the functions that enter the kernel, or wait themselves, with a share worth a line."""
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
