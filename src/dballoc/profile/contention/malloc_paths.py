"""The ways into malloc that cost most waits. Pure."""

from dataclasses import dataclass

from dballoc.profile.model import Profile, Sample

# Functions of the way that are shown before malloc is entered.
_CALLERS_SHOWN = 4


@dataclass(frozen=True)
class MallocPath:
    """``functions``: the last callers of malloc, then what waited below it, the kernel's left out;
    ``share`` of the whole value of the profile; ``wait``: what for, as ``lock`` or ``page fault``.
    """

    functions: tuple[str, ...]
    wait: str
    share: float


def into_malloc(profile: Profile, value: str, max_paths: int = 5) -> list[MallocPath]:
    """The largest first; none where no stack lies below malloc. KeyError if the profile has no such
    value.
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
    """From the last callers of malloc inwards; empty for a stack that does not lie below it."""
    entry = sample.labels.get("malloc")
    names = [frame.function for frame in sample.stack]
    if entry not in names:
        return ()
    first = max(0, names.index(entry) - _CALLERS_SHOWN)
    return tuple(frame.function for frame in sample.stack[first:] if frame.module != "[kernel]")
