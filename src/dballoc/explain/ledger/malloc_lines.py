"""Lines of the ledger for malloc's memory: its heap as it was walked, its own statistics, or a heap
probe's estimate. Pure.
"""

from collections.abc import Sequence
from dataclasses import replace

from dballoc.explain.ledger.ledger_line import LIVE, UNACCOUNTED, LedgerLine, subtract
from dballoc.process.heaps import allocator_statistics
from dballoc.process.heaps.allocator_statistics import LIVE_ALL, AllocatorStatistics, Holding
from dballoc.process.heaps.heap_probe_estimate import ProbeEstimate
from dballoc.process.heaps.heap_walk import HeapWalk

# By which share an allocator may contradict the walk of its heap before a note says so.
_TOLERANCE = 0.01


def make_malloc_lines(
    malloc_line: LedgerLine, account: AllocatorStatistics | None, sampled: ProbeEstimate | None
) -> list[LedgerLine]:
    """Return the lines of malloc's memory. Where its heap has mappings of its own they are beside
    ``malloc_line``; else that line is divided, by the malloc's statistics, or into what is live in
    it as a probe has sampled it, and what is not.
    """
    if account and account.exact:
        counted = [(holding, holding.resident or 0) for holding in account.holdings]
        return [*_make_holding_lines(account, counted), malloc_line]
    if account is None or not account.holdings:
        return _split_by_sample(malloc_line, sampled) if sampled else [malloc_line]
    apportioned = allocator_statistics.apportion_resident(account, malloc_line.resident)
    lines = _make_holding_lines(account, apportioned)
    rest = malloc_line.resident - sum(line.resident for line in lines)
    size = malloc_line.size - sum(line.size for line in lines) - account.returned
    return [*lines, replace(malloc_line, owner=UNACCOUNTED, resident=rest, size=max(rest, size))]


def _make_holding_lines(
    account: AllocatorStatistics, holdings: Sequence[tuple[Holding, int]]
) -> list[LedgerLine]:
    return [
        LedgerLine(
            group="heap",
            owner=holding.owner,
            resident=resident,
            size=holding.bytes,
            source=account.source,
            confidence="exact" if account.exact else "labelled",
            note=holding.note,
        )
        for holding, resident in holdings
    ]


def _split_by_sample(malloc_line: LedgerLine, sampled: ProbeEstimate) -> list[LedgerLine]:
    """Return what is live of a malloc's memory, and the rest."""
    live = min(sampled.live, malloc_line.resident)
    return [
        LedgerLine(
            group="heap",
            owner=LIVE_ALL,
            resident=live,
            size=live,
            source=sampled.source,
            confidence="sampled",
        ),
        replace(
            subtract(malloc_line, live, min(live, malloc_line.size)),
            owner=allocator_statistics.HELD,
            confidence="sampled",
            note="what malloc holds beyond live blocks: caches, fragments, free pages",
        ),
    ]


def add_functions(lines: list[LedgerLine], sampled: ProbeEstimate) -> list[LedgerLine]:
    """Return the lines; the largest one of live heap without an owner has as its parts the
    functions whose allocations no instrument counts.
    """
    live_lines = [line for line in lines if line.owner in (LIVE, LIVE_ALL)]
    if not live_lines:
        return lines
    largest = max(live_lines, key=lambda line: line.resident)
    origin = "" if sampled.source in largest.source else f"functions by {sampled.source}"
    with_parts = replace(
        largest, parts=sampled.parts, note="; ".join(filter(None, [largest.note, origin]))
    )
    return [with_parts if line is largest else line for line in lines]


def choose_statistics(
    heap: HeapWalk | None, reported: AllocatorStatistics | None
) -> AllocatorStatistics | None:
    """Return the statistics that malloc's lines are made of: those of the walk of its heap where it
    counted pages, else those that malloc ``reported`` by the loadable function, else the walk's.
    """
    if heap and (heap.statistics.exact or not (reported and reported.holdings)):
        return heap.statistics
    return reported


def list_statistics_notes(
    malloc_resident: int,
    account: AllocatorStatistics | None,
    reported: AllocatorStatistics | None,
) -> list[str]:
    """Return what malloc ``reported`` beside its figures, and where its statistics contradict the
    walk of its heap or the pages. ``malloc_resident``: resident bytes that are malloc's.
    """
    notes = list(reported.notes) if reported else []
    if account is None:
        return notes
    if account.returned:
        notes.append(
            f"{account.allocator} keeps {account.returned / 2**20:,.1f} MiB of address space "
            "without memory behind it"
        )
    accounted = sum(holding.bytes for holding in account.holdings)
    if account.exact:
        notes.extend(_list_contradictions(account, reported))
    elif accounted > malloc_resident:
        notes.append(
            f"{(accounted - malloc_resident) / 2**20:,.1f} MiB of what {account.allocator} "
            "accounts for are not in memory: never touched"
        )
    return notes


def _list_contradictions(
    walked: AllocatorStatistics, reported: AllocatorStatistics | None
) -> list[str]:
    live = walked.live or 0
    if not reported or reported.live is None or abs(reported.live - live) <= _TOLERANCE * live:
        return []
    return [
        f"{reported.allocator} itself says that {reported.live / 2**20:,.1f} MiB are in use, "
        f"threads' caches included; the walk of its heap found {live / 2**20:,.1f} MiB"
    ]
