"""Which pages of each large block are touched, drawn from the samples of a recording. Pure.

A recorder serves some large blocks from memory of its own, and reads at their ends which pages were
ever touched. Every large block gets the pages of such a sample, drawn at random from those of the
same call site and size; where there is none, of the same site and size class; where there is none,
of the same size class; where there is none either, by a rule: a block that lives for a second and
longer is touched whole, any other up to its first 32 KiB. Small blocks are touched whole.

The same size comes first because several buffers may come from one call site, of a wrapper of
malloc's for one, and those of just one size are mostly for the same.

The recorder looks at each of the first blocks of a site and size class, and ever more rarely at
those that follow. A sample that was one in so many stands for so many blocks, and is drawn that
much more often: the first ones are often unlike the rest (a server's start), and a few wrong pages
in each of a malloc's arenas are megabytes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dballoc.trace.model import NONE, Objects, Recording, TouchSample

Runs = tuple[tuple[int, int], ...]

# Bytes. Smaller blocks are touched whole: nearly all of them are.
LARGE = 8 * 1024
# ns; bytes: the rule for large blocks without a sample.
_LONG_LIVED = 1_000_000_000
_FIRST = 32 * 1024
# Runs of all patterns; a server has some thousands. What comes after them gets the rule.
_MOST_RUNS = 2_000_000


@dataclass(frozen=True, kw_only=True)
class TouchDraw:
    """``touch`` and ``patterns`` as in a trace; how many large blocks got theirs in which way."""

    touch: NDArray[np.int32]
    patterns: tuple[Runs, ...]
    by_site: int
    by_size: int
    by_rule: int


def draw_touches(
    objects: Objects,
    lifetimes: NDArray[np.int64],
    sites: NDArray[np.uint32],
    recording: Recording,
    seed: int,
) -> TouchDraw:
    """Draw the pages of every large object; ``lifetimes`` in ns, ``sites`` as in a recording. The
    same seed draws the same.
    """
    large = np.flatnonzero(objects.size >= LARGE)
    sizes = objects.size[large]
    classes = classify_sizes(sizes)
    sample_sizes = np.array([sample.size for sample in recording.touches], np.uint64)
    sample_sites = np.array([sample.site for sample in recording.touches], np.uint64)
    weights = np.array([4.0**sample.rarity for sample in recording.touches], float)
    sample_classes = classify_sizes(sample_sizes)
    # Sizes by their place among all, so that a site and a size fit into a key.
    ranks = np.unique(np.concatenate([sizes, sample_sizes]), return_inverse=True)[1]
    random = np.random.default_rng(seed)
    chosen = np.full(len(large), NONE, np.int64)
    counts = []
    for keys, sample_keys in (
        (
            _join_keys(sites[large], ranks[: len(large)]),
            _join_keys(sample_sites, ranks[len(large) :]),
        ),
        (_join_keys(sites[large], classes), _join_keys(sample_sites, sample_classes)),
        (classes, sample_classes),
    ):
        open_places = np.flatnonzero(chosen == NONE)
        chosen[open_places] = _draw_samples(keys[open_places], sample_keys, weights, random)
        counts.append(int(np.count_nonzero(chosen != NONE)))
    pages = _count_pages(sizes, recording.facts.page_size)
    numbers, patterns = _share_patterns(
        chosen, pages, lifetimes[large], recording.touches, recording.facts.page_size
    )
    touch = np.full(len(objects.size), NONE, np.int32)
    touch[large] = numbers
    return TouchDraw(
        touch=touch,
        patterns=patterns,
        by_site=counts[1],
        by_size=counts[2] - counts[1],
        by_rule=len(large) - counts[2],
    )


def classify_sizes(sizes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return size classes, four an octave: two sizes of a class differ by less than a quarter."""
    if not len(sizes):
        return np.zeros(0, np.uint64)
    mantissa, exponent = np.frexp(np.maximum(sizes, 1).astype(np.float64))
    return (exponent * 4 + np.floor((mantissa - 0.5) * 8)).astype(np.uint64)


def _join_keys(sites: NDArray, numbers: NDArray) -> NDArray[np.uint64]:
    return sites.astype(np.uint64) << np.uint64(32) | numbers.astype(np.uint64)


def _count_pages(sizes: NDArray[np.uint64], page_size: int) -> NDArray[np.int64]:
    size = np.uint64(page_size)
    return (sizes // size + (sizes % size != 0)).astype(np.int64)


def _draw_samples(
    keys: NDArray[np.uint64],
    sample_keys: NDArray[np.uint64],
    weights: NDArray[np.float64],
    random: np.random.Generator,
) -> NDArray[np.int64]:
    """Return for each key a sample with the same key, drawn by the samples' weights, or NONE if
    there is none.
    """
    order = np.argsort(sample_keys, kind="stable")
    first = np.searchsorted(sample_keys[order], keys, side="left")
    end = np.searchsorted(sample_keys[order], keys, side="right")
    # Weights are whole numbers, so their sums are exact, and a draw is between those of its key.
    sums = np.append(0.0, np.cumsum(weights[order]))
    points = sums[first] + np.floor(random.random(len(keys)) * (sums[end] - sums[first]))
    drawn = np.full(len(keys), NONE, np.int64)
    drawable = end > first
    drawn[drawable] = order[np.searchsorted(sums, points[drawable], side="right") - 1]
    return drawn


def _share_patterns(
    chosen: NDArray[np.int64],
    pages: NDArray[np.int64],
    lifetimes: NDArray[np.int64],
    samples: tuple[TouchSample, ...],
    page_size: int,
) -> tuple[NDArray[np.int32], tuple[Runs, ...]]:
    """Return a pattern's number for each object (NONE: all pages), and the patterns."""
    ruled = chosen == NONE
    # A block by the rule is one of two samples that follow the others: all pages, the first ones.
    source = np.where(ruled, len(samples) + (lifetimes < _LONG_LIVED), chosen)
    pairs, inverse = np.unique(np.stack([source, pages], axis=1), axis=0, return_inverse=True)
    numbers: dict[Runs, int] = {}
    room = _MOST_RUNS
    number_of_pair = np.empty(len(pairs), np.int32)
    for i, (sample, count) in enumerate(pairs.tolist()):
        if sample < len(samples) and room > 0:
            runs = _fit_runs(samples[sample], count, page_size)
        else:
            first = -(-_FIRST // page_size)
            runs = ((0, count if sample == len(samples) else min(count, first)),)
        room -= len(runs)
        is_all = runs == ((0, count),)
        number_of_pair[i] = NONE if is_all else numbers.setdefault(runs, len(numbers))
    return number_of_pair[inverse.reshape(-1)], tuple(numbers)


def _fit_runs(sample: TouchSample, pages: int, page_size: int) -> Runs:
    """Return a sample's runs for a block of so many pages, in order: cut off at its end; a run up
    to the sample's own last page goes on to the last one.
    """
    last = -(-sample.size // page_size)
    runs: list[tuple[int, int]] = []
    for first, count in sorted(sample.runs):
        begin = max(first, sum(runs[-1]) if runs else 0)
        end = pages if first + count >= last else min(first + count, pages)
        if begin < end:
            runs.append((begin, end - begin))
    return tuple(runs)
