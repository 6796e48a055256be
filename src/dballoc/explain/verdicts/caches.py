"""The caches that are not InnoDB's: whether one of them is large and hardly used. Pure; the caches
and their thresholds: ``[cache]`` and ``[[caches]]`` of verdicts.toml.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dballoc.experiment.durations_and_sizes import parse_duration, parse_size
from dballoc.explain.ledger.server_caches import LINKS
from dballoc.explain.verdicts.verdict import Case, MemoryVerdict
from dballoc.ground.numbers import duration, number, percent, with_unit

_MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class _Usage:
    """Of a cache: ``resident``, ``configured`` and ``used`` bytes, with what lies beside its
    blocks in ``resident``; ``used`` at most so far, if ``is_peak``, else now; ``requests`` a
    second, counted for so many seconds (``counted``), which began where it says (``since``).
    """

    resident: int
    configured: int
    used: int
    is_peak: bool
    requests: float
    counted: float
    since: str

    @property
    def use(self) -> str:
        """How much is in use, in words."""
        if not self.is_peak:
            return f"{with_unit(self.used)} are in use"
        if not self.used:
            return "none was ever in use"
        return f"{with_unit(self.used)} were in use at most"


def judge_caches(case: Case) -> MemoryVerdict | None:
    """Return the verdict on the largest of the caches; a problem goes before a larger cache without
    one.
    """
    judged = [v for cache in case.limits["caches"] if (v := _judge_cache(case, cache))]
    return max(judged, key=lambda v: (v.level == "problem", v.bytes), default=None)


def _judge_cache(case: Case, cache: Mapping[str, Any]) -> MemoryVerdict | None:
    """Return the verdict on a cache; None if it is small."""
    limits = case.limits["cache"]
    usage = _measure_usage(case, cache)
    if not case.exceeds(usage.resident, "cache"):
        return None
    unused = 1 - usage.used / usage.configured if usage.configured else 0.0
    evidence = [
        f"{with_unit(usage.resident)} resident ({percent(usage.resident / case.rss, 0)} of RSS), "
        f"{cache['setting']}={with_unit(usage.configured)}",
        f"{with_unit(usage.used)} in use{' at most so far' if usage.is_peak else ''}, "
        f"{percent(unused, 0)} unused",
        f"{number(usage.requests)} requests a second since {usage.since}",
        f"it serves only {cache['of']}",
    ]
    headline = (
        f"The {cache['owner']} has {with_unit(usage.resident)}, "
        f"{percent(usage.resident / case.rss, 0)} of RSS"
    )
    faults = []
    if usage.requests < limits["idle"]:
        faults.append("hardly anybody uses it")
    # What empties a cache for a moment does not make it too large.
    if unused >= limits["unused"] and usage.is_peak:
        faults.append("most of it is unused")
    beyond = usage.resident - usage.configured
    if beyond > limits["beyond"] * usage.configured > 0:
        # MySQL counts all its key caches as one, and tells neither their names nor their use.
        faults = []
        evidence.append(
            f"{with_unit(beyond)} more than {cache['setting']}: caches with names of their own "
            f"(NAME.{cache['setting']})"
        )
    young = usage.counted < parse_duration(limits["uptime"])
    if faults and young:
        evidence.append(
            f"{duration(usage.counted)} since {usage.since}: too early to judge its use"
        )
    is_problem = bool(faults) and not young and usage.configured > 0
    return MemoryVerdict(
        key="cache",
        level="problem" if is_problem else "notice",
        headline=f"{headline}, and {' and '.join(faults)}" if is_problem else headline,
        evidence=evidence,
        remedies=[_advise(cache, usage, limits)] if is_problem else [],
        bytes=usage.resident,
    )


def _measure_usage(case: Case, cache: Mapping[str, Any]) -> _Usage:
    now, figures = case.evidence, case.evidence.figures
    configured = figures.get(cache["setting"], 0)
    block = figures.get(cache["block"], 0) if "block" in cache else 1
    # Of the variable's bytes a share is for blocks, the rest for what leads to them.
    free, most = (
        int(figures.get(cache[name], 0) * block / cache["usable"]) if name in cache else 0
        for name in ("unused", "most_used")
    )
    return _Usage(
        # MariaDB's links and hash of a cache are a line of their own; they shrink with it.
        resident=case.ledger.sum_resident(cache["owner"], f"{cache['owner']}{LINKS}"),
        configured=configured,
        # A FLUSH TABLES empties it, and a backup makes one.
        used=min(configured, max(configured - free, most)),
        is_peak="most_used" in cache,
        requests=figures.get(cache["requests"], 0) / max(1, now.counted_seconds),
        counted=now.counted_seconds,
        since="FLUSH STATUS" if now.is_flushed else "the start",
    )


def _advise(cache: Mapping[str, Any], usage: _Usage, limits: Mapping[str, Any]) -> str:
    """Return the smallest size that keeps what was in use at most, with a margin; no size at all
    where that is hardly smaller than what it has.
    """
    wanted = -(-int(usage.used * (1 + limits["used_margin"])) // _MIB) * _MIB
    size = max(wanted, parse_size(cache["small"]))
    if size > (1 - limits["gain"]) * usage.configured:
        return (
            f"{usage.use}; it costs reads of {cache['of']} from disk to make {cache['setting']} "
            f"smaller, {number(usage.requests)} a second at "
            "most by what was asked so far: decide by that"
        )
    how = (
        f"SET GLOBAL {cache['setting']} = {size}; and in my.cnf"
        if cache["dynamic"]
        else f"{cache['setting']} = {size} in my.cnf (restart)"
    )
    return f"{how}: {usage.use}; it costs {cache['cost']}"
