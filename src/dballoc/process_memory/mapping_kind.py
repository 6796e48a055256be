"""Every mapping of a process by what it is for, from its kind, flags and neighbours alone. Pure."""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum

from dballoc.process_memory.smaps import Mapping

# What the kernel calls mappings that an allocator has named (prctl(2), PR_SET_VMA_ANON_NAME).
_NAMED = "[anon:"

# A stack's guard is a page, or a few where the kernel's pages are large; 8 MiB is the usual limit
# of a stack.
_GUARD, _STACK = 1 << 20, 8 << 20


class Kind(StrEnum):
    """What pages are for."""

    CODE = "binary and libraries"
    DATA = "data of binary and libraries"
    STACK = "thread stacks"
    OLD_STACK = "stacks kept for new threads"
    POOL = "buffer pool and log buffers"
    HEAP = "heap"
    MALLOC = "allocator, and unnamed mappings"
    FILE = "mapped files"
    KERNEL = "shared with the kernel"
    REST = "rest"


def classify(
    mappings: Sequence[Mapping], pointers: Sequence[int], heaps: Collection[int], own_malloc: bool
) -> list[Kind]:
    """The kind of each mapping. ``pointers``: stack pointers; ``heaps``: starts of the mappings
    that a walk of glibc's heap has claimed; ``own_malloc``: the malloc is another one than glibc's,
    so that what nobody else claims is its.
    """
    code = {m.path for m in mappings if m.file and "x" in m.permissions}
    in_use = {m.start for m in _around(mappings, pointers)}
    stacks = {_STACK, *(m.size for m in mappings if m.private and m.start in in_use)}
    kinds: list[Kind] = []
    before: Mapping | None = None
    its: Kind | None = None
    for mapping in mappings:
        joined = before if before and before.end == mapping.start else None
        its = _by_itself(mapping, in_use, heaps, code) or _by_neighbour(
            mapping, joined, its, own_malloc, stacks
        )
        kinds.append(its)
        before = mapping
    return kinds


def _around(mappings: Sequence[Mapping], addresses: Sequence[int]) -> Iterator[Mapping]:
    """The mapping in which each of these addresses is. ``mappings``: by address."""
    starts = [m.start for m in mappings]
    for address in addresses:
        at = bisect_right(starts, address) - 1
        if at >= 0 and address < mappings[at].end:
            yield mappings[at]


def _by_itself(
    mapping: Mapping, in_use: Collection[int], heaps: Collection[int], code: Collection[str]
) -> Kind | None:
    """``in_use``: starts of the mappings in which a stack pointer is."""
    if mapping.start in heaps:
        return Kind.HEAP
    if mapping.file and mapping.path in code:
        return Kind.DATA if "w" in mapping.permissions else Kind.CODE
    if mapping.file:
        return Kind.FILE
    if mapping.path.startswith("[stack") or mapping.start in in_use:
        return Kind.STACK
    if mapping.path.startswith(_NAMED):
        return Kind.STACK if "stack" in mapping.path else Kind.MALLOC
    if mapping.special or mapping.inode or mapping.permissions.endswith("s"):
        return Kind.KERNEL
    return Kind.POOL if mapping.innodb or "dd" in (mapping.flags or ()) else None


def _by_neighbour(
    mapping: Mapping,
    before: Mapping | None,
    its: Kind | None,
    own_malloc: bool,
    stacks: Collection[int],
) -> Kind:
    """``before``: the mapping that ends where this one begins; ``its`` kind; ``stacks``: the sizes
    that stacks have here.
    """
    if (
        before
        and before.guard
        and before.size <= _GUARD
        and ("nh" in (mapping.flags or ()) or mapping.size in stacks)
    ):
        return Kind.OLD_STACK
    if before and before.file and its in (Kind.CODE, Kind.DATA) and not mapping.behind:
        return Kind.DATA  # .bss, and what the loader has protected again
    if own_malloc and mapping.private:
        return Kind.MALLOC
    return Kind.REST
