"""What a ledger means, in words: what is wrong or worth knowing, its figures, what to do. Pure;
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
from dballoc.explain.verdicts.growth import Growth, growth
from dballoc.numbers import count, duration, listing, number, percent, with_unit
from dballoc.process_memory.mapping_kind import Kind

# problem: something to do; notice: something to know; fine: looked at, and nothing; open: not to be
# told from this.
Level = Literal["problem", "notice", "fine", "open"]

HELD = "free but held"
_UNLABELLED = (LIVE, MAPPED, Kind.MALLOC)
_MINUTE, _HOUR = 60.0, 3600.0


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """``key``: fixed, for scripts; ``headline``: a sentence; ``evidence``: its figures;
    ``remedies``: best first.
    """

    key: str
    level: Level
    headline: str
    evidence: list[str] = field(default_factory=list)
    remedies: list[str] = field(default_factory=list)


class Moment(NamedTuple):
    """A look: when (Unix time), what was found, what else was known."""

    taken: float
    ledger: Ledger
    evidence: Evidence


@dataclass(frozen=True)
class _Case:
    """``series``: every look, the last one ``now``; ``limits``: verdicts.toml."""

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

    def grown(self, what: Callable[[Moment], float]) -> Growth | None:
        limits = self.limits["growth"]
        return growth(
            [m.taken for m in self.series],
            [what(m) for m in self.series],
            limits["stretches"],
            limits["looks"],
        )

    def over(self, size: float, table: str, share: str = "rss") -> bool:
        """Whether a size is above the thresholds of a table: a share of RSS and a least size."""
        limits = self.limits[table]
        return size >= limits.get(share, 0) * self.rss and size >= parse_size(
            limits.get("least", "0K")
        )


def judge(
    series: Sequence[Moment], bounds: Bounds | None, limits: Mapping[str, Any]
) -> list[Verdict]:
    """Of the last look of a series, with what the others add; the problems first. ``limits``:
    dballoc.catalogue.verdicts().
    """
    case = _Case(series, bounds, limits)
    found = [verdict for rule in _RULES if (verdict := rule(case))]
    order = ("problem", "notice", "open", "fine")
    return sorted(found, key=lambda v: order.index(v.level))


def owned(ledger: Ledger, *owners: str) -> int:
    """Resident bytes of owners of these names."""
    return sum(line.resident for line in ledger.lines if line.owner in owners)


def heap(ledger: Ledger) -> int:
    """Resident bytes of malloc's memory."""
    return sum(line.resident for line in ledger.lines if line.group == "heap")


def unlabelled(ledger: Ledger) -> int:
    """Resident bytes of live heap that no owner claims."""
    return owned(ledger, *_UNLABELLED)


def _growing(case: _Case) -> Verdict:
    found = case.grown(lambda m: m.ledger.rss)
    if found is None:
        looks = count(len(case.series), "look")
        return Verdict(
            key="growth",
            level="open",
            headline=f"Growing or steady, leak or not: {looks} cannot tell",
            evidence=[],
            remedies=["dballoc explain --watch --for 10m"],
        )
    evidence = [f"RSS {_rate(found)}, over {duration(found.seconds)} and {found.looks} looks"]
    if found.change > 0 and (grew := _grew(case.series)):
        evidence.append(f"most of it: {grew}")
    limits = case.limits["growth"]
    bound = limits["steady"] * case.rss / _HOUR
    if -bound <= found.low and found.high <= bound:
        return Verdict(
            key="growth",
            level="fine",
            headline=f"Steady: RSS changes by less than {percent(limits['steady'], 0)} an hour",
            evidence=evidence,
        )
    if abs(found.change) < parse_size(limits["least"]) or not (found.grows or found.shrinks):
        most = with_unit(max(abs(found.low), abs(found.high)) * _MINUTE)
        return Verdict(
            key="growth",
            level="fine",
            headline=f"No growth shown: at most {most} a minute",
            evidence=evidence,
            remedies=["watch longer to bound it better"],
        )
    what = "Growing" if found.grows else "Shrinking"
    return Verdict(
        key="growth",
        level="notice",
        headline=f"{what}: RSS by {with_unit(abs(found.rate) * _MINUTE)} a minute",
        evidence=evidence,
    )


def _grew(series: Sequence[Moment]) -> str:
    before, after = (
        {(x.group, x.owner): x.resident for x in m.ledger.lines} for m in (series[0], series[-1])
    )
    rises = {owner: size - before.get((group, owner), 0) for (group, owner), size in after.items()}
    best = max(rises, key=lambda owner: rises[owner], default="")
    return f"{best} (+{with_unit(rises[best])})" if best and rises[best] > 0 else ""


def _leak(case: _Case) -> Verdict | None:
    limits = case.limits["leak"]
    found = case.grown(lambda m: unlabelled(m.ledger))
    if found is None or not found.grows or not case.over(found.change, "leak", "share"):
        return None
    connections = case.grown(lambda m: m.evidence.connections)
    evidence = [
        f"live heap that no owner claims {_rate(found)}, over {duration(found.seconds)} and "
        f"{found.looks} looks"
    ]
    if found.late < limits["lasting"] * found.early:
        evidence.append(
            f"but slower lately: {with_unit(max(0.0, found.late) * _MINUTE)} a minute in the "
            "second half"
        )
        return Verdict(
            key="leak",
            level="open",
            headline="Unlabelled heap grows, and ever slower: it fills something, or the server "
            "warms up",
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
        evidence.append("the server does not say which sessions have what")
    return Verdict(
        key="leak",
        level="problem",
        headline=f"Leak, by all signs: {with_unit(found.rate * _MINUTE)} a minute of live heap "
        "that no owner claims",
        evidence=evidence,
        remedies=[
            "find the code: start the server under dballoc exec --probe heap, then dballoc profile "
            "heap",
            "name more of it: performance_schema=ON, performance_schema_instrument='memory/%=ON' "
            "at start",
        ],
    )


def _sessions(case: _Case) -> Verdict | None:
    now, limits = case.evidence, case.limits["sessions"]
    size, n = now.sessions_bytes, now.connections
    if not n:
        return None
    found = case.grown(lambda m: m.evidence.sessions_bytes)
    connections = case.grown(lambda m: m.evidence.connections)
    leaks = (
        found is not None
        and found.grows
        and found.change >= parse_size(case.limits["leak"]["least"])
        and not (connections and connections.grows)
    )
    bloated = size >= parse_size(limits["least"]) and (
        size >= limits["rss"] * case.rss or size / n >= parse_size(limits["each"])
    )
    if not (leaks or bloated):
        return None
    evidence = [
        f"{with_unit(size)} in {count(n, 'connection')}, {with_unit(size / n)} each on average"
    ]
    if case.bounds:
        each = case.bounds.connection + case.bounds.statement
        evidence.append(
            f"its buffers by the configuration: {with_unit(case.bounds.connection)}, at work "
            f"{with_unit(each)}"
        )
    most = sorted(now.sessions, key=lambda s: -s[2])[:3]
    evidence.append(
        "by user: " + listing([f"{user} {with_unit(b)} in {k}" for user, k, b in most if b])
    )
    if leaks and found:
        evidence.insert(
            0,
            f"sessions' memory {_rate(found)}, over {duration(found.seconds)} and {found.looks} "
            "looks",
        )
    headline = (
        f"Session leak: sessions pile up {with_unit(found.rate * _MINUTE)} a minute on no more "
        "connections"
        if leaks and found
        else f"Per-connection bloat: {count(n, 'connection has', 'connections have')} "
        f"{with_unit(size)}, "
        f"{percent(size / case.rss, 0)} of RSS"
    )
    return Verdict(
        key="sessions",
        level="problem",
        headline=headline,
        evidence=evidence,
        remedies=_for_sessions(now, limits),
    )


def _for_sessions(now: Evidence, limits: Mapping[str, Any]) -> list[str]:
    found = []
    statements = now.figures.get("prepared_stmt_count", 0)
    if statements >= limits["statements"] * now.connections:
        most = now.figures.get("max_prepared_stmt_count", 0)
        found.append(
            f"close prepared statements: {statements:,} are open; max_prepared_stmt_count (now "
            f"{most:,}) bounds them"
        )
    cap = "max_session_mem_used=256M" if now.mariadb else "connection_memory_limit=268435456"
    return [
        *found,
        "find what the biggest keep (user variables, prepared statements, temporary tables); "
        f"{cap} bounds one",
        "have the pooler reset or renew its connections (COM_RESET_CONNECTION); wait_timeout=600 "
        "ends idle ones",
    ]


def _pool(case: _Case) -> Verdict | None:
    figures, limits = case.evidence.figures, case.limits["pool"]
    page, total = (
        figures.get("innodb_page_size", 0),
        figures.get("innodb_buffer_pool_pages_total", 0),
    )
    size = page * total
    used = size - page * figures.get("innodb_buffer_pool_pages_free", 0)
    mine = [x for x in case.ledger.lines if x.owner in (Kind.POOL, POOL)]
    if not size:
        size, used = sum(x.size for x in mine), sum(x.resident for x in mine)
    if not size or used >= limits["full"] * size:
        return None
    evidence = [f"in use {with_unit(used)} of {with_unit(size)}"]
    rss = case.grown(lambda m: m.ledger.rss)
    change = owned(case.ledger, Kind.POOL, POOL) - owned(case.series[0].ledger, Kind.POOL, POOL)
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


def _held(case: _Case) -> Verdict | None:
    held, all_of_it = owned(case.ledger, HELD), heap(case.ledger)
    if (
        not all_of_it
        or held < case.limits["held"]["heap"] * all_of_it
        or not case.over(held, "held")
    ):
        return None
    now = case.evidence
    evidence = [f"free but held {with_unit(held)} of {with_unit(all_of_it)} of heap"]
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
        f"{percent(held / all_of_it, 0)} of the heap",
        evidence=evidence,
        remedies=advice,
    )


def _own_books(case: _Case) -> Verdict | None:
    """Another malloc than glibc's, seen from outside alone."""
    size = owned(case.ledger, Kind.MALLOC)
    if (
        case.evidence.malloc == "glibc"
        or owned(case.ledger, HELD)
        or size < case.limits["own_books"]["rss"] * case.rss
    ):
        return None
    return Verdict(
        key="own_books",
        level="open",
        headline=f"{with_unit(size)} are {case.ledger.malloc}'s, live and free alike: from outside "
        "they cannot be told apart",
        evidence=[f"{percent(size / case.rss, 0)} of RSS"],
        remedies=["its own books say it: the loadable function, see dballoc explain --help"],
    )


def _huge(case: _Case) -> Verdict | None:
    huge, limits = case.evidence.huge, case.limits["huge"]
    if huge is None or huge.bytes < parse_size(limits["least"]) or huge.share < limits["empty"]:
        return None
    waste = int(huge.bytes * huge.share)
    evidence = [
        f"huge pages outside the buffer pool: {with_unit(huge.bytes)}",
        f"of {huge.read} small pages in them, {percent(huge.share, 0)} were never written",
        *([f"THP of this process: {case.evidence.thp}"] if case.evidence.thp else []),
    ]
    own = case.limits["remedies_huge"].get(case.evidence.malloc)
    remedies = [
        *([own] if own else []),
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, and restart the server",
    ]
    return Verdict(
        key="thp",
        level="problem",
        headline=f"THP bloat: about {with_unit(waste)} of huge pages hold nothing",
        evidence=evidence,
        remedies=remedies,
    )


def _caches(case: _Case) -> Verdict | None:
    """The largest cache that hardly earns its memory."""
    found = [v for cache in case.limits["caches"] if (v := _cache(case, cache))]
    return max(found, key=lambda v: v[0])[1] if found else None


def _cache(case: _Case, cache: Mapping[str, str]) -> tuple[int, Verdict] | None:
    figures, limits = case.evidence.figures, case.limits["cache"]
    size, asked = owned(case.ledger, cache["owner"]), figures.get(cache["setting"], 0)
    if not case.over(size, "cache"):
        return None
    unused = figures.get(cache["unused"], 0) * (
        figures.get(cache["block"], 0) if "block" in cache else 1
    )
    requests = figures.get(cache["requests"], 0) / max(1, figures.get("uptime", 0))
    idle, empty = requests < limits["idle"], unused >= limits["unused"] * asked
    evidence = [
        f"{with_unit(size)} resident ({percent(size / case.rss, 0)} of RSS), "
        f"{cache['setting']}={with_unit(asked)}",
        f"{percent(min(1.0, unused / asked) if asked else 0.0, 0)} of it unused",
        f"{number(requests)} requests a second since the start",
        f"it serves only {cache['of']}",
    ]
    headline = f"The {cache['owner']} has {with_unit(size)}, {percent(size / case.rss, 0)} of RSS"
    if not (idle or empty):
        return size, Verdict(key="cache", level="notice", headline=headline, evidence=evidence)
    why = "hardly anybody asks it" if idle else "most of it is unused"
    remedy = f"SET GLOBAL {cache['setting']} = {parse_size(cache['small'])}; and in my.cnf"
    return size, Verdict(
        key="cache",
        level="problem",
        headline=f"{headline}, and {why}",
        evidence=evidence,
        remedies=[remedy],
    )


def _schema(case: _Case) -> Verdict | None:
    size = owned(case.ledger, SCHEMA)
    if not case.over(size, "schema"):
        return None
    return Verdict(
        key="performance_schema",
        level="notice",
        headline=f"{SCHEMA} has {with_unit(size)}, {percent(size / case.rss, 0)} of RSS",
        evidence=[
            "Memory_used and its own memory summaries leave this out, or hide it in one line"
        ],
        remedies=[
            "if nobody reads it: performance_schema=OFF (restart)",
            "else fewer rows: performance_schema_digests_size=1000, "
            "performance_schema_max_table_instances=500 (restart)",
        ],
    )


def _unowned(case: _Case) -> Verdict | None:
    size = case.ledger.unowned
    if not case.over(size, "unowned"):
        return None
    remedies = (
        [] if "SQL" in case.ledger.tiers else ["let it ask the server: ~/.my.cnf or --login-path"]
    )
    return Verdict(
        key="unowned",
        level="notice",
        headline=f"Nobody claims {with_unit(size)}, {percent(size / case.rss, 0)} of RSS",
        evidence=[f"live heap without a label {with_unit(unlabelled(case.ledger))}"],
        remedies=[
            *remedies,
            "instruments from the start: performance_schema=ON, "
            "performance_schema_instrument='memory/%=ON'",
        ],
    )


_RULES: tuple[Callable[[_Case], Verdict | None], ...] = (
    _leak, _sessions, _held, _huge, _caches, _pool, _schema, _unowned, _own_books, _growing,
)  # fmt: skip


def _rate(found: Growth) -> str:
    """``+1.2 [+0.9, +1.5] MiB a minute``."""
    rate, low, high = (
        f"{size * _MINUTE / 2**20:+,.2f}".replace("-", "−")
        for size in (found.rate, found.low, found.high)
    )
    return f"{rate} [{low}, {high}] MiB a minute"


def answer(ledger: Ledger, limits: Mapping[str, Any]) -> str:
    """In one sentence, what most of the memory is for."""
    sizes: dict[str, int] = {}
    for line in ledger.lines:
        sizes[line.owner] = sizes.get(line.owner, 0) + line.resident
    limits, whole = limits["answer"], with_unit(ledger.rss)
    ranked = sorted(sizes.items(), key=lambda item: -item[1])[: limits["named"]]
    if not ranked or not ledger.rss:
        return f"Of the {whole}, no page has an owner."
    said = [f"{owner} ({percent(size / ledger.rss, 0)})" for owner, size in ranked]
    unowned = f"nobody claims {percent(ledger.unowned / ledger.rss, 0)}"
    if ranked[0][1] > limits["most"] * ledger.rss:
        return (
            f"Most of the {whole} is {said[0]}; then {listing(said[1:])}; {unowned}."
            if said[1:]
            else f"All is {said[0]}."
        )
    return f"No owner has most of the {whole}: the largest are {listing(said)}; {unowned}."
