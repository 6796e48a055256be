"""Tables of a profile: functions, stacks, and what grew between two. Pure."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dballoc.profile import call_tree, frame_kinds
from dballoc.profile.model import Profile, Sample, Value
from dballoc.profile.symbols import cpp_names

# A value ``live`` that is an estimate comes with a value ``live.variance``: the variance of each
# sample's number, in the square of its unit. As samples are independent, variances add up like the
# numbers themselves.
VARIANCE = ".variance"


_Key = TypeVar("_Key")


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
class StackTotal:
    """A call stack, the thread's start first, and its sum of a value. ``error``: one standard
    error, None if unknown.
    """

    frames: tuple[str, ...]
    value: float
    error: float | None


@dataclass(frozen=True)
class ProfileDifference:
    """A stack or function in two profiles: its sums ``before`` and ``after``. ``error``: one
    standard error of their difference, None if unknown.
    """

    frames: tuple[str, ...]
    before: float
    after: float
    error: float | None

    @property
    def grown(self) -> float:
        """The difference; negative if it shrank."""
        return self.after - self.before


def list_shown_values(profile: Profile) -> list[Value]:
    """Return the values that are shown to people: all but the variances."""
    return [value for value in profile.values if not value.key.endswith(VARIANCE)]


def sum_inclusive(profile: Profile, value: str) -> dict[str, float]:
    """Sum a value by function, over the stacks that contain it, each once even if the function
    recurs. KeyError if the profile has no such value.
    """
    return _sum_samples(profile, value, lambda s: {frame.function for frame in s.stack})


def sum_exclusive(profile: Profile, value: str) -> dict[str, float]:
    """Sum a value by function, over the stacks whose innermost frame it is. KeyError if the profile
    has no such value.
    """
    return _sum_samples(profile, value, lambda s: [frame.function for frame in s.stack[-1:]])


def _sum_samples(
    profile: Profile, value: str, keys: Callable[[Sample], Iterable[_Key]]
) -> dict[_Key, float]:
    """Sum a value over the samples by the keys of each. KeyError if the profile has none such."""
    column = profile.column(value)
    sums: dict[_Key, float] = defaultdict(float)
    for sample in profile.samples:
        for key in keys(sample):
            sums[key] += sample.values[column]
    return dict(sums)


def rank_functions(profile: Profile, value: str) -> list[Function]:
    """Return every function, the largest inclusive sum first."""
    of_all, of_own = sum_inclusive(profile, value), sum_exclusive(profile, value)
    modules = {frame.function: frame.module for sample in profile.samples for frame in sample.stack}
    rows = [
        Function(name, modules[name], of_own.get(name, 0.0), total)
        for name, total in of_all.items()
    ]
    return sorted(rows, key=lambda row: (-row.inclusive, -row.exclusive, row.name))


def rank_stacks(profile: Profile, value: str) -> list[StackTotal]:
    """Return every call stack, the largest sum first."""
    rows = [
        StackTotal(names, total, _compute_standard_error(variance))
        for names, (total, variance) in _sum_by_stack(profile, value).items()
    ]
    return sorted(rows, key=lambda row: (-row.value, row.frames))


def rank_growth(before: Profile, after: Profile, value: str) -> list[ProfileDifference]:
    """Return every call stack of either profile, the largest growth first and the largest decrease
    last. KeyError if one of them does not have the value.
    """
    return _compare_sums(_sum_by_stack(before, value), _sum_by_stack(after, value))


def rank_growth_by_function(before: Profile, after: Profile, value: str) -> list[ProfileDifference]:
    """Return every function of either profile with its inclusive sums, in the order of
    :func:`rank_growth`: a leak spread over many stacks shows in the function that they share.
    """
    return _compare_sums(_sum_by_function(before, value), _sum_by_function(after, value))


def format_innermost(stack: Sequence[str], max_frames: int = 5) -> str:
    """Format a call stack in one line for people: the caller of malloc, its caller, and so on."""
    short = [cpp_names.shorten_name(name) for name in reversed(stack)]
    while len(short) > 1 and frame_kinds.is_malloc(short[0]):
        short.pop(0)
    return " ← ".join(short[:max_frames]) + (" ← …" if len(short) > max_frames else "")


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
    sums = _sum_samples(profile, value, keys)
    if all(each.key != value + VARIANCE for each in profile.values):
        return {key: (total, None) for key, total in sums.items()}
    variances = _sum_samples(profile, value + VARIANCE, keys)
    return {key: (total, variances[key]) for key, total in sums.items()}


def split_growth(
    growths: Sequence[ProfileDifference], most: int
) -> tuple[list[ProfileDifference], list[ProfileDifference]]:
    """Return so many of what grew at most, the largest rise first, and of what shrank."""
    grown = [row for row in growths if row.grown > 0][:most]
    return grown, [row for row in growths[::-1] if row.grown < 0][:most]


def _compare_sums(
    sums_before: dict[tuple[str, ...], _Sum], sums_after: dict[tuple[str, ...], _Sum]
) -> list[ProfileDifference]:
    # If one profile has no variances, no difference has a known error.
    has_errors = all(
        variance is not None for sums in (sums_before, sums_after) for _, variance in sums.values()
    )
    rows = []
    for stack in sums_before.keys() | sums_after.keys():
        before, variance_before = sums_before.get(stack, _ZERO)
        after, variance_after = sums_after.get(stack, _ZERO)
        error = math.sqrt((variance_before or 0.0) + (variance_after or 0.0))
        rows.append(ProfileDifference(stack, before, after, error if has_errors else None))
    return sorted(rows, key=lambda row: (-row.grown, row.frames))


def _compute_standard_error(variance: float | None) -> float | None:
    return None if variance is None else math.sqrt(variance)
