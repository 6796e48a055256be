"""What a ledger means, in words: what is wrong or worth knowing, the evidence, what to do. Pure;
thresholds: verdicts.toml.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from dballoc.experiment.durations_and_sizes import parse_size
from dballoc.explain.attribution.configuration_limits import Bounds
from dballoc.explain.attribution.ledger import Ledger
from dballoc.explain.attribution.ledger_line import LIVE, MAPPED
from dballoc.explain.sources.server_memory import POOL, SCHEMA
from dballoc.explain.verdicts.evidence import Evidence
from dballoc.explain.verdicts.growth import Growth, estimate_growth
from dballoc.numbers import count, duration, listing, number, percent, with_unit
from dballoc.process_memory.mapping_kind import Kind

# problem: something to do; notice: something to know; fine: checked, and nothing wrong; open: these
# data cannot decide it.
Level = Literal["problem", "notice", "fine", "open"]

HELD = "free but held"
_UNLABELLED = (LIVE, MAPPED, Kind.MALLOC)
_MINUTE, _HOUR = 60.0, 3600.0


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """``key``: fixed, for scripts; ``headline``: a sentence; ``evidence``: the figures behind it;
    ``remedies``: what to do, the best first.
    """

    key: str
    level: Level
    headline: str
    evidence: list[str] = field(default_factory=list)
    remedies: list[str] = field(default_factory=list)


class Moment(NamedTuple):
    """One snapshot of a series: Unix time, ledger, and what verdicts need beside it."""

    timestamp: float
    ledger: Ledger
    evidence: Evidence


@dataclass(frozen=True)
class _Case:
    """What the rules decide on. ``series``: every snapshot, the last one ``now``; ``limits``:
    verdicts.toml.
    """

    series: Sequence[Moment]
    bounds: Bounds | None
    limits: Mapping[str, Any]

    @property
    def now(self) -> Moment:
        return self.series[-1]

    @property
    def ledger(self) -> Ledger:
        return self.now.ledger

    @property
    def evidence(self) -> Evidence:
        return self.now.evidence

    @property
    def rss(self) -> int:
        return self.ledger.rss

    def estimate_growth(self, measure: Callable[[Moment], float]) -> Growth | None:
        """Estimate it of what ``measure`` returns for each snapshot; None if these are too few."""
        limits = self.limits["growth"]
        return estimate_growth(
            [moment.timestamp for moment in self.series],
            [measure(moment) for moment in self.series],
            limits["stretches"],
            limits["looks"],
        )

    def exceeds(self, size: float, table: str, share: str = "rss") -> bool:
        """Whether a size is above the thresholds of a table: a share of RSS and a least size."""
        limits = self.limits[table]
        return size >= limits.get(share, 0) * self.rss and size >= parse_size(
            limits.get("least", "0K")
        )


def judge_moments(
    series: Sequence[Moment], bounds: Bounds | None, limits: Mapping[str, Any]
) -> list[Verdict]:
    """Return the verdicts on the last snapshot of a series, with what the others add; the problems
    first. ``limits``: dballoc.catalogue.verdicts().
    """
    case = _Case(series, bounds, limits)
    verdicts = [verdict for rule in _RULES if (verdict := rule(case))]
    order = ("problem", "notice", "open", "fine")
    return sorted(verdicts, key=lambda v: order.index(v.level))


def sum_owned(ledger: Ledger, *owners: str) -> int:
    """Return the resident bytes of owners of these names."""
    return sum(line.resident for line in ledger.lines if line.owner in owners)


def sum_heap(ledger: Ledger) -> int:
    """Return the resident bytes of malloc's memory."""
    return sum(line.resident for line in ledger.lines if line.group == "heap")


def sum_unlabelled(ledger: Ledger) -> int:
    """Return the resident bytes of live heap that no owner claims."""
    return sum_owned(ledger, *_UNLABELLED)


def _judge_growth(case: _Case) -> Verdict:
    """Judge whether RSS grows, shrinks or is steady."""
    growth = case.estimate_growth(lambda m: m.ledger.rss)
    if growth is None:
        snapshots = count(len(case.series), "snapshot")
        return Verdict(
            key="growth",
            level="open",
            headline=f"Growing or steady, leak or not: {snapshots} cannot tell",
            evidence=[],
            remedies=["dballoc explain --watch --for 10m"],
        )
    evidence = [f"RSS {_format_rate(growth)}"]
    if growth.change > 0 and (largest := _describe_largest_rise(case.series)):
        evidence.append(f"most of it: {largest}")
    limits = case.limits["growth"]
    bound = limits["steady"] * case.rss / _HOUR
    if -bound <= growth.low and growth.high <= bound:
        return Verdict(
            key="growth",
            level="fine",
            headline=f"Steady: RSS changes by less than {percent(limits['steady'], 0)} an hour",
            evidence=evidence,
        )
    if abs(growth.change) < parse_size(limits["least"]) or not (growth.grows or growth.shrinks):
        most = with_unit(max(abs(growth.low), abs(growth.high)) * _MINUTE)
        return Verdict(
            key="growth",
            level="fine",
            headline=f"No growth shown: at most {most} a minute",
            evidence=evidence,
            remedies=["watch for longer to narrow it down"],
        )
    verb = "Growing" if growth.grows else "Shrinking"
    return Verdict(
        key="growth",
        level="notice",
        headline=f"{verb}: RSS by {with_unit(abs(growth.rate) * _MINUTE)} a minute",
        evidence=evidence,
    )


def _describe_largest_rise(series: Sequence[Moment]) -> str:
    """Return the owner that rose most from the first snapshot to the last, with its rise."""
    before, after = (
        {(x.group, x.owner): x.resident for x in m.ledger.lines} for m in (series[0], series[-1])
    )
    rises = {owner: size - before.get((group, owner), 0) for (group, owner), size in after.items()}
    best = max(rises, key=lambda owner: rises[owner], default="")
    return f"{best} (+{with_unit(rises[best])})" if best and rises[best] > 0 else ""


def _judge_leak(case: _Case) -> Verdict | None:
    """Judge whether live heap that nobody claims grows and goes on growing."""
    limits = case.limits["leak"]
    growth = case.estimate_growth(lambda m: sum_unlabelled(m.ledger))
    if growth is None or not growth.grows or not case.exceeds(growth.change, "leak", "share"):
        return None
    connections = case.estimate_growth(lambda m: m.evidence.connections)
    evidence = [f"live heap that no owner claims {_format_rate(growth)}"]
    if growth.late < limits["lasting"] * growth.early:
        evidence.append(
            f"but slower lately: {with_unit(max(0.0, growth.late) * _MINUTE)} a minute in the "
            "second half"
        )
        return Verdict(
            key="leak",
            level="open",
            headline="Unlabelled heap grows, but ever slower: something fills, or the server warms "
            "up",
            evidence=evidence,
            remedies=["watch for longer"],
        )
    if connections and connections.grows:
        evidence.append(
            f"connections: {case.series[0].evidence.connections} at first, "
            f"{case.evidence.connections} now"
        )
        return Verdict(
            key="leak",
            level="open",
            headline="Unlabelled heap grows with the number of connections",
            evidence=evidence,
            remedies=["watch at a steady number of connections; a pool of connections bounds it"],
        )
    evidence.append("it does not slow down, and the number of connections does not rise")
    if case.evidence.sessions and case.evidence.connections == 0:
        evidence.append("the server does not tell how much memory each session has")
    return Verdict(
        key="leak",
        level="problem",
        headline=f"Leak, by all signs: {with_unit(growth.rate * _MINUTE)} a minute of live heap "
        "that no owner claims",
        evidence=evidence,
        remedies=[
            "find the code: start the server under dballoc exec --probe heap, then dballoc profile "
            "heap",
            "name more of it: performance_schema=ON, performance_schema_instrument='memory/%=ON' "
            "at start",
        ],
    )


def _judge_sessions(case: _Case) -> Verdict | None:
    """Judge whether connections have much memory, or more and more of it."""
    now, limits = case.evidence, case.limits["sessions"]
    size, connected = now.sessions_bytes, now.connections
    if not connected:
        return None
    growth = case.estimate_growth(lambda m: m.evidence.sessions_bytes)
    connections = case.estimate_growth(lambda m: m.evidence.connections)
    leaks = (
        growth is not None
        and growth.grows
        and growth.change >= parse_size(case.limits["leak"]["least"])
        and not (connections and connections.grows)
    )
    bloated = size >= parse_size(limits["least"]) and (
        size >= limits["rss"] * case.rss or size / connected >= parse_size(limits["each"])
    )
    if not (leaks or bloated):
        return None
    evidence = [
        f"{with_unit(size)} in {count(connected, 'connection')}, "
        f"{with_unit(size / connected)} each on average"
    ]
    if case.bounds:
        each = case.bounds.connection + case.bounds.statement
        evidence.append(
            f"one may have {with_unit(case.bounds.connection)} of buffers by its configuration, "
            f"{with_unit(each)} at work"
        )
    most = sorted(now.sessions, key=lambda s: -s[2])[:3]
    evidence.append(
        "by user: " + listing([f"{user} {with_unit(b)} in {k}" for user, k, b in most if b])
    )
    if leaks and growth:
        evidence.insert(0, f"sessions' memory {_format_rate(growth)}")
    headline = (
        f"Session leak: sessions pile up {with_unit(growth.rate * _MINUTE)} a minute with no more "
        "connections"
        if leaks and growth
        else f"Per-connection bloat: {count(connected, 'connection has', 'connections have')} "
        f"{with_unit(size)}, "
        f"{percent(size / case.rss, 0)} of RSS"
    )
    return Verdict(
        key="sessions",
        level="problem",
        headline=headline,
        evidence=evidence,
        remedies=_list_session_remedies(now, limits),
    )


def _list_session_remedies(now: Evidence, limits: Mapping[str, Any]) -> list[str]:
    remedies = []
    statements = now.figures.get("prepared_stmt_count", 0)
    if statements >= limits["statements"] * now.connections:
        most = now.figures.get("max_prepared_stmt_count", 0)
        remedies.append(
            f"close prepared statements: {statements:,} are open; max_prepared_stmt_count (now "
            f"{most:,}) limits them"
        )
    cap = "max_session_mem_used=256M" if now.mariadb else "connection_memory_limit=268435456"
    return [
        *remedies,
        "find what the biggest keep (user variables, prepared statements, temporary tables); "
        f"{cap} limits each",
        "have the pooler reset or renew its connections (COM_RESET_CONNECTION); wait_timeout=600 "
        "ends idle ones",
    ]


def _judge_pool(case: _Case) -> Verdict | None:
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
        f"RSS can rise by {with_unit(size - used)} more, and that is no leak; "
        "innodb_buffer_pool_size bounds it"
    )
    return Verdict(
        key="pool",
        level="notice",
        headline=f"{headline}, and that is why RSS grows" if cause else headline,
        evidence=evidence,
        remedies=[more],
    )


def _judge_held(case: _Case) -> Verdict | None:
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


def _judge_unknown_malloc(case: _Case) -> Verdict | None:
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
            "its own statistics tell: load the function, see --install-function in "
            "dballoc explain --help"
        ],
    )


def _judge_huge_pages(case: _Case) -> Verdict | None:
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


def _judge_caches(case: _Case) -> Verdict | None:
    """Return the verdict on the largest of the caches that are not InnoDB's."""
    judged = [v for cache in case.limits["caches"] if (v := _judge_cache(case, cache))]
    return max(judged, key=lambda v: v[0])[1] if judged else None


def _judge_cache(case: _Case, cache: Mapping[str, str]) -> tuple[int, Verdict] | None:
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


def _judge_schema(case: _Case) -> Verdict | None:
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


def _judge_unowned(case: _Case) -> Verdict | None:
    """Judge whether much memory has no owner."""
    size = case.ledger.unowned
    if not case.exceeds(size, "unowned"):
        return None
    remedies = (
        [] if "SQL" in case.ledger.tiers else ["let it ask the server: ~/.my.cnf or --login-path"]
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
_RULES: tuple[Callable[[_Case], Verdict | None], ...] = (
    _judge_leak,
    _judge_sessions,
    _judge_held,
    _judge_huge_pages,
    _judge_caches,
    _judge_pool,
    _judge_schema,
    _judge_unowned,
    _judge_unknown_malloc,
    _judge_growth,
)


def _format_rate(growth: Growth) -> str:
    """``+1.2 [+0.9, +1.5] MiB a minute, over 10 min and 120 snapshots``."""
    rate, low, high = (
        f"{size * _MINUTE / 2**20:+,.2f}".replace("-", "−")
        for size in (growth.rate, growth.low, growth.high)
    )
    span = f"over {duration(growth.seconds)} and {growth.snapshots} snapshots"
    return f"{rate} [{low}, {high}] MiB a minute, {span}"


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
