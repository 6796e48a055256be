"""Blocks that one thread allocates and another frees. Pure."""

from dataclasses import dataclass

import numpy as np

from dballoc.trace.model import NONE, Trace


@dataclass(frozen=True, kw_only=True)
class Handover:
    """Blocks that went from one thread to another, by the threads' indices."""

    allocated_by: int
    freed_by: int
    blocks: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Handovers:
    """``foreign`` of ``frees`` free another thread's block; ``bytes`` of those; the pairs of
    threads, most blocks first.
    """

    frees: int
    foreign: int
    bytes: int
    pairs: tuple[Handover, ...]


def compute_handovers(trace: Trace) -> Handovers:
    """Return who frees whose blocks."""
    objects, threads = trace.objects, len(trace.threads)
    freed = objects.freed_by != NONE
    foreign = np.flatnonzero(freed & (objects.freed_by != objects.allocated_by))
    keys = objects.allocated_by[foreign].astype(np.int64) * threads + objects.freed_by[foreign]
    pairs, inverse, blocks = np.unique(keys, return_inverse=True, return_counts=True)
    amounts = np.zeros(len(pairs), np.int64)
    np.add.at(amounts, inverse, objects.size[foreign].astype(np.int64))
    order = np.argsort(-blocks, kind="stable")
    return Handovers(
        frees=int(np.count_nonzero(freed)),
        foreign=len(foreign),
        bytes=int(amounts.sum()),
        pairs=tuple(
            Handover(
                allocated_by=int(pairs[i]) // threads,
                freed_by=int(pairs[i]) % threads,
                blocks=int(blocks[i]),
                bytes=int(amounts[i]),
            )
            for i in order
        ),
    )
