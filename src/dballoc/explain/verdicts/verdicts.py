"""What a ledger means, in words: what is wrong or worth knowing, the evidence, what to do. Pure;
thresholds: verdicts.toml.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dballoc.evidence.sql.server_memory import ARIA, KEYS, POOL, SCHEMA, SESSIONS
from dballoc.experiment.durations_and_sizes import parse_size
from dballoc.explain.ledger.configuration_limits import Bounds
from dballoc.explain.ledger.ledger import Ledger
from dballoc.explain.ledger.ledger_line import UNOWNED
from dballoc.explain.ledger.server_caches import LINKS
from dballoc.explain.verdicts.caches import judge_caches
from dballoc.explain.verdicts.cgroup_limit import judge_limit
from dballoc.explain.verdicts.held import judge_arenas, judge_held, list_settings
from dballoc.explain.verdicts.leak import judge_growth, judge_leak, judge_sessions
from dballoc.explain.verdicts.owner_cause import judge_owners, name_instrument
from dballoc.explain.verdicts.unowned import judge_unowned
from dballoc.explain.verdicts.verdict import (
    Case,
    MemoryVerdict,
    Moment,
)
from dballoc.ground.numbers import listing, percent, with_unit
from dballoc.process.heaps.allocator_statistics import HELD
from dballoc.process.mapping_kind import MappingKind


def judge_moments(
    series: Sequence[Moment], bounds: Bounds | None, limits: Mapping[str, Any]
) -> list[MemoryVerdict]:
    """Return the verdicts on the last snapshot of a series, with what the others add: the problems
    first, and of one level those on more memory. ``limits``: dballoc.catalogue.verdicts().
    """
    case = Case(series, bounds, limits)
    verdicts = [verdict for rule in _RULES if (verdict := rule(case))]
    covered = {owner for verdict in verdicts for owner in _COVERED.get(verdict.key, ())}
    order = ("problem", "notice", "open", "fine")
    return sorted(
        [*judge_owners(case, covered), *verdicts], key=lambda v: (order.index(v.level), -v.bytes)
    )


def _judge_pool(case: Case) -> MemoryVerdict | None:
    """Judge whether the buffer pool is still filling: RSS rises by its pages that are not resident,
    and a page that the server has freed stays resident.
    """
    figures, limits = case.evidence.figures, case.limits["pool"]
    page, total = (
        figures.get("innodb_page_size", 0),
        figures.get("innodb_buffer_pool_pages_total", 0),
    )
    size = page * total
    used = size - page * figures.get("innodb_buffer_pool_pages_free", 0)
    lines = [line for line in case.ledger.lines if line.owner in (MappingKind.POOL, POOL)]
    mapped, resident = sum(x.size for x in lines), sum(x.resident for x in lines)
    if not size:
        size, used = mapped, resident
    rise = mapped - resident
    if not size or rise < (1 - limits["full"]) * size:
        return None
    # Where the pool's pages cannot be told from others, its line has those in use.
    most = "at most " if any(line.confidence == "labelled" for line in lines) else ""
    evidence = [
        f"in use {with_unit(used)} of {with_unit(size)}; resident {with_unit(resident)} of "
        f"{with_unit(mapped)}"
    ]
    rss = case.estimate_growth(lambda m: m.ledger.rss)
    change = case.ledger.sum_resident(MappingKind.POOL, POOL) - case.series[0].ledger.sum_resident(
        MappingKind.POOL, POOL
    )
    cause = rss is not None and rss.grows and change >= limits["cause"] * rss.change > 0
    if cause and rss:
        evidence.append(
            f"RSS has grown by {with_unit(rss.change)}, the pool by {with_unit(change)}"
        )
    headline = (
        f"Cache filling: the buffer pool is {percent(used / size, 0)} full, RSS can rise by "
        f"{most}{with_unit(rise)} more"
    )
    return MemoryVerdict(
        key="pool",
        level="notice",
        headline=f"{headline}, and that is why RSS grows" if cause else headline,
        evidence=evidence,
        remedies=["that is not a leak; innodb_buffer_pool_size bounds it"],
        bytes=resident if cause else 0,
    )


def _judge_unknown_malloc(case: Case) -> MemoryVerdict | None:
    """Judge whether much memory is that of a malloc whose statistics are not known."""
    size = case.ledger.sum_resident(MappingKind.MALLOC)
    if (
        case.evidence.malloc == "glibc"
        or case.ledger.sum_resident(HELD)
        or size < case.limits["own_books"]["rss"] * case.rss
    ):
        return None
    return MemoryVerdict(
        key="own_books",
        level="open",
        headline=f"{with_unit(size)} are {case.ledger.malloc}'s, live and free alike: from outside "
        "they cannot be told apart",
        evidence=[f"{percent(size / case.rss, 0)} of RSS"],
        remedies=[
            "its own statistics tell them apart: load the function with dballoc explain "
            "--install-function; it costs a library more in the server until --remove-function"
        ]
        if case.evidence.malloc in case.limits["own_books"]["mallocs"]
        else [],
        bytes=size,
    )


def _judge_huge_pages(case: Case) -> MemoryVerdict | None:
    """Judge whether much of the huge pages is empty."""
    huge, limits = case.evidence.huge, case.limits["huge"]
    if huge is None or huge.bytes < parse_size(limits["least"]) or huge.share < limits["empty"]:
        return None
    waste = int(huge.bytes * huge.share)
    evidence = [
        f"huge pages outside the buffer pool: {with_unit(huge.bytes)}",
        f"of {huge.read} small pages in them, {percent(huge.share, 0)} were never written",
        *([f"THP of this process: {case.evidence.thp}"] if case.evidence.thp else []),
    ]
    remedies = list_settings(case, "remedies_huge")
    if case.evidence.thp.startswith("always"):
        remedies.append(
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, and restart the server; "
            "it costs every process of this host its huge pages that does not ask for them"
        )
    return MemoryVerdict(
        key="thp",
        level="problem",
        headline=f"THP bloat: about {with_unit(waste)} of huge pages hold nothing",
        evidence=evidence,
        remedies=remedies,
        bytes=waste,
    )


def _judge_schema(case: Case) -> MemoryVerdict | None:
    """Judge whether performance_schema itself has much memory."""
    size = case.ledger.sum_resident(SCHEMA)
    if not case.exceeds(size, "schema"):
        return None
    return MemoryVerdict(
        key="performance_schema",
        level="notice",
        headline=f"{SCHEMA} has {with_unit(size)}, {percent(size / case.rss, 0)} of RSS",
        evidence=["Memory_used and its own memory summaries leave this out, or hide it in one row"],
        remedies=[
            "if nobody reads it: performance_schema=OFF; it costs a restart, and all statistics of "
            "statements, waits and memory",
            _advise_fewer_rows(case.evidence.figures),
        ],
        bytes=size,
    )


def _advise_fewer_rows(figures: Mapping[str, int]) -> str:
    """Return how to find sizes that are not below what is in use: how many statements have a digest
    only the server knows.
    """
    tables, digests = (
        f"{name} (now {figures[name]:,})" if name in figures else name
        for name in ("performance_schema_max_table_instances", "performance_schema_digests_size")
    )
    opened = f" (now {figures['open_tables']:,})" if "open_tables" in figures else ""
    return (
        f"else fewer rows, but more than are used: {tables} above Open_tables at its highest"
        f"{opened}, {digests} above the number of rows of "
        "performance_schema.events_statements_summary_by_digest; it costs a restart, and what does "
        "not fit any more is only counted as lost"
    )


# Each returns a verdict, or None if there is nothing to say.
_RULES: tuple[Callable[[Case], MemoryVerdict | None], ...] = (
    judge_limit,
    judge_leak,
    judge_sessions,
    judge_unowned,
    judge_held,
    judge_arenas,
    _judge_huge_pages,
    judge_caches,
    _judge_pool,
    _judge_schema,
    _judge_unknown_malloc,
    judge_growth,
)


# The owners that a verdict speaks of, by its key.
_COVERED: Mapping[str, Sequence[str]] = {
    "sessions": (SESSIONS,),
    "fragmentation": (HELD,),
    "cache": (KEYS, ARIA, f"{KEYS}{LINKS}", f"{ARIA}{LINKS}", "query cache"),
    "pool": (POOL, MappingKind.POOL),
    "performance_schema": (SCHEMA,),
    "unowned": UNOWNED,
    "suspects": (*UNOWNED, SESSIONS),
    "own_books": (MappingKind.MALLOC,),
}


def write_answer(ledger: Ledger, limits: Mapping[str, Any]) -> str:
    """Return one sentence on what most of the memory is for."""
    sizes: dict[str, int] = {}
    for line in ledger.lines:
        # What the server calls by its area alone says little without the instrument.
        is_area = line.owner == SESSIONS or line.owner.startswith("memory/")
        instrument = name_instrument(line, limits["owner"]["most"]) if is_area else ""
        name = f"{line.owner}, mostly {instrument}" if instrument else line.owner
        sizes[name] = sizes.get(name, 0) + line.resident
    limits, rss = limits["answer"], with_unit(ledger.rss)
    ranked = sorted(sizes.items(), key=lambda item: -item[1])[: limits["named"]]
    if not ranked or not ledger.rss:
        return f"Of the {rss}, no page has an owner."
    owners = [f"{owner} ({percent(size / ledger.rss, 0)})" for owner, size in ranked]
    least, most = (percent(size / ledger.rss, 0) for size in ledger.unowned_bounds)
    unowned = f"nobody claims {least if least == most else f'{least} to {most}'}"
    if ranked[0][1] > limits["most"] * ledger.rss:
        return (
            f"Most of the {rss} is {owners[0]}; then {listing(owners[1:])}; {unowned}."
            if owners[1:]
            else f"All is {owners[0]}."
        )
    return f"No owner has most of the {rss}: the largest are {listing(owners)}; {unowned}."
