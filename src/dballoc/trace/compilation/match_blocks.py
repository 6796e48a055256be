"""Which free belongs to which allocation, by address and time. Pure, in numpy: about 60 bytes of
memory an event while it runs.

At one address allocations and frees take turns. A free is stamped before its call and an allocation
after it, so an address that another thread gets at once was nearly always freed earlier by its
stamps too. Where not, because the allocation's stamp is a little early (docs/trace-format.md), the
free still comes first. At equal stamps it does, unless its own thread made it after the allocation.
"""

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from dballoc.trace.model import NONE

# ns. A processor may read its counter before it has done what comes before, as early as it can look
# ahead: some hundred instructions, of which one waits for a cache line that others want.
_EARLIEST = 1000
# By how many places in the order of its address's uses one may move: a file may claim anything.
_MOST_MOVES = 100


@dataclass(frozen=True, kw_only=True)
class AddressUses:
    """Blocks that calls returned, or that they released: ``address``, ``time`` in ns, and ``call``,
    the number of the call: ascending, thread by thread in the thread's own order. ``thread`` is the
    index of its thread.
    """

    address: NDArray[np.uint64]
    time: NDArray[np.int64]
    call: NDArray[np.int64]
    thread: NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class Matches:
    """What belongs together, by indices into the uses that were matched.

    ``allocation_of`` has for each release the allocation that it frees, or NONE: ``unknown``
    releases had no allocation before them at their address, ``double`` ones another release.
    ``missed`` are pairs: an allocation that no release belongs to, and the one that followed it at
    its address.
    """

    allocation_of: NDArray[np.int64]
    unknown: int
    double: int
    missed: NDArray[np.int64]


def match_blocks(allocations: AddressUses, releases: AddressUses) -> Matches:
    """Find the allocation that each release frees."""
    order = _order_uses(allocations, releases)
    count = len(releases.address)
    addresses = np.concatenate([releases.address, allocations.address])[order]
    _put_early_allocations_right(order, addresses, allocations, releases)
    is_release = order < count
    after_same = np.zeros(len(order), bool)
    after_same[1:] = addresses[1:] == addresses[:-1]
    del addresses
    after_release = np.zeros(len(order), bool)
    after_release[1:] = is_release[:-1]
    frees = np.flatnonzero(is_release & after_same & ~after_release)
    allocation_of = np.full(count, NONE, np.int64)
    allocation_of[order[frees]] = order[frees - 1] - count
    repeated = np.flatnonzero(~is_release & after_same & ~after_release)
    return Matches(
        allocation_of=allocation_of,
        unknown=int(np.count_nonzero(is_release & ~after_same)),
        double=int(np.count_nonzero(is_release & after_same & after_release)),
        missed=np.stack([order[repeated - 1], order[repeated]], axis=1) - count,
    )


def _put_early_allocations_right(
    order: NDArray[np.int64],
    addresses: NDArray[np.uint64],
    allocations: AddressUses,
    releases: AddressUses,
) -> None:
    """Exchange in ``order``, which has uses of these ``addresses``, each allocation of a block that
    is in use and the release by another thread that follows at once: that was before it.
    """
    is_release = order < len(releases.address)
    is_same = addresses[1:] == addresses[:-1]
    places = 1 + np.flatnonzero(
        is_same[:-1] & is_same[1:] & ~is_release[:-2] & ~is_release[1:-1] & is_release[2:]
    )
    del is_release, is_same
    for _ in range(_MOST_MOVES):
        places = places[_are_early(order, places, allocations, releases)]
        if not len(places):
            return
        order[places], order[places + 1] = order[places + 1], order[places]
        # What is beside them now may be early, too.
        places = np.unique(np.concatenate([places - 1, places + 2]))
        places = places[(places > 0) & (places < len(order) - 1)]
        same = (addresses[places - 1] == addresses[places]) & (
            addresses[places] == addresses[places + 1]
        )
        places = places[same]


def _are_early(
    order: NDArray[np.int64],
    places: NDArray[np.int64],
    allocations: AddressUses,
    releases: AddressUses,
) -> NDArray[np.bool_]:
    """Tell for places, of which each has the same address as those beside it, whether there is an
    allocation that is earlier by its stamp than the release of the block behind it.
    """
    count = len(releases.address)
    before, allocation, release = order[places - 1], order[places], order[places + 1]
    early = (before >= count) & (allocation >= count) & (release < count)
    allocation, release = allocation[early] - count, release[early]
    early[early] = (releases.time[release] - allocations.time[allocation] < _EARLIEST) & (
        releases.thread[release] != allocations.thread[allocation]
    )
    return early


def _order_uses(allocations: AddressUses, releases: AddressUses) -> NDArray[np.int64]:
    """Return all uses by address, then time; a release's index is its own, an allocation's comes
    after all of them.
    """
    times = np.concatenate([releases.time, allocations.time])
    order = np.argsort(times, kind="stable")
    addresses = np.concatenate([releases.address, allocations.address])
    order = order[np.argsort(addresses[order], kind="stable")]
    count = len(releases.address)
    addresses, times, is_release = addresses[order], times[order], order < count
    tied = (addresses[1:] == addresses[:-1]) & (times[1:] == times[:-1])
    if not tied.any():
        return order
    # Of those at one address and time only those of both kinds can be in the wrong order.
    edges = np.flatnonzero(np.diff(np.concatenate([[False], tied, [False]]).astype(np.int8)))
    for first, last in edges.reshape(-1, 2).tolist():
        if is_release[first : last + 1].any() and not is_release[first : last + 1].all():
            alive = bool(first and addresses[first - 1] == addresses[first]) and bool(
                order[first - 1] >= count
            )
            order[first : last + 1] = _take_turns(
                order[first : last + 1], allocations, releases, alive
            )
    return order


def _take_turns(
    tied: NDArray[np.int64], allocations: AddressUses, releases: AddressUses, alive: bool
) -> list[int]:
    """Return uses of one address at one time so that releases and allocations take turns as far as
    the order within threads lets them; ``alive``: whether the block is in use before.
    """
    count = len(releases.address)
    queues: dict[int, list[tuple[int, bool, int]]] = {}
    for index in tied.tolist():
        releasing = index < count
        uses, place = (releases, index) if releasing else (allocations, index - count)
        queue = queues.setdefault(int(uses.thread[place]), [])
        queue.append((int(uses.call[place]), not releasing, index))
    # The threads whose next use is a release, and those whose next is an allocation. The one with
    # the most uses before it goes first: they, too, have to find their turns.
    heads: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
    for thread, queue in queues.items():
        queue.sort(reverse=True)
        heappush(heads[queue[-1][1]], (-len(queue), thread))
    ordered: list[int] = []
    while len(ordered) < len(tied):
        allocating = not alive if heads[not alive] else alive
        _, thread = heappop(heads[allocating])
        queue = queues[thread]
        ordered.append(queue.pop()[2])
        if queue:
            heappush(heads[queue[-1][1]], (-len(queue), thread))
        alive = allocating
    return ordered
