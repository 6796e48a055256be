"""Search the largest cache size that survives: choose which size to try next from the trials so
far. Pure.

Sizes are multiples of the tolerance, up to the memory limit. One kill decides that a size is too
large, and so is every larger one. To show that a size survives takes several trials without a kill;
only the last candidate gets them.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dballoc.experiment.model import Experiment

# The confidence of a survival rate from trials without a kill.
SURVIVAL_CONFIDENCE = 0.95

Outcome = Literal["survived", "killed", "other"]
Why = Literal["found", "none", "all", "faults"]

# The search gives up after this many trials with a fault that says nothing about memory.
MOST_FAULTS = 3

_MIB = 2**20
# The default tolerance is the memory ÷ this.
_FINE = 50

# How many sizes below a near start are tried before the middle.
_STEPS_DOWN = 3

# How many guesses in a row may be worse than the middle. In simulated searches, two save about a
# fifth of the trials on average against the middle alone; one saves less, and three make the worst
# case worse.
_GUESSES = 2


@dataclass(frozen=True, kw_only=True)
class SizeRange:
    """The sizes searched, in bytes. ``start``: the first size tried; ``repeats``: trials without a
    kill until a size counts as surviving. ``is_near``: whether the start is a guess that is
    probably near the answer, so that after a kill the next size is just below.
    """

    memory: int
    tolerance: int
    start: int
    repeats: int
    is_near: bool = False

    @property
    def steps(self) -> int:
        """The number of sizes."""
        return max(1, self.memory // self.tolerance)

    def nearest(self, size: float) -> int:
        """Return the number of the nearest size below, within the range."""
        return min(self.steps, max(1, math.floor(size / self.tolerance)))


def derive_range(experiment: Experiment) -> SizeRange:
    """Return the range that an experiment with a memory limit searches."""
    memory, fit = experiment.limits.memory, experiment.fit
    assert memory is not None
    tolerance = fit.tolerance or max(_MIB, memory // _FINE // _MIB * _MIB)
    return SizeRange(
        memory=memory,
        tolerance=tolerance,
        start=fit.start or memory // 2,
        repeats=fit.repeats,
        is_near=fit.guess is not None,
    )


@dataclass(frozen=True)
class Trial:
    """What one trial with a size showed; ``peak``: the highest RSS seen, None if none was read."""

    size: int
    outcome: Outcome
    peak: int | None = None


@dataclass(frozen=True)
class SearchState:
    """The state of the search. ``low``: the largest size without a kill so far, 0 for none;
    ``high``: the smallest with one, None for none; ``next``: the size to try now, None when the
    search is over. Then ``why``: ``found``; ``none`` survives; ``all`` survive; too many ``faults``
    of another kind.
    """

    low: int
    high: int | None
    next: int | None
    why: Why | None = None


def compute_state(sizes: SizeRange, trials: Sequence[Trial]) -> SearchState:
    """Return the state after these trials, in their order."""
    low, high = find_bracket(trials)
    if sum(1 for t in trials if t.outcome == "other") >= MOST_FAULTS:
        return SearchState(low, high, None, "faults")
    below, above = _convert_to_steps(sizes, low, high)
    if above - below > 1:
        return SearchState(low, high, _choose_next(sizes, trials, below, above) * sizes.tolerance)
    if low == 0:
        return SearchState(low, high, None, "none")
    if sum(1 for t in trials if t.outcome == "survived" and t.size == low) < sizes.repeats:
        return SearchState(low, high, low)
    return SearchState(low, high, None, "all" if high is None else "found")


def find_bracket(trials: Sequence[Trial]) -> tuple[int, int | None]:
    """Return the largest size that survived below the smallest one that was killed (0: none), and
    that smallest one (None: none).
    """
    high = min((t.size for t in trials if t.outcome == "killed"), default=None)
    low = max(
        (t.size for t in trials if t.outcome == "survived" and (high is None or t.size < high)),
        default=0,
    )
    return low, high


def compute_least_survival(trials: int) -> float:
    """Return the share of trials of a size that survive at least, when all of so many did: the
    lower end of the one-sided exact interval of a share, 0.05^(1/n) (Clopper and Pearson,
    Biometrika 26, 1934).
    """
    return float((1 - SURVIVAL_CONFIDENCE) ** (1 / trials))


def count_trials_for_survival(share: float) -> int:
    """Return the fewest trials without a kill that show that at least ``share`` survive."""
    # Rounded, so that a share that so many trials show exactly needs no further trial.
    return math.ceil(round(math.log(1 - SURVIVAL_CONFIDENCE) / math.log(share), 9))


def count_trials_at_most(sizes: SizeRange, trials: Sequence[Trial]) -> int:
    """Return how many more trials it takes at most, provided that a size has the same outcome every
    time and no other fault occurs.
    """
    progress = compute_state(sizes, trials)
    if progress.next is None:
        return 0
    below, above = _convert_to_steps(sizes, progress.low, progress.high)
    # At least every third new size halves the range, but for those below a near start.
    steps_down = _STEPS_DOWN if sizes.is_near and progress.low == 0 else 0
    return steps_down + (_GUESSES + 1) * math.ceil(math.log2(above - below)) + sizes.repeats


def _convert_to_steps(sizes: SizeRange, low: int, high: int | None) -> tuple[int, int]:
    return low // sizes.tolerance, sizes.steps + 1 if high is None else high // sizes.tolerance


def _choose_next(sizes: SizeRange, trials: Sequence[Trial], below: int, above: int) -> int:
    """Choose a new size strictly between the two: the one that just uses up the memory, if the
    server needs as much beside the cache as before; the middle where nothing has survived yet or
    such guesses were no better. Below a start that is near: 2, 4 and 8 sizes below the last.
    """
    if not any(t.outcome != "other" for t in trials):
        return min(above - 1, max(below + 1, sizes.nearest(sizes.start)))
    peaks = [
        t.peak
        for t in trials
        if t.outcome == "survived" and t.size == below * sizes.tolerance and t.peak is not None
    ]
    kills = sum(1 for t in trials if t.outcome == "killed")
    if sizes.is_near and below == 0 and kills <= _STEPS_DOWN:
        return max(1, above - 2**kills)
    if not peaks or _is_stalled(sizes, trials):
        return (below + above) // 2
    guess = sizes.nearest(below * sizes.tolerance + sizes.memory - max(peaks))
    return min(above - 1, max(below + 1, guess))


def _is_stalled(sizes: SizeRange, trials: Sequence[Trial]) -> bool:
    """Whether each of the last sizes that narrowed the range narrowed it by less than half."""
    widths = [sizes.steps + 1]
    for number in range(1, len(trials) + 1):
        below, above = _convert_to_steps(sizes, *find_bracket(trials[:number]))
        if above - below != widths[-1]:
            widths.append(above - below)
    last = list(itertools.pairwise(widths))[-_GUESSES:]
    return len(last) == _GUESSES and all(after > before / 2 for before, after in last)
