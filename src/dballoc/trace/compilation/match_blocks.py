"""Which free belongs to which allocation, by address and time. Pure, in numpy: about 60 bytes of
memory an event while it runs.

At one address allocations and frees take turns. A free is stamped before its call and an allocation
after it, so an address that another thread gets at once was nearly always freed earlier by its
stamps too (docs/trace-format.md says when not). At equal stamps the free comes first, unless its
own thread made it after the allocation.
"""

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from dballoc.trace.model import NONE


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
