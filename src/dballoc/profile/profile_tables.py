"""Tables of a profile: functions, stacks, and what grew between two. Pure."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dballoc.profile import call_tree, frame_kinds
from dballoc.profile.model import Profile, Sample, Value
from dballoc.profile.symbols import cpp_names

# A value ``live`` whose estimate has an error comes with a value ``live.variance``: the variance of
# each sample's number, in the square of its unit. As samples are independent these add up like the
# numbers themselves.
VARIANCE = ".variance"


@dataclass(frozen=True)
class Function:
    """A function's sums. ``exclusive``: over the stacks whose innermost frame it is; ``inclusive``:
    over those that contain it, each counted once even if the function recurs.
    """

    name: str
    module: str
    exclusive: float
    inclusive: float


@dataclass(frozen=True)
class Stack:
    """A call stack, the thread's start first, and what it has of a value. ``error``: one standard
    error, None if unknown.
    """

    frames: tuple[str, ...]
    value: float
    error: float | None


@dataclass(frozen=True)
class Growth:
    """``before`` and ``after``: values of a stack or function in two profiles. ``error``: one
    standard error of their difference, None if the profiles say nothing of it.
    """

    frames: tuple[str, ...]
    before: float
    after: float
    error: float | None

    @property
    def grown(self) -> float:
        """Negative if it shrank."""
        return self.after - self.before


def list_shown_values(profile: Profile) -> list[Value]:
    """The values that are for people: not the variances."""
    return [value for value in profile.values if not value.key.endswith(VARIANCE)]


def sum_inclusive(profile: Profile, value: str) -> dict[str, float]:
    """Of every function the sum over the stacks that it is on; where it is on one several times, it
    counts once. KeyError if the profile has no such value.
    """
    column = profile.column(value)
    sums: dict[str, float] = defaultdict(float)
    for sample in profile.samples:
        for name in {frame.function for frame in sample.stack}:
            sums[name] += sample.values[column]
    return dict(sums)


def sum_exclusive(profile: Profile, value: str) -> dict[str, float]:
    """Of every function the sum over the stacks whose innermost frame it is. KeyError as
    :func:`inclusive`.
    """
    column = profile.column(value)
    sums: dict[str, float] = defaultdict(float)
    for sample in profile.samples:
        if sample.stack:
            sums[sample.stack[-1].function] += sample.values[column]
    return dict(sums)


def rank_functions(profile: Profile, value: str) -> list[Function]:
    """Every function, the largest inclusive value first."""
    of_all, of_own = sum_inclusive(profile, value), sum_exclusive(profile, value)
    modules = {frame.function: frame.module for sample in profile.samples for frame in sample.stack}
    rows = [
        Function(name, modules[name], of_own.get(name, 0.0), total)
        for name, total in of_all.items()
    ]
    return sorted(rows, key=lambda row: (-row.inclusive, -row.exclusive, row.name))


def rank_stacks(profile: Profile, value: str) -> list[Stack]:
    """Every call stack, the largest first."""
    rows = [
        Stack(names, total, _compute_standard_error(variance))
        for names, (total, variance) in _sum_by_stack(profile, value).items()
    ]
    return sorted(rows, key=lambda row: (-row.value, row.frames))


def growth(before: Profile, after: Profile, value: str) -> list[Growth]:
    """Every call stack that either profile has, what grew most first and what shrank most last.
    KeyError if one of them does not have the value.
    """
    return _compare_sums(_sum_by_stack(before, value), _sum_by_stack(after, value))


def growth_by_function(before: Profile, after: Profile, value: str) -> list[Growth]:
    """As :func:`growth`, by function, inclusive: a leak spread over many stacks shows in the
    function that they share.
    """
    return _compare_sums(_sum_by_function(before, value), _sum_by_function(after, value))


def format_innermost(stack: Sequence[str], most: int = 5) -> str:
    """A call stack in a line, as people read it: who asked malloc, who called that, and so on."""
    short = [cpp_names.short(name) for name in reversed(stack)]
    while len(short) > 1 and frame_kinds.is_malloc(short[0]):
        short.pop(0)
    return " ← ".join(short[:most]) + (" ← …" if len(short) > most else "")


# A sum and its variance; the variance is None where the profile has none.
_Sum = tuple[float, float | None]
_ZERO: _Sum = (0.0, 0.0)


def _sum_by_stack(profile: Profile, value: str) -> dict[tuple[str, ...], _Sum]:
    return _sum_by_key(
        profile,
        value,
        lambda sample: [tuple(frame.function for frame in call_tree.list_frames(sample))],
    )


def _sum_by_function(profile: Profile, value: str) -> dict[tuple[str, ...], _Sum]:
    return _sum_by_key(profile, value, lambda sample: {(frame.function,) for frame in sample.stack})


def _sum_by_key(
    profile: Profile, value: str, keys: Callable[[Sample], Iterable[tuple[str, ...]]]
) -> dict[tuple[str, ...], _Sum]:
    column, spread = profile.column(value), _find_variance_column(profile, value)
    sums: dict[tuple[str, ...], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for sample in profile.samples:
        for key in keys(sample):
            sums_of_key = sums[key]
            sums_of_key[0] += sample.values[column]
            sums_of_key[1] += sample.values[spread] if spread is not None else 0.0
    return {
        key: (total, variance if spread is not None else None)
        for key, (total, variance) in sums.items()
    }


def _find_variance_column(profile: Profile, value: str) -> int | None:
    try:
        return profile.column(value + VARIANCE)
    except KeyError:
        return None


def _compare_sums(
    old: dict[tuple[str, ...], _Sum], new: dict[tuple[str, ...], _Sum]
) -> list[Growth]:
    # A profile without variances tells nothing of the error of what it lacks either.
    has_errors = all(variance is not None for sums in (old, new) for _, variance in sums.values())
    rows = []
    for stack in old.keys() | new.keys():
        (was, a), (is_, b) = old.get(stack, _ZERO), new.get(stack, _ZERO)
        rows.append(
            Growth(stack, was, is_, math.sqrt((a or 0.0) + (b or 0.0)) if has_errors else None)
        )
    return sorted(rows, key=lambda row: (-row.grown, row.frames))


def _compute_standard_error(variance: float | None) -> float | None:
    return None if variance is None else math.sqrt(variance)
