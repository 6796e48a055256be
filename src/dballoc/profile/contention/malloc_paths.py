"""The call paths into malloc that cost most waits. Pure."""

from dataclasses import dataclass

from dballoc.profile.model import Profile, Sample

# So many callers of malloc are shown.
_CALLERS_SHOWN = 4


@dataclass(frozen=True)
class MallocPath:
    """A call path. ``functions``: the last callers of malloc, then the functions below it, without
    the kernel's; ``share``: of the profile's total; ``wait``: what for, like ``lock`` or ``page
    fault``.
    """

    functions: tuple[str, ...]
    wait: str
    share: float


def rank_malloc_paths(profile: Profile, value: str, max_paths: int = 5) -> list[MallocPath]:
    """Return the paths with the largest shares, the largest first; none if no stack lies below
    malloc. Raises KeyError if the profile has no such value.
    """
    column, total = profile.column(value), profile.total(value) or 1.0
    sums: dict[tuple[tuple[str, ...], str], float] = {}
    for sample in profile.samples:
        if not sample.values[column] or not (functions := _find_path(sample)):
            continue
        key = functions, sample.labels.get("call", "")
        sums[key] = sums.get(key, 0.0) + sample.values[column] / total
    rows = [MallocPath(functions, wait, share) for (functions, wait), share in sums.items()]
    return sorted(rows, key=lambda row: (-row.share, row.functions))[:max_paths]


def _find_path(sample: Sample) -> tuple[str, ...]:
    """Return the functions from the last callers of malloc inwards; empty for a stack that is not
    below malloc.
    """
    entry = sample.labels.get("malloc")
    names = [frame.function for frame in sample.stack]
    if entry not in names:
        return ()
    start = max(0, names.index(entry) - _CALLERS_SHOWN)
    return tuple(frame.function for frame in sample.stack[start:] if frame.module != "[kernel]")
