"""What a ledger means, in words: what is wrong or worth knowing, the evidence, what to do. Pure;
thresholds: verdicts.toml.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dballoc.experiment.durations_and_sizes import parse_size
from dballoc.explain.attribution.configuration_limits import Bounds
from dballoc.explain.attribution.ledger import Ledger
from dballoc.explain.sources.server_memory import POOL, SCHEMA
from dballoc.explain.verdicts.leak import judge_growth, judge_leak, judge_sessions
from dballoc.explain.verdicts.verdict import (
    Case,
    Moment,
    Verdict,
    sum_heap,
    sum_owned,
    sum_unlabelled,
)
from dballoc.numbers import count, listing, number, percent, with_unit
from dballoc.process_memory.mapping_kind import Kind

HELD = "free but held"


def judge_moments(
    series: Sequence[Moment], bounds: Bounds | None, limits: Mapping[str, Any]
) -> list[Verdict]:
    """Return the verdicts on the last snapshot of a series, with what the others add; the problems
    first. ``limits``: dballoc.catalogue.verdicts().
    """
    case = Case(series, bounds, limits)
    verdicts = [verdict for rule in _RULES if (verdict := rule(case))]
    order = ("problem", "notice", "open", "fine")
    return sorted(verdicts, key=lambda v: order.index(v.level))


def _judge_pool(case: Case) -> Verdict | None:
    """Judge whether the buffer pool is still filling."""
    figures, limits = case.evidence.figures, case.limits["pool"]
    page, total = (
        figures.get("innodb_page_size", 0),
        figures.get("innodb_buffer_pool_pages_total", 0),
    )
    size = page * total
    used = size - page * figures.get("innodb_buffer_pool_pages_free", 0)
    if not size:
        lines = [line for line in case.ledger.lines if line.owner in (Kind.POOL, POOL)]
        size, used = sum(x.size for x in lines), sum(x.resident for x in lines)
    if not size or used >= limits["full"] * size:
        return None
    evidence = [f"in use {with_unit(used)} of {with_unit(size)}"]
    rss = case.estimate_growth(lambda m: m.ledger.rss)
    change = sum_owned(case.ledger, Kind.POOL, POOL) - sum_owned(
        case.series[0].ledger, Kind.POOL, POOL
    )
    cause = rss is not None and rss.grows and change >= limits["cause"] * rss.change > 0
    if cause and rss:
        evidence.append(
            f"RSS has grown by {with_unit(rss.change)}, the pool by {with_unit(change)}"
        )
    headline = f"Cache filling: the buffer pool is {percent(used / size, 0)} full"
    more = (
        f"RSS can rise by {with_unit(size - used)} more, and that is not a leak; "
        "innodb_buffer_pool_size bounds it"
    )
    return Verdict(
        key="pool",
        level="notice",
        headline=f"{headline}, and that is why RSS grows" if cause else headline,
        evidence=evidence,
        remedies=[more],
    )


def _judge_held(case: Case) -> Verdict | None:
    """Judge whether malloc holds much memory that is free."""
    held, heap = sum_owned(case.ledger, HELD), sum_heap(case.ledger)
    if not heap or held < case.limits["held"]["heap"] * heap or not case.exceeds(held, "held"):
        return None
    now = case.evidence
    evidence = [f"free but held {with_unit(held)} of {with_unit(heap)} of heap"]
    if now.arenas:
        evidence.append(f"{count(now.arenas, 'arena')}; the worst holds {with_unit(now.worst)}")
    remedies = case.limits["remedies"]
    advice = [remedies[now.malloc]] if now.malloc in remedies else []
    advice.append(
        "try it first: dballoc bench --like PID --allocators glibc,jemalloc,tcmalloc,mimalloc"
    )
    return Verdict(
        key="fragmentation",
        level="problem",
        headline=f"Fragmentation: malloc holds {with_unit(held)} that nobody uses, "
        f"{percent(held / heap, 0)} of the heap",
        evidence=evidence,
        remedies=advice,
    )


def _judge_unknown_malloc(case: Case) -> Verdict | None:
    """Judge whether much memory is that of a malloc whose statistics are not known."""
    size = sum_owned(case.ledger, Kind.MALLOC)
    if (
        case.evidence.malloc == "glibc"
        or sum_owned(case.ledger, HELD)
        or size < case.limits["own_books"]["rss"] * case.rss
    ):
        return None
    return Verdict(
        key="own_books",
        level="open",
        headline=f"{with_unit(size)} are {case.ledger.malloc}'s, live and free alike: from outside "
        "they cannot be told apart",
        evidence=[f"{percent(size / case.rss, 0)} of RSS"],
        remedies=[
            "its own statistics tell them apart: load the function with dballoc explain "
            "--install-function"
        ],
    )


def _judge_huge_pages(case: Case) -> Verdict | None:
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
    remedy = case.limits["remedies_huge"].get(case.evidence.malloc)
    remedies = [
        *([remedy] if remedy else []),
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, and restart the server",
    ]
    return Verdict(
        key="thp",
        level="problem",
        headline=f"THP bloat: about {with_unit(waste)} of huge pages hold nothing",
        evidence=evidence,
        remedies=remedies,
    )


def _judge_caches(case: Case) -> Verdict | None:
    """Return the verdict on the largest of the caches that are not InnoDB's."""
    judged = [v for cache in case.limits["caches"] if (v := _judge_cache(case, cache))]
    return max(judged, key=lambda v: v[0])[1] if judged else None


def _judge_cache(case: Case, cache: Mapping[str, str]) -> tuple[int, Verdict] | None:
    """Return the resident bytes of a cache and the verdict on it; None if it is small."""
    figures, limits = case.evidence.figures, case.limits["cache"]
    size, configured = sum_owned(case.ledger, cache["owner"]), figures.get(cache["setting"], 0)
    if not case.exceeds(size, "cache"):
        return None
    unused = figures.get(cache["unused"], 0) * (
        figures.get(cache["block"], 0) if "block" in cache else 1
    )
    requests = figures.get(cache["requests"], 0) / max(1, figures.get("uptime", 0))
    idle, empty = requests < limits["idle"], unused >= limits["unused"] * configured
    evidence = [
        f"{with_unit(size)} resident ({percent(size / case.rss, 0)} of RSS), "
        f"{cache['setting']}={with_unit(configured)}",
        f"{percent(min(1.0, unused / configured) if configured else 0.0, 0)} of it unused",
        f"{number(requests)} requests a second since the start",
        f"it serves only {cache['of']}",
    ]
    headline = f"The {cache['owner']} has {with_unit(size)}, {percent(size / case.rss, 0)} of RSS"
    if not (idle or empty):
        return size, Verdict(key="cache", level="notice", headline=headline, evidence=evidence)
    fault = "hardly anybody uses it" if idle else "most of it is unused"
    remedy = f"SET GLOBAL {cache['setting']} = {parse_size(cache['small'])}; and in my.cnf"
    return size, Verdict(
        key="cache",
        level="problem",
        headline=f"{headline}, and {fault}",
        evidence=evidence,
        remedies=[remedy],
    )


def _judge_schema(case: Case) -> Verdict | None:
    """Judge whether performance_schema itself has much memory."""
    size = sum_owned(case.ledger, SCHEMA)
    if not case.exceeds(size, "schema"):
        return None
    return Verdict(
        key="performance_schema",
        level="notice",
        headline=f"{SCHEMA} has {with_unit(size)}, {percent(size / case.rss, 0)} of RSS",
        evidence=["Memory_used and its own memory summaries leave this out, or hide it in one row"],
        remedies=[
            "if nobody reads it: performance_schema=OFF (restart)",
            "else fewer rows: performance_schema_digests_size=1000, "
            "performance_schema_max_table_instances=500 (restart)",
        ],
    )


def _judge_unowned(case: Case) -> Verdict | None:
    """Judge whether much memory has no owner."""
    size = case.ledger.unowned
    if not case.exceeds(size, "unowned"):
        return None
    remedies = (
        []
        if "SQL" in case.ledger.tiers
        else ["let dballoc log in to the server: ~/.my.cnf or --login-path"]
    )
    return Verdict(
        key="unowned",
        level="notice",
        headline=f"Nobody claims {with_unit(size)}, {percent(size / case.rss, 0)} of RSS",
        evidence=[f"live heap without a label {with_unit(sum_unlabelled(case.ledger))}"],
        remedies=[
            *remedies,
            "instruments from the start: performance_schema=ON, "
            "performance_schema_instrument='memory/%=ON'",
        ],
    )


# Each returns a verdict, or None if there is nothing to say.
_RULES: tuple[Callable[[Case], Verdict | None], ...] = (
    judge_leak,
    judge_sessions,
    _judge_held,
    _judge_huge_pages,
    _judge_caches,
    _judge_pool,
    _judge_schema,
    _judge_unowned,
    _judge_unknown_malloc,
    judge_growth,
)


def write_answer(ledger: Ledger, limits: Mapping[str, Any]) -> str:
    """Return one sentence on what most of the memory is for."""
    sizes: dict[str, int] = {}
    for line in ledger.lines:
        sizes[line.owner] = sizes.get(line.owner, 0) + line.resident
    limits, rss = limits["answer"], with_unit(ledger.rss)
    ranked = sorted(sizes.items(), key=lambda item: -item[1])[: limits["named"]]
    if not ranked or not ledger.rss:
        return f"Of the {rss}, no page has an owner."
    owners = [f"{owner} ({percent(size / ledger.rss, 0)})" for owner, size in ranked]
    unowned = f"nobody claims {percent(ledger.unowned / ledger.rss, 0)}"
    if ranked[0][1] > limits["most"] * ledger.rss:
        return (
            f"Most of the {rss} is {owners[0]}; then {listing(owners[1:])}; {unowned}."
            if owners[1:]
            else f"All is {owners[0]}."
        )
    return f"No owner has most of the {rss}: the largest are {listing(owners)}; {unowned}."
