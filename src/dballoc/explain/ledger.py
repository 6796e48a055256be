"""The ledger: every resident byte on one line, and what no line claims. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from dballoc.explain.glibc import Block, Books, Heap
from dballoc.explain.labels import POOL, SCHEMA, Labels
from dballoc.explain.outside import Outside, Own
from dballoc.explain.pages import Kind

# exact: counted page by page; likely: pages counted, and their owner told by size; labelled: the owner's own word.
Confidence = Literal["exact", "likely", "labelled"]


@dataclass(frozen=True)
class Line:
    """``resident`` bytes of RSS that ``owner`` has; ``size``: of address space, or as asked for, where that is another figure.
    ``source``: who says so; ``note``: what else there is to say.
    """

    group: str
    owner: str
    resident: int
    size: int
    source: str
    confidence: Confidence
    note: str = ""


@dataclass(frozen=True)
class Ledger:
    """Lines that add up to ``rss`` with ``rest``, pages that no class claims. ``unowned``: memory that no owner claims,
    unlabelled live heap included. ``beside``: what RSS does not count. All in bytes.
    """

    pid: int
    executable: str
    malloc: str
    rss: int
    lines: list[Line]
    rest: int
    unowned: int
    beside: dict[str, int]
    tiers: list[str]
    notes: list[str] = field(default_factory=list)


LIVE, MAPPED, UNNAMED = "live heap, small blocks", "live heap, large blocks", "mapped by the server itself"
_GLIBC = "glibc's books"
_UNOWNED = (LIVE, MAPPED, UNNAMED, Kind.MALLOC)

# Of what a cache's variable asks for, the share that it maps in one piece: the rest are its hash and its links.
# The smaller the blocks, the more of these: 1 KiB of the key cache, 8 KiB of Aria's.
_SHARES = {POOL: 1.0, "key cache (MyISAM)": 0.82, "Aria page cache": 0.955}
_NEAR = 0.1

# An array of performance_schema, aligned and with malloc's header, is a block of so many bytes more, at most.
_MORE = 4096 + 64 + 16


def ledger(look: Outside, labels: Labels | None = None) -> Ledger:
    """From a look from outside, and the server's own labels."""
    lines = [
        _of_kind(look, Kind.POOL, "server", "left out of core dumps (VmFlags dd)"),
        *_own(look.own, _caches(look, labels)),
        *(_heap(look.heap) if look.heap else []),
        _of_kind(look, Kind.MALLOC, "heap", f"what no other class claims; malloc is {look.malloc.title}"),
        _of_kind(look, Kind.STACK, "threads", f"stack pointers of {look.threads} threads"),
        _of_kind(look, Kind.OLD_STACK, "threads", "behind a guard, and no thread is in it"),
        _of_kind(look, Kind.CODE, "files", "mapped, executable in part"),
        _of_kind(look, Kind.DATA, "files", "their writable pages, and what follows them"),
        _of_kind(look, Kind.FILE, "files", "mapped"),
        _of_kind(look, Kind.KERNEL, "files", "io_uring, vdso, shared memory"),
    ]
    if labels:
        lines = _named(lines, labels, [b for row in look.heap.mapped.values() for b in row] if look.heap else [])
    lines = [line for line in lines if line.resident]
    rest = look.rss - sum(line.resident for line in lines)
    beside = {"swap": look.swap, "page tables": look.page_tables, "hugetlb": sum(m.hugetlb for m in look.mappings)}
    return Ledger(
        look.pid, look.malloc.executable, f"{look.malloc.title} {look.malloc.version}".strip(), look.rss, lines, rest,
        rest + sum(line.resident for line in lines if line.owner in _UNOWNED), beside,
        ["outside", *(["SQL"] if labels else [])],
        [*(look.heap.trouble if look.heap else []), *(labels.notes if labels else [])],
    )  # fmt: skip


def _of_kind(look: Outside, kind: Kind, group: str, source: str) -> Line:
    mine = [m for m, k in zip(look.mappings, look.kinds, strict=True) if k is kind]
    return Line(group, kind, sum(m.rss for m in mine), sum(m.size for m in mine), source, "exact")


def _heap(heap: Heap) -> list[Line]:
    mapped = [b for row in heap.mapped.values() for b in row]

    def total(what: str) -> int:
        return sum(getattr(b, what) for b in heap.arenas)

    def line(owner: str, resident: str, size: str, note: str = "") -> Line:
        return Line("heap", owner, total(resident), total(size), _GLIBC, "exact", note)

    return [
        line(LIVE, "live_resident", "live", f"{len(heap.arenas)} arenas, {total('chunks')} chunks"),
        Line("heap", MAPPED, *_sum(mapped), _GLIBC, "exact", f"{len(mapped)} blocks"),
        line("threads' caches (tcache)", "tcache", "tcache"),
        line("fast bins", "fast", "fast"),
        line("free but held", "free_resident", "free", _worst(heap.arenas)),
        line("malloc's own", "own_resident", "own"),
        line("in the heap, and not malloc's", "unread", "unread"),
    ]  # fmt: skip


def _sum(pieces: Sequence[Block | Own]) -> tuple[int, int]:
    """Resident and whole."""
    return sum(p.resident for p in pieces), sum(p.size for p in pieces)


def _worst(books: list[Books]) -> str:
    worst = max((b.free_resident for b in books), default=0)
    return f"most of one arena: {worst / 2**20:.1f} MiB"


def _caches(look: Outside, labels: Labels | None) -> dict[str, int]:
    """What the server says that it has mapped itself, but for a pool that was told by its flags."""
    known = labels.own if labels else {}
    pool = any(kind is Kind.POOL for kind in look.kinds)
    return {owner: size for owner, size in known.items() if not (pool and owner == POOL)}


def _own(own: Sequence[Own], caches: Mapping[str, int]) -> list[Line]:
    """What the server has mapped itself, by the cache whose size it has."""
    left, found = sorted(own, key=lambda o: -o.size), []
    for owner, asked in caches.items():
        wanted = asked * _SHARES[owner]
        near = [o for o in left if abs(o.size - wanted) <= _NEAR * asked]
        if near:
            mine = min(near, key=lambda o: abs(o.size - wanted))
            left.remove(mine)
            found.append(Line("server", owner, mine.resident, mine.size, "mapped, and of its size", "likely"))
    if left:
        note = f"{len(left)} of 1 MiB or more"
        found.append(Line("server", UNNAMED, *_sum(left), "no malloc's", "exact", note))
    return found


def _named(lines: list[Line], labels: Labels, blocks: list[Block]) -> list[Line]:
    """Live heap by owner, as far as the server names them; what is left of it stays."""
    pools = {line.owner: line for line in lines if line.owner in (MAPPED, LIVE, Kind.MALLOC)}
    left = sorted(blocks, key=lambda b: b.size)
    # First whole blocks by their sizes, for every owner, and only then what nobody can be told to have.
    found = [_matching(left, labels.tables if label.owner == SCHEMA else [label.bytes]) for label in labels.heap]
    for taken in found:
        if taken:
            pools[MAPPED] = _less(pools[MAPPED], *_sum(taken))
    named: list[Line] = []
    for label, taken in zip(labels.heap, found, strict=True):
        resident, size = _sum(taken)
        more = label.bytes - size
        for owner in (LIVE, MAPPED, Kind.MALLOC):
            if more > 0 and (pool := pools.get(owner)) and pool.size:
                part = min(more, pool.size)
                there = pool.resident * part // pool.size
                pools[owner] = _less(pool, there, part)
                resident, more = resident + there, more - part
        named.append(Line("heap", label.owner, resident, label.bytes, label.source, "labelled", _exactly(taken)))
    order = [line for line in lines if line.owner not in pools]
    heap = next((i for i, line in enumerate(order) if line.group == "heap"), len(order))
    return [*order[:heap], *named, *pools.values(), *order[heap:]]


def _exactly(taken: list[Block]) -> str:
    return f"{len(taken)} blocks found by their sizes" if taken else ""


def _matching(left: list[Block], sizes: Sequence[int]) -> list[Block]:
    """The blocks that are as large as these arrays; they are removed from ``left``, which is sorted by size."""
    found = []
    for size in sizes:
        for i, block in enumerate(left):
            if size < block.size <= size + _MORE:
                found.append(left.pop(i))
                break
    return found


def _less(line: Line, resident: int, size: int) -> Line:
    return replace(line, resident=line.resident - resident, size=line.size - size)
