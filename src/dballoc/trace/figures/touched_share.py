"""How much of its large blocks a program touches. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dballoc.trace.compilation.draw_touches import LARGE
from dballoc.trace.model import NONE, Trace


@dataclass(frozen=True, kw_only=True)
class TouchedShare:
    """Large blocks, of 8 KiB and more: how many, their bytes, and those on touched pages."""

    blocks: int
    bytes: int
    touched: int


def count_touched_bytes(trace: Trace) -> NDArray[np.int64]:
    """Return the bytes of each object that are on touched pages."""
    sizes = trace.objects.size.astype(np.int64)
    page = trace.facts.page_size
    pages = np.zeros(len(trace.touch_patterns) + 1, np.int64)
    for number, runs in enumerate(trace.touch_patterns):
        # No block is larger; a trace may claim what cannot be multiplied.
        pages[number] = min(sum(count for _, count in runs), 2**40)
    touch = trace.objects.touch
    return np.where(touch == NONE, sizes, np.minimum(sizes, pages[touch] * page))


def compute_touched_share(trace: Trace) -> TouchedShare:
    """Return how much of the large blocks is touched."""
    large = trace.objects.size >= LARGE
    return TouchedShare(
        blocks=int(np.count_nonzero(large)),
        bytes=int(trace.objects.size[large].sum()),
        touched=int(count_touched_bytes(trace)[large].sum()),
    )
