"""Places for the pointers of a thread's blocks, each used again once its block is freed. Pure."""

import numpy as np
from numpy.typing import NDArray

_SMALL = 1 << 16


def assign_slots(
    allocates: NDArray[np.bool_], block: NDArray[np.int32]
) -> tuple[NDArray[np.int32], int]:
    """Return the slot of each block, and how many slots there are.

    The arguments are a thread's calls in their order: whether the call allocates, else it frees;
    and its block, numbered from 0 in the order of the allocations. A block gets the slot that was
    given back last, as from a stack, so that few slots are in use and those are in the CPU's cache.

    The stack is not run through: a free and the allocation that takes its slot are like a pair of
    brackets, and brackets of a pair are neighbours in a stable sort by their depth. The blocks of a
    slot are then a chain, whose first one is found by doubling the steps.
    """
    level = np.cumsum(1 - 2 * allocates.view(np.int8), dtype=np.int32)
    # Of a free the depth before it, of an allocation the depth after it: equal in a pair.
    level -= ~allocates
    if len(level):
        level -= level.min()
        if level.max() < _SMALL:
            level = level.astype(np.uint16)  # sorted by radix
    order = np.argsort(level, kind="stable")
    opens, closes = order[:-1], order[1:]
    paired = ~allocates[opens] & allocates[closes] & (level[opens] == level[closes])
    count = int(np.count_nonzero(allocates))
    itself = np.arange(count, dtype=np.int32)
    before = itself.copy()
    before[block[closes[paired]]] = block[opens[paired]]
    slot = np.cumsum(before == itself, dtype=np.int32) - 1
    while True:
        further = before[before]
        if np.array_equal(further, before):
            break
        before = further
    return slot[before], int(slot[-1]) + 1 if count else 0
