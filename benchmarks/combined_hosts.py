"""Simulate verdicts over hosts: how often they err, and how wide their intervals are.

    python benchmarks/combined_hosts.py [--repeats 20000] [--seed 1]

Simulates campaigns of a variant without any mean effect on several hosts: each host has an effect
of its own (normal, ``between``) and blocks that scatter (normal; the host's scatter is 1, or 10 on
one host, or 5 on half of them). For each shape two intervals of the mean over hosts are taken:
that of :func:`dballoc.questions.statistics.mean_over_hosts.compute_mean_over_hosts`, in which every
host has the same weight; and Hartung and Knapp's with weights of 1 ÷ (estimated variance + Paule
and Mandel's variance between hosts), its scale at least 1. Printed: errors ÷ allowed errors, and
the median half-width, at 95 % and at 99.75 %, as one of twenty comparisons. "stopped": hosts whose
campaign ended at half of its blocks when its own 95 % interval left out 1.
"""

import argparse
import itertools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

Floats = NDArray[np.float64]

LEVELS = (0.95, 0.9975)
SCATTERS: dict[str, Callable[[int], Floats]] = {
    "alike": lambda hosts: np.ones(hosts),
    "one × 10": lambda hosts: np.r_[10.0, np.ones(hosts - 1)],
    "half × 5": lambda hosts: np.r_[np.full(hosts // 2, 5.0), np.ones(hosts - hosts // 2)],
}
HALVINGS = 60  # of Paule and Mandel's bisection


def simulate_hosts(
    chance: np.random.Generator,
    repeats: int,
    blocks: int,
    between: float,
    scatter: Floats,
    stops: bool,
) -> tuple[Floats, Floats]:
    """Return each host's mean and the variance of that mean, each repeats × hosts."""
    hosts = len(scatter)
    effect = chance.normal(0, between, (repeats, hosts, 1)) if between else 0.0
    logs = effect + chance.normal(0, 1, (repeats, hosts, blocks)) * scatter[:, None]
    mean, variance = logs.mean(2), logs.var(2, ddof=1) / blocks
    if stops:
        half = blocks // 2
        early, early_variance = logs[:, :, :half].mean(2), logs[:, :, :half].var(2, ddof=1) / half
        ended = np.abs(early) > stdtrit(half - 1, 0.975) * np.sqrt(early_variance)
        mean = np.where(ended, early, mean)
        variance = np.where(ended, early_variance, variance)
    return mean, variance


def weigh_equally(mean: Floats, variance: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the means over hosts and the half-widths of their intervals; the mean's variance is at
    least what the blocks' scatter alone gives it.
    """
    hosts = mean.shape[1]
    error = np.sqrt(np.maximum(mean.var(1, ddof=1), variance.mean(1)) / hosts)
    return mean.mean(1), stdtrit(hosts - 1, (1 + level) / 2) * error


def weigh_by_variance(mean: Floats, variance: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the same by Hartung and Knapp with estimated weights."""
    hosts = mean.shape[1]

    def measure_spread(between: Floats) -> tuple[Floats, Floats, Floats]:
        weight = 1 / (variance + between[:, None])
        total = weight.sum(1)
        centre = (weight * mean).sum(1) / total
        return (weight * (mean - centre[:, None]) ** 2).sum(1), centre, total

    low = np.zeros(len(mean))
    high = np.maximum(mean.var(1, ddof=1) * hosts * 4, 1e-12)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        above = measure_spread(middle)[0] > hosts - 1
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    between = np.where(measure_spread(np.zeros(len(mean)))[0] <= hosts - 1, 0.0, (low + high) / 2)
    spread, centre, total = measure_spread(between)
    error = np.sqrt(np.maximum(spread / (hosts - 1), 1) / total)
    return centre, stdtrit(hosts - 1, (1 + level) / 2) * error


def main() -> None:
    """Print the table, and the worst of each kind of weight."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = np.random.default_rng(options.seed)
    columns = [f"{kind}, {level:.2%}" for kind in ("same", "by variance") for level in LEVELS]
    print("| hosts | blocks | between | scatter | stopped | " + " | ".join(columns) + " |")
    print("|---|---|---|---|---|" + "---|" * len(columns))
    worst = dict.fromkeys(columns, 0.0)
    for hosts, blocks, between, scatter, stops in itertools.product(
        (4, 6, 10, 30), (2, 4, 10), (0.0, 0.5, 2.0), SCATTERS, (False, True)
    ):
        if stops and blocks < 4:
            continue
        mean, variance = simulate_hosts(
            chance, options.repeats, blocks, between, SCATTERS[scatter](hosts), stops
        )
        cells = []
        for number, column in enumerate(columns):
            weigh = (weigh_equally, weigh_by_variance)[number // len(LEVELS)]
            level = LEVELS[number % len(LEVELS)]
            centre, half = weigh(mean, variance, level)
            errors = float((np.abs(centre) > half).mean() / (1 - level))
            worst[column] = max(worst[column], errors)
            cells.append(f"{errors:.2f} (±{np.median(half):.2f})")
        stopped = "yes" if stops else "no"
        print(f"| {hosts} | {blocks} | {between} | {scatter} | {stopped} | {' | '.join(cells)} |")
    for column, errors in worst.items():
        print(f"worst of {column}: {errors:.2f} of the allowed errors")


if __name__ == "__main__":
    main()
