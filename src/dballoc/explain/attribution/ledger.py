"""The ledger: every resident byte on one line, and what no line claims. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping as Map
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from dballoc.explain.sources.server_memory import (
    ARIA,
    KEYS,
    LOGS,
    POOL,
    SCHEMA,
    Label,
    Labels,
    number,
)
from dballoc.process_memory.heaps import allocator_account as accounts
from dballoc.process_memory.heaps.allocator_account import LIVE_ALL, Account
from dballoc.process_memory.heaps.glibc_heap import Block, Books, Heap
from dballoc.process_memory.heaps.heap_probe_estimate import Sampled
from dballoc.process_memory.mapping_kind import Kind
from dballoc.process_memory.process_snapshot import Outside, Own
from dballoc.process_memory.smaps import Mapping

# exact: counted page by page; likely: pages counted, and their owner told by size; labelled: the
# owner's own word; sampled: an estimate.
Confidence = Literal["exact", "likely", "labelled", "sampled"]


@dataclass(frozen=True, kw_only=True)
class Line:
    """``resident`` bytes of RSS that ``owner`` has; ``size``: of address space, or as asked for,
    where that is another figure. ``source``: who says so; ``note``: what else there is to say;
    ``parts``: who has most of ``size``, in bytes each.
    """

    group: str
    owner: str
    resident: int
    size: int
    source: str
    confidence: Confidence
    note: str = ""
    parts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Lines that add up to ``rss`` with ``rest``, pages that no class claims. ``unowned``: memory
    that no owner claims, unlabelled live heap included. ``beside``: what RSS does not count;
    ``within``: what it does, on any line. All in bytes.
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
    within: dict[str, int] = field(default_factory=dict)


LIVE, MAPPED, UNNAMED = accounts.LIVE_SMALL, accounts.LIVE_LARGE, "mapped by the server itself"
UNACCOUNTED = "what the allocator does not account for"
HEADERS, LAZY = "malloc's headers of live blocks", "lazily freed"
_GLIBC = "glibc's books"
_UNOWNED = (LIVE, MAPPED, LIVE_ALL, UNNAMED, Kind.MALLOC, UNACCOUNTED)
# Whose memory the server's labels name, in this order.
_POOLS = (LIVE, LIVE_ALL, MAPPED, Kind.MALLOC, UNACCOUNTED)
# Whose memory has what is zeroed, where no block is known: those are a few large ones.
_LARGE_FIRST = (MAPPED, LIVE_ALL, LIVE, Kind.MALLOC, UNACCOUNTED)
# By how much an allocator may contradict the walk of its heap before it is said.
_AGREED = 0.01

# Kinds whose pages may be lazily freed; of a heap that was walked it is not known which chunks
# those are.
_SWEPT = (Kind.POOL, Kind.MALLOC, Kind.STACK, Kind.OLD_STACK, Kind.DATA)
_MOST_LOGS = 2
_CHUNK = "innodb_buffer_pool_chunk_size"

# Of what a cache's variable asks for, the share that it maps in one piece: the rest are its hash
# and its links. The smaller the blocks, the more of these: 1 KiB of the key cache, 8 KiB of Aria's.
_SHARES = {POOL: 1.0, KEYS: 0.82, ARIA: 0.955}
_NEAR = 0.1

# An array of performance_schema, aligned and with malloc's header, is a block of so many bytes
# more, at most.
_MORE = 4096 + 64 + 16

# Of one owner's arrays; the largest come first.
_MOST_SIZES = 1 << 12

# glibc's header of a small block that malloc has given out: the word with its size (malloc.c,
# "chunk").
_HEADER = 8

# A mapping of a log buffer may be rounded up to so much more.
_ROUNDED = 64 << 10


def ledger(
    look: Outside,
    labels: Labels | None = None,
    account: Account | None = None,
    sampled: Sampled | None = None,
) -> Ledger:
    """From a look from outside, the server's own labels, what its malloc says of itself, and what a
    heap probe in it knows.
    """
    look = _logs_by_size(look, labels)
    told = account
    if look.books and not (account and account.holdings):
        told = replace(look.books.account, notes=account.notes if account else [])
    lazy = sum(
        _lazy(m) for m, k in zip(look.mappings, look.kinds, strict=True) if k in _SWEPT
    ) + sum(o.lazy for o in look.own)
    whole = _of_kind(
        look, Kind.MALLOC, "heap", f"what no other class claims; malloc is {look.malloc.title}"
    )
    server = [
        *_pool(look, labels),
        *_own(look.own, _caches(look, labels), _variable(labels, _CHUNK)),
        whole,
    ]
    if labels:
        # Before malloc's own books divide its pages: a cache among them is none of its blocks.
        server = _unfound(server, labels, sum(m.rss for m in look.mappings if m.innodb))
    whole = server.pop()
    lines = [
        *server,
        *(_heap(look.heap) if look.heap else []),
        *_malloc(whole, look, told, sampled),
        _of_kind(look, Kind.STACK, "threads", f"stack pointers of {look.threads} threads"),
        _of_kind(look, Kind.OLD_STACK, "threads", "behind a guard, and no thread is in it"),
        _of_kind(look, Kind.CODE, "files", "mapped, executable in part"),
        _of_kind(look, Kind.DATA, "files", "their writable pages, and what follows them"),
        _of_kind(look, Kind.FILE, "files", "mapped"),
        _of_kind(look, Kind.KERNEL, "files", "io_uring, vdso, shared memory"),
        Line(
            group="heap",
            owner=LAZY,
            resident=lazy,
            size=lazy,
            source="smaps: LazyFree",
            confidence="exact",
            note="given back with MADV_FREE, and the kernel's to take",
        ),
    ]
    if labels:
        walked = look.books is not None or (look.heap is not None and bool(look.heap.arenas))
        lines = _named(lines, _links(labels, walked), labels.tables, _blocks(look))
    if sampled:
        lines = _by_function(lines, sampled)
    lines = [line for line in lines if line.resident]
    rest = look.rss - sum(line.resident for line in lines)
    beside = {
        "swap": look.swap,
        "page tables": look.page_tables,
        "hugetlb": sum(m.hugetlb for m in look.mappings),
        "charged to its cgroup, page cache included": look.charged or 0,
    }
    return Ledger(
        pid=look.pid,
        executable=look.malloc.executable,
        malloc=f"{look.malloc.title} {look.malloc.version}".strip(),
        rss=look.rss,
        lines=lines,
        rest=rest,
        unowned=rest + sum(line.resident for line in lines if line.owner in _UNOWNED),
        beside=beside,
        tiers=[
            "outside",
            *(["SQL"] if labels else []),
            *(["function"] if account else []),
            *(["probe"] if sampled else []),
        ],
        notes=[
            *look.effort.notes,
            *(look.heap.trouble if look.heap else []),
            *_unseen(look),
            *(labels.notes if labels else []),
            *_said(whole.resident, look, told),
        ],
        within={"huge pages (THP)": sum(m.huge for m in look.mappings)},
    )


def _lazy(mapping: Mapping) -> int:
    return min(mapping.lazy, mapping.rss)


def _of_kind(look: Outside, kind: Kind, group: str, source: str) -> Line:
    return _line(
        [m for m, k in zip(look.mappings, look.kinds, strict=True) if k is kind],
        kind,
        group,
        source,
    )


def _line(mine: Sequence[Mapping], kind: Kind, group: str, source: str) -> Line:
    lazy = sum(_lazy(m) for m in mine) if kind in _SWEPT else 0
    return Line(
        group=group,
        owner=kind,
        resident=sum(m.rss for m in mine) - lazy,
        size=sum(m.size for m in mine),
        source=source,
        confidence="exact",
    )


def _pool(look: Outside, labels: Labels | None) -> list[Line]:
    """What the server leaves out of core dumps, its log buffers apart where their size
    tells them.
    """
    mine = [m for m, k in zip(look.mappings, look.kinds, strict=True) if k is Kind.POOL]
    source = (
        "InnoDB's pages lie in it"
        if any(m.innodb for m in mine)
        else "left out of core dumps (VmFlags dd)"
    )
    logs = [m for m in mine if _is_log(m, labels)]
    others = [m for m in mine if not _is_log(m, labels)]
    if not 0 < len(logs) <= _MOST_LOGS or not any(
        m.size >= _variable(labels, "innodb_buffer_pool_size") for m in others
    ):
        return [_line(mine, Kind.POOL, "server", source)]
    pool = replace(_line(others, Kind.POOL, "server", source), owner=POOL)
    found = _line(
        logs, Kind.POOL, "server", source if all(m.flags for m in logs) else "by its size"
    )
    return [
        pool,
        replace(
            found, owner=LOGS, note="of the size of innodb_log_buffer_size", confidence="likely"
        ),
    ]


def _is_log(mapping: Mapping, labels: Labels | None) -> bool:
    """By its size. MariaDB has two of them up to 10.7, which may lie side by side."""
    asked = _variable(labels, "innodb_log_buffer_size")
    return bool(asked) and any(0 <= mapping.size - n * asked <= _ROUNDED for n in (1, 2))


def _logs_by_size(look: Outside, labels: Labels | None) -> Outside:
    """MariaDB's log buffers that no flags have told from others' mappings, beside a pool that its
    pages have told.
    """
    if not labels or not labels.mariadb or look.books:  # as large as mimalloc's segments
        return look
    whole = {(own.start, own.size) for own in look.own}
    mine = {
        m.start
        for m, kind in zip(look.mappings, look.kinds, strict=True)
        if m.flags is None and not m.innodb and m.private and _is_log(m, labels)
        and (kind is Kind.MALLOC or (m.start, m.size) in whole)
    }  # fmt: skip
    if not 0 < len(mine) <= _MOST_LOGS or Kind.POOL not in look.kinds:
        return look
    kinds = [
        Kind.POOL if m.start in mine else kind
        for m, kind in zip(look.mappings, look.kinds, strict=True)
    ]
    return replace(look, kinds=kinds, own=[own for own in look.own if own.start not in mine])


def _variable(labels: Labels | None, name: str) -> int:
    return number(labels.variables, name) if labels else 0


def _heap(heap: Heap) -> list[Line]:
    mapped = [b for row in heap.mapped.values() for b in row]

    def total(what: str) -> int:
        return sum(getattr(b, what) for b in heap.arenas)

    def line(owner: str, resident: str, size: str, note: str = "") -> Line:
        return Line(
            group="heap",
            owner=owner,
            resident=total(resident),
            size=total(size),
            source=_GLIBC,
            confidence="exact",
            note=note,
        )

    headers = min(_HEADER * total("live_chunks"), total("live_resident"))
    live = line(
        LIVE, "live_resident", "live", f"{len(heap.arenas)} arenas, {total('live_chunks')} chunks"
    )
    return [
        _less(live, headers, headers),
        Line(
            group="heap",
            owner=HEADERS,
            resident=headers,
            size=headers,
            source=_GLIBC,
            confidence="exact",
            note=f"{_HEADER} bytes of each chunk",
        ),
        Line(
            group="heap",
            owner=MAPPED,
            resident=sum(block.resident for block in mapped),
            size=sum(block.size for block in mapped),
            source=_GLIBC,
            confidence="exact",
            note=f"{len(mapped)} blocks",
        ),
        line("threads' caches (tcache)", "tcache", "tcache"),
        line("fast bins", "fast", "fast"),
        line("free but held", "free_resident", "free", _worst(heap.arenas)),
        line("malloc's own", "own_resident", "own"),
        line("in the heap, and not malloc's", "unread", "unread"),
    ]


def _malloc(
    whole: Line, look: Outside, account: Account | None, sampled: Sampled | None
) -> list[Line]:
    """The memory of another malloc than glibc's: by its own books, where it has shown them, and
    what they leave out; or what is alive in it as a probe has sampled it, and what is not.
    """
    if look.heap:
        return [whole]
    if account is None or not account.holdings:
        return _alive(whole, sampled) if sampled else [whole]
    lines = [
        Line(
            group="heap",
            owner=holding.owner,
            resident=there,
            size=holding.bytes,
            source=account.source,
            confidence="labelled",
            note=holding.note,
        )
        for holding, there in accounts.resident(account, whole.resident)
    ]
    rest = whole.resident - sum(line.resident for line in lines)
    size = whole.size - sum(line.size for line in lines) - account.returned
    return [*lines, replace(whole, owner=UNACCOUNTED, resident=rest, size=max(rest, size))]


def _alive(whole: Line, sampled: Sampled) -> list[Line]:
    """A malloc's memory in what is alive, and the rest."""
    live = min(sampled.live, whole.resident)
    note = "what malloc has beyond what is alive: caches, fragments, free pages"
    held = replace(
        _less(whole, live, min(live, whole.size)),
        owner=accounts.HELD,
        confidence="sampled",
        note=note,
    )
    return [
        Line(
            group="heap",
            owner=LIVE_ALL,
            resident=live,
            size=live,
            source=sampled.source,
            confidence="sampled",
        ),
        held,
    ]


def _by_function(lines: list[Line], sampled: Sampled) -> list[Line]:
    """The largest line of live heap without an owner has the functions that allocated past all
    instruments.
    """
    mine = [line for line in lines if line.owner in (LIVE, LIVE_ALL)]
    if not mine:
        return lines
    largest = max(mine, key=lambda line: line.resident)
    said = "" if sampled.source in largest.source else f"functions by {sampled.source}"
    named = replace(
        largest, parts=sampled.parts, note="; ".join(filter(None, [largest.note, said]))
    )
    return [named if line is largest else line for line in lines]


def _unseen(look: Outside) -> list[str]:
    """What a look without smaps leaves open."""
    if not look.given_back:
        return []
    return [
        f"{look.given_back / 2**20:,.1f} MiB were lazily freed in its cgroup so far (MADV_FREE): "
        "how much of that still lies "
        "in memory, on its owners' lines, only smaps tells, and that would hold a server of this "
        "size for too long"
    ]


def _said(pages: int, look: Outside, account: Account | None) -> list[str]:
    """What there is to say of the malloc's own account beside its lines. ``pages``: resident bytes
    that are malloc's.
    """
    if account is None:
        return []
    notes = list(account.notes)
    if account.returned:
        notes.append(
            f"{account.allocator} keeps {account.returned / 2**20:,.1f} MiB of address space "
            "without memory behind it"
        )
    told = sum(h.bytes for h in account.holdings)
    if look.heap and account.live is not None:
        walked = sum(b.live + b.tcache for b in look.heap.arenas) + sum(
            _sum(row)[1] for row in look.heap.mapped.values()
        )
        if abs(account.live - walked) > _AGREED * walked:
            notes.append(
                f"{account.allocator} itself says that {account.live / 2**20:,.1f} MiB are in use, "
                "threads' caches included;"
                f" the walk of its heap found {walked / 2**20:,.1f} MiB"
            )
    elif told > pages:
        notes.append(
            f"{(told - pages) / 2**20:,.1f} MiB of what {account.allocator} accounts for are not "
            "in memory: never touched"
        )
    return notes


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


def _own(own: Sequence[Own], caches: Map[str, int], chunk: int) -> list[Line]:
    """What the server has mapped itself, by the cache whose size it has; a pool may lie in pieces
    of one or more chunks.
    """
    left, found = sorted(own, key=lambda o: -o.size), []
    for owner, asked in caches.items():
        wanted = asked * _SHARES[owner]
        near = [o for o in left if abs(o.size - wanted) <= _NEAR * asked]
        mine = [min(near, key=lambda o: abs(o.size - wanted))] if near else []
        if not mine and owner == POOL and chunk:
            mine = [o for o in left if o.size >= chunk and o.size % chunk <= _NEAR * o.size]
        if mine and abs(sum(o.size for o in mine) - wanted) <= _NEAR * asked:
            taken = {o.start for o in mine}
            left = [o for o in left if o.start not in taken]
            resident, size = sum(o.resident - o.lazy for o in mine), sum(o.size for o in mine)
            found.append(
                Line(
                    group="server",
                    owner=owner,
                    resident=resident,
                    size=size,
                    source="mapped, and of its size",
                    confidence="likely",
                )
            )
    if left:
        note = f"{len(left)} of 1 MiB or more"
        resident, size = _sum(left)
        found.append(
            Line(
                group="server",
                owner=UNNAMED,
                resident=resident - sum(o.lazy for o in left),
                size=size,
                source="no malloc's",
                confidence="exact",
                note=note,
            )
        )
    return found


def _blocks(look: Outside) -> list[Block]:
    if look.books:
        return look.books.blocks
    return [b for row in look.heap.mapped.values() for b in row] if look.heap else []


def _links(labels: Labels, walked: bool) -> list[Label]:
    """The labels of the heap, with what MariaDB's caches have beside the pages that they map: links
    and hash, of which all is resident from the start, whatever the cache holds. ``walked``: the
    blocks are known, and there is one of that size.
    """
    more = [
        Label(
            owner=f"{owner}, links and hash",
            bytes=int(asked * (1 - _SHARES[owner])),
            source="by its size",
            whole=walked,
            near=_NEAR,
            zeroed=True,
        )
        for owner, asked in labels.own.items()
        if owner in (KEYS, ARIA) and labels.mariadb
    ]
    return [*labels.heap, *more]


def _unfound(lines: list[Line], labels: Labels, part: int) -> list[Line]:
    """Caches that the server maps itself and that no size has told: what they have filled, of what
    nobody else claims. ``part``: bytes of the pool that are known by the pages in them, its
    descriptors are not.
    """
    there = {line.owner for line in lines if line.resident} | {label.owner for label in labels.heap}
    if Kind.POOL in there and not part:
        there.add(POOL)
    pools = {line.owner: line for line in lines if line.owner in (UNNAMED, Kind.MALLOC)}
    found = []
    for owner, size in labels.filled.items():
        known = part if owner == POOL else 0
        for place, pool in pools.items():
            # Of one that is known in part the rest as far as it is there: it changes while it is
            # looked at.
            missing = min(size - known, pool.resident) if known else size
            if owner not in there and 0 < missing <= pool.resident:
                pools[place] = _less(pool, missing, min(missing, pool.size))
                whole = missing if known else labels.own.get(owner, size)
                found.append(
                    Line(
                        group="server",
                        owner=owner,
                        resident=missing,
                        size=whole,
                        source="status: what it has filled",
                        confidence="labelled",
                    )
                )
                there.add(owner)
    return [*found, *(pools.get(line.owner, line) for line in lines)]


def _named(
    lines: list[Line], labels: list[Label], tables: Sequence[int], blocks: list[Block]
) -> list[Line]:
    """Live heap by owner, as far as the server names them; what is left of it stays."""
    pools = {line.owner: line for line in lines if line.owner in _POOLS}
    left = sorted(blocks, key=lambda b: b.size)
    # First whole blocks by their sizes, for every owner, and only then what nobody can be told to
    # have.
    found = [
        _matching(
            left, tables if label.owner == SCHEMA else label.sizes or [label.bytes], label.near
        )
        for label in labels
    ]
    # A block that is known by its size alone is nothing where there is none of that size.
    known = [
        (label, taken)
        for label, taken in zip(labels, found, strict=True)
        if taken or not label.whole
    ]
    for taken in found:
        if taken:
            pools[MAPPED] = _less(
                pools[MAPPED], sum(b.resident for b, _ in taken), sum(b.asked for b, _ in taken)
            )
    named: dict[int, Line] = {}
    # Of what is not in memory nobody knows whose it is, but that it is none of what was zeroed. All
    # others have their share.
    before = dict(pools)
    for label, taken in sorted(known, key=lambda k: not k[0].zeroed):
        resident, size = sum(block.resident for block, _ in taken), sum(asked for _, asked in taken)
        more = 0 if taken and label.near else label.bytes - size
        for owner in _LARGE_FIRST if label.zeroed and not blocks else _POOLS:
            if more > 0 and (pool := pools.get(owner)) and pool.size:
                part = min(more, pool.resident if label.zeroed else pool.size)
                # Of a malloc without books only the mappings are known, which are larger than what
                # it has given out of them.
                whole = label.zeroed or owner in (Kind.MALLOC, UNACCOUNTED)
                share = part if whole else part * before[owner].resident // before[owner].size
                there = min(share, pool.resident)
                pools[owner] = _less(pool, there, part)
                resident, more = resident + there, more - part
        exactly = _exactly(taken)
        named[id(label)] = Line(
            group="heap",
            owner=label.owner,
            resident=resident,
            size=label.bytes,
            source=label.source,
            confidence="labelled",
            note=exactly,
            parts=label.parts,
        )
    order = [line for line in lines if line.owner not in pools]
    heap = next((i for i, line in enumerate(order) if line.group == "heap"), len(order))
    return [
        *order[:heap],
        *(named[id(label)] for label, _ in known),
        *pools.values(),
        *order[heap:],
    ]


def _exactly(taken: Sequence[object]) -> str:
    return f"{len(taken)} blocks found by their sizes" if taken else ""


def _matching(left: list[Block], sizes: Sequence[int], near: float) -> list[tuple[Block, int]]:
    """The blocks that are as large as these arrays, to a share ``near``, each with what was asked
    for; they are removed from ``left``, which is sorted.
    """
    found = []
    rounded = max((b.rounded for b in left), default=0)
    for size in sizes[:_MOST_SIZES]:
        low, high = size * (1 - near), size * (1 + near) + _MORE
        # What is touched has been asked for.
        near_by = left[
            bisect_left(left, low, key=_size) : bisect_right(left, high + rounded, key=_size)
        ]
        fitting = [b for b in near_by if b.asked <= high]
        if fitting:
            # Of several that may have been rounded up to the same, the one of which most is
            # touched.
            best = max(fitting, key=lambda b: b.resident) if fitting[0].rounded else fitting[0]
            left.remove(best)
            found.append((best, size if best.rounded else best.size))
    return found


def _size(block: Block) -> int:
    return block.size


def _less(line: Line, resident: int, size: int) -> Line:
    return replace(line, resident=line.resident - resident, size=line.size - size)
