"""What each mapping of a process is for, by its path, permissions, flags and neighbours. Pure."""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum

from dballoc.process.smaps import MemoryMapping

# How the path of a mapping begins that an allocator has named (prctl(2), PR_SET_VMA_ANON_NAME).
_NAMED = "[anon:"

# A stack's guard is one page or a few, and pages may be large; 8 MiB is the usual limit of a stack.
_GUARD, _STACK = 1 << 20, 8 << 20
# Flags of stacks: no huge pages (MAP_STACK, Linux 6.7), guard pages inside (glibc 2.42).
_NO_HUGE, _GUARD_INSIDE = "nh", "gu"
# Stacks with guards inside merge with each other; where no flags tell them, no more than so much.
_MOST_STACKS = 1 << 30
# No program has more data that begin as zeros.
_MOST_BSS = 256 << 20

# Left out of core dumps, as InnoDB does with its pool and its log buffers. Libraries do so with
# secrets: those are small, or wiped or dropped by the kernel (getrandom's state in the vDSO).
_UNDUMPED, _SECRET = "dd", frozenset(("wf", "dp"))
# The least innodb_log_buffer_size.
_LEAST_BUFFER = 256 << 10


class MappingKind(StrEnum):
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


def classify_mappings(
    mappings: Sequence[MemoryMapping],
    pointers: Sequence[int],
    heaps: Collection[int],
    own_malloc: bool,
) -> list[MappingKind]:
    """Return the kind of each mapping, in the same order.

    ``pointers``: stack pointers; ``heaps``: starts of the mappings that the walk of glibc's heap
    has claimed; ``own_malloc``: the malloc is not glibc's, so that what nothing else claims is the
    allocator's.
    """
    code = {m.path for m in mappings if m.file and "x" in m.permissions}
    stacks = _find_stacks(mappings, pointers)
    in_use = {m.start for m in stacks}
    # Where this kernel marks stacks, a size alone makes none.
    stack_sizes = (
        set()
        if any(_NO_HUGE in (m.flags or ()) for m in stacks)
        else {_STACK, *(m.size for m in stacks)}
    )
    kinds: list[MappingKind] = []
    before: MemoryMapping | None = None
    kind: MappingKind | None = None
    for mapping in mappings:
        adjacent = before if before and before.end == mapping.start else None
        kind = _classify_alone(mapping, in_use, heaps, code) or _classify_by_neighbour(
            mapping, adjacent, kind, own_malloc, stack_sizes
        )
        kinds.append(kind)
        before = mapping
    return kinds


def pair_with_kinds(
    mappings: Sequence[MemoryMapping], kinds: Sequence[MappingKind]
) -> Iterator[tuple[MemoryMapping, MappingKind]]:
    """Yield each mapping with its kind, as :func:`classify_mappings` returns them."""
    return zip(mappings, kinds, strict=True)


def _find_containing(
    mappings: Sequence[MemoryMapping], addresses: Sequence[int]
) -> Iterator[MemoryMapping]:
    """Yield the mapping that contains each of these addresses, where there is one. ``mappings``: by
    address.
    """
    starts = [m.start for m in mappings]
    for address in addresses:
        at = bisect_right(starts, address) - 1
        if at >= 0 and address < mappings[at].end:
            yield mappings[at]


def _find_stacks(mappings: Sequence[MemoryMapping], pointers: Sequence[int]) -> list[MemoryMapping]:
    """Return the mappings that contain a stack pointer and look like a stack: a handler of signals
    or a coroutine may run on a stack in the heap.
    """
    ends = {m.end for m in mappings if m.guard and m.size <= _GUARD}
    return [m for m in _find_containing(mappings, pointers) if m.private and _is_stack(m, ends)]


def _is_stack(mapping: MemoryMapping, guard_ends: Collection[int]) -> bool:
    if mapping.start in guard_ends:
        return True
    if mapping.flags is None:
        return mapping.size <= _MOST_STACKS
    return bool(mapping.flags & {_NO_HUGE, _GUARD_INSIDE})


def _classify_alone(
    mapping: MemoryMapping, in_use: Collection[int], heaps: Collection[int], code: Collection[str]
) -> MappingKind | None:
    """Return the kind of a mapping if it alone shows it. ``in_use``: starts of the mappings that
    contain a stack pointer; ``heaps``: those of the malloc's; ``code``: paths of executable files.
    """
    if mapping.start in heaps:
        return MappingKind.HEAP
    if mapping.file and mapping.path in code:
        return MappingKind.DATA if "w" in mapping.permissions else MappingKind.CODE
    if mapping.file:
        return MappingKind.FILE
    if mapping.path.startswith("[stack") or mapping.start in in_use:
        return MappingKind.STACK
    if mapping.path.startswith(_NAMED):
        return MappingKind.STACK if "stack" in mapping.path else MappingKind.MALLOC
    if mapping.special or mapping.inode or mapping.permissions.endswith("s"):
        return MappingKind.KERNEL
    return MappingKind.POOL if mapping.innodb or _is_left_out_of_dumps(mapping) else None


def _is_left_out_of_dumps(mapping: MemoryMapping) -> bool:
    """Whether the server has kept it from core dumps, and it is no library's secret."""
    flags = mapping.flags or frozenset()
    return _UNDUMPED in flags and not flags & _SECRET and mapping.size >= _LEAST_BUFFER


def _classify_by_neighbour(
    mapping: MemoryMapping,
    before: MemoryMapping | None,
    kind_before: MappingKind | None,
    own_malloc: bool,
    stack_sizes: Collection[int],
) -> MappingKind:
    """Return the kind of a mapping by the one ``before``, which ends where this one begins.
    ``stack_sizes``: those that this process's stacks have.
    """
    flags = mapping.flags or frozenset()
    guarded = before is not None and before.guard and before.size <= _GUARD
    if (guarded and (_NO_HUGE in flags or mapping.size in stack_sizes)) or flags >= {
        _NO_HUGE,
        _GUARD_INSIDE,
    }:
        return MappingKind.OLD_STACK
    if (
        before
        and before.file
        and kind_before in (MappingKind.CODE, MappingKind.DATA)
        and not mapping.behind
        and mapping.size <= _MOST_BSS
    ):
        return MappingKind.DATA  # .bss, and what the loader has made read-only after relocation
    if own_malloc and mapping.private:
        return MappingKind.MALLOC
    return MappingKind.REST
