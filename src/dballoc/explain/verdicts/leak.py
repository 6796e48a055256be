"""Whether a server's memory grows, whether that is a leak, and whether it is its sessions'. Pure;
thresholds: verdicts.toml.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dballoc.evidence.model import Evidence
from dballoc.evidence.sql.server_memory import SESSIONS
from dballoc.experiment.durations_and_sizes import parse_size
from dballoc.explain.verdicts.growth import Growth
from dballoc.explain.verdicts.owner_cause import Cause, find_cause
from dballoc.explain.verdicts.verdict import UNLABELLED, Case, Level, MemoryVerdict, Moment
from dballoc.ground.numbers import count, duration, listing, percent, with_unit

_MINUTE, _HOUR = 60.0, 3600.0

FIND_CODE = (
    "find the code: start the server under dballoc exec --probe heap, then dballoc profile heap; "
    "it costs a restart, and a look-up in a table at each free"
)
# Where they are not on yet.
NAME_MORE = (
    "name more of it: performance_schema=ON, performance_schema_instrument='memory/%=ON' at start; "
    "it costs a restart, performance_schema's own memory, and some CPU at each allocation"
)


def judge_growth(case: Case) -> MemoryVerdict:
    """Judge whether RSS grows, shrinks or is steady."""
    growth = case.estimate_growth(lambda m: m.ledger.rss)
    if growth is None:
        snapshots = count(len(case.series), "snapshot")
        return MemoryVerdict(
            key="growth",
            level="open",
            headline=f"{snapshots} cannot tell whether memory grows or leaks",
            remedies=["dballoc explain --watch --for 10m; it costs 1 % of a CPU at most"],
        )
    evidence = [f"RSS {_format_rate(growth)}"]
    if growth.change > 0 and (largest := _describe_largest_rise(case.series)):
        evidence.append(f"grew most: {largest}")
    limits = case.limits["growth"]
    bound = limits["steady"] * case.rss / _HOUR
    level: Level = "fine"
    remedies = []
    if -bound <= growth.low and growth.high <= bound:
        headline = f"Steady: RSS changes by less than {percent(limits['steady'], 0)} an hour"
    elif abs(growth.change) < parse_size(limits["least"]) or not (growth.grows or growth.shrinks):
        most = with_unit(max(abs(growth.low), abs(growth.high)) * _MINUTE)
        headline = f"No growth shown: at most {most} a minute"
        remedies = ["watch for longer to narrow it down; it costs 1 % of a CPU at most"]
    else:
        level, verb = "notice", "Growing" if growth.grows else "Shrinking"
        headline = f"{verb}: RSS by {with_unit(abs(growth.rate) * _MINUTE)} a minute"
    return MemoryVerdict(
        key="growth", level=level, headline=headline, evidence=evidence, remedies=remedies
    )


def _describe_largest_rise(series: Sequence[Moment]) -> str:
    """Return the owner that rose most from the first snapshot to the last, with its rise."""
    before, after = (moment.ledger.sum_by_line() for moment in (series[0], series[-1]))
    rises = {line[1]: size - before.get(line, 0) for line, size in after.items()}
    best = max(rises, key=lambda owner: rises[owner], default="")
    return f"{best} (+{with_unit(rises[best])})" if best and rises[best] > 0 else ""


def judge_leak(case: Case) -> MemoryVerdict | None:
    """Judge whether live heap that nobody claims grows and goes on growing."""
    limits = case.limits["leak"]
    growth = case.estimate_growth(lambda m: m.ledger.sum_resident(*UNLABELLED))
    if growth is None or not growth.grows or not case.exceeds(growth.change, "leak", "share"):
        return None
    connections = case.estimate_growth(lambda m: m.evidence.connections)
    evidence = [f"live heap that no owner claims {_format_rate(growth)}"]
    level: Level = "open"
    size = 0
    if growth.late < limits["lasting"] * growth.early:
        evidence.append(
            f"but slower lately: {with_unit(max(0.0, growth.late) * _MINUTE)} a minute in the "
            "second half"
        )
        headline = "Unlabelled heap grows, but ever slower: something fills, or the server warms up"
        remedies = ["watch for longer; it costs 1 % of a CPU at most"]
    elif connections and connections.grows:
        evidence.append(
            f"connections: {case.series[0].evidence.connections} at first, "
            f"{case.evidence.connections} now"
        )
        headline = "Unlabelled heap grows with the number of connections"
        remedies = [
            "watch at a steady number of connections; a pool of connections bounds it, and it "
            "costs waiting in the application when all of them are busy"
        ]
    else:
        evidence.append("it does not slow down, and the number of connections does not rise")
        if case.evidence.sessions and case.evidence.connections == 0:
            evidence.append("the server does not tell how much memory each session has")
        level, size = "problem", case.ledger.sum_resident(*UNLABELLED)
        rate = with_unit(growth.rate * _MINUTE)
        headline = f"Leak, by all signs: {rate} a minute of live heap that no owner claims"
        remedies = [FIND_CODE, *([] if case.evidence.counted else [NAME_MORE])]
    return MemoryVerdict(
        key="leak", level=level, headline=headline, evidence=evidence, remedies=remedies, bytes=size
    )


def judge_sessions(case: Case) -> MemoryVerdict | None:
    """Judge whether connections have much memory, or more and more of it."""
    now, limits = case.evidence, case.limits["sessions"]
    requested, connected = now.sessions_bytes, now.connections
    if not connected:
        return None
    # As the ledger's line has it, in pages; what was asked for may be more.
    size = case.ledger.sum_resident(SESSIONS) or min(requested, case.rss)
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
        f"{with_unit(requested)} asked for in {count(connected, 'connection')}, "
        f"{with_unit(requested / connected)} each on average"
    ]
    if case.bounds:
        each = case.bounds.connection + case.bounds.statement
        evidence.append(
            f"one may have {with_unit(case.bounds.connection)} of buffers by its configuration, "
            f"{with_unit(each)} at work"
        )
    most = sorted(now.sessions, key=lambda s: -s[2])[:3]
    evidence.append(
        "asked for by user: "
        + listing([f"{user} {with_unit(b)} in {k}" for user, k, b in most if b])
    )
    cause = _find_session_cause(case)
    if cause:
        evidence += cause.evidence
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
    return MemoryVerdict(
        key="sessions",
        level="problem",
        headline=f"{headline}; {cause.name}" if cause else headline,
        evidence=evidence,
        remedies=cause.remedies
        if cause and cause.remedies
        else _list_session_remedies(now, limits),
        bytes=size,
    )


def _find_session_cause(case: Case) -> Cause | None:
    """Return the instrument that counts most of what sessions have, None where none does."""
    line = next((line for line in case.ledger.lines if line.owner == SESSIONS), None)
    cause = find_cause(line, case.evidence, case.limits["owner"]["most"]) if line else None
    return cause if cause and cause.instrument else None


def _list_session_remedies(now: Evidence, limits: Mapping[str, Any]) -> list[str]:
    """Return what gives back sessions' memory. A limit of each session does not: it has to be above
    what the largest one holds.
    """
    remedies = []
    statements = now.figures.get("prepared_stmt_count", 0)
    if statements >= limits["statements"] * now.connections:
        most = now.figures.get("max_prepared_stmt_count", 0)
        remedies.append(
            f"close prepared statements: {statements:,} are open; max_prepared_stmt_count (now "
            f"{most:,}) limits them, and it costs an error for each one beyond"
        )
    biggest = "find what the biggest keep (user variables, prepared statements, temporary tables); "
    remedies.append(f"{biggest}it costs a look through the application's code")
    size = with_unit(now.sessions_bytes)
    renew = (
        f"have the pooler renew its connections: up to {size} go with them (back to malloc; "
        "dballoc explain --trim gives them to the host); a reset "
        "(COM_RESET_CONNECTION) frees user variables, prepared statements and temporary tables, "
        "and not the network buffers of large packets"
    )
    patience = limits["wait_timeout"]
    cost = "it costs a reconnection in applications that keep them"
    if now.figures.get("wait_timeout", patience + 1) > patience:
        remedies.append(f"{renew}; wait_timeout={patience} ends idle ones, and {cost}")
    else:
        remedies.append(f"{renew}; {cost}")
    return remedies


def _format_rate(growth: Growth) -> str:
    """``+1.2 [+0.9, +1.5] MiB a minute, over 10 min and 120 snapshots``."""
    rate, low, high = (
        f"{size * _MINUTE / 2**20:+,.2f}".replace("-", "−")
        for size in (growth.rate, growth.low, growth.high)
    )
    span = f"over {duration(growth.seconds)} and {growth.snapshots} snapshots"
    return f"{rate} [{low}, {high}] MiB a minute, {span}"
