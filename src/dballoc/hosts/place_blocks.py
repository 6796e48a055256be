"""Which block is given to which host. Pure.

Blocks go out in the campaign's order, as many at once as there are hosts. None goes out beyond the
next look of its design: a verdict at a look rests on that many blocks, neither fewer nor more.
Hosts that share a kernel share its settings and its CPUs, so one of them runs a block at a time.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Host:
    """A host that may run blocks. ``name`` is unique; ``kernel``: the boot ID of its kernel;
    ``environment``: as the fact of that name, JSON.
    """

    name: str
    kernel: str
    environment: str


@dataclass(frozen=True, kw_only=True)
class BlockKey:
    """An attempt at a block."""

    design: str
    number: int
    attempt: int = 0


@dataclass(kw_only=True)
class HostLoad:
    """What each host has had, by its name. ``blocks``: given to it; ``lost``: blocks, (design,
    number), that were lost on it; ``free_at``: when a kernel, by its ID, may run a block again,
    CLOCK_MONOTONIC; ``refused``: hosts that cannot run this campaign, and why.
    """

    blocks: dict[str, int] = field(default_factory=dict)
    lost: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    free_at: dict[str, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def count_complete_prefix(complete: Collection[int]) -> int:
    """Return how many of the blocks 1, 2, 3, … are complete before the first that is not."""
    number = 0
    while number + 1 in complete:
        number += 1
    return number


def find_limit(complete_prefix: int, looks: Iterable[int], planned: int) -> int:
    """Return the last block that may go out: the next look's, or the last planned."""
    return min((look for look in looks if complete_prefix < look <= planned), default=planned)


def choose_block(
    order: Iterable[tuple[str, int]],
    limits: Mapping[str, int],
    complete: Mapping[str, Collection[int]],
    running: Collection[tuple[str, int]],
) -> tuple[str, int] | None:
    """Return the next block to go out, (design, number); None if all that may are out. ``limits``:
    of the designs that are still open; ``complete``: the blocks that need no further attempt.
    """
    for design, number in order:
        if (
            number <= limits.get(design, 0)
            and number not in complete[design]
            and (design, number) not in running
        ):
            return design, number
    return None


def choose_host(
    hosts: Iterable[Host],
    busy_kernels: Collection[str],
    load: HostLoad,
    block: tuple[str, int],
    now: float,
) -> Host | None:
    """Return the host for a block: one that is free, that did not lose this block before if there
    is such a one, and that has had the fewest blocks. None while none is free.
    """
    free = [
        host
        for host in hosts
        if host.kernel not in busy_kernels
        and load.free_at.get(host.kernel, now) <= now
        and host.name not in load.refused
    ]
    return min(
        free,
        key=lambda host: (
            block in load.lost.get(host.name, ()),
            load.blocks.get(host.name, 0),
            host.name,
        ),
        default=None,
    )
