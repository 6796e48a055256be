"""The caches that are not InnoDB's: whether one of them is large and hardly used. Pure; the caches
and their thresholds: ``[cache]`` and ``[[caches]]`` of verdicts.toml.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dballoc.experiment.durations_and_sizes import parse_duration, parse_size
from dballoc.explain.attribution.server_caches import LINKS
from dballoc.explain.verdicts.verdict import Case, Verdict, sum_owned
from dballoc.numbers import duration, number, percent, with_unit

_MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class _Usage:
    """Of a cache: ``resident``, ``configured`` and ``used`` bytes, with what lies beside its
    blocks in ``resident``; ``requests`` a second since the server started, ``uptime`` seconds ago.
    """

    resident: int
    configured: int
    used: int
    requests: float
    uptime: float


def judge_caches(case: Case) -> Verdict | None:
    """Return the verdict on the largest of the caches; a problem goes before a larger cache that
    is none.
    """
    judged = [v for cache in case.limits["caches"] if (v := _judge_cache(case, cache))]
    return max(judged, key=lambda v: (v[1].level == "problem", v[0]))[1] if judged else None


def _judge_cache(case: Case, cache: Mapping[str, Any]) -> tuple[int, Verdict] | None:
    """Return the resident bytes of a cache and the verdict on it; None if it is small."""
    limits = case.limits["cache"]
    usage = _measure_usage(case, cache)
    if not case.exceeds(usage.resident, "cache"):
        return None
    unused = 1 - usage.used / usage.configured if usage.configured else 0.0
    evidence = [
        f"{with_unit(usage.resident)} resident ({percent(usage.resident / case.rss, 0)} of RSS), "
        f"{cache['setting']}={with_unit(usage.configured)}",
        f"{with_unit(usage.used)} in use, {percent(unused, 0)} unused",
        f"{number(usage.requests)} requests a second since the start",
        f"it serves only {cache['of']}",
    ]
    headline = (
        f"The {cache['owner']} has {with_unit(usage.resident)}, "
        f"{percent(usage.resident / case.rss, 0)} of RSS"
    )
    faults = []
    if usage.requests < limits["idle"]:
        faults.append("hardly anybody uses it")
    if unused >= limits["unused"]:
        faults.append("most of it is unused")
    young = usage.uptime < parse_duration(limits["uptime"])
    if not faults or young or not usage.configured:
        if faults and young:
            evidence.append(f"up for {duration(usage.uptime)} only: too early to judge its use")
        return usage.resident, Verdict(
            key="cache", level="notice", headline=headline, evidence=evidence
        )
    return usage.resident, Verdict(
        key="cache",
        level="problem",
        headline=f"{headline}, and {' and '.join(faults)}",
        evidence=evidence,
        remedies=[_advise(cache, usage, limits)],
    )


def _measure_usage(case: Case, cache: Mapping[str, Any]) -> _Usage:
    figures = case.evidence.figures
    configured = figures.get(cache["setting"], 0)
    unused = figures.get(cache["unused"], 0) * (
        figures.get(cache["block"], 0) if "block" in cache else 1
    )
    uptime = figures.get("uptime", 0)
    # Of the variable's bytes a share is for blocks, the rest for what leads to them.
    free = min(configured, int(unused / cache["usable"]))
    return _Usage(
        # MariaDB's links and hash of a cache are a line of their own; they shrink with it.
        resident=sum_owned(case.ledger, cache["owner"], f"{cache['owner']}{LINKS}"),
        configured=configured,
        used=configured - free,
        requests=figures.get(cache["requests"], 0) / max(1, uptime),
        uptime=uptime,
    )


def _advise(cache: Mapping[str, Any], usage: _Usage, limits: Mapping[str, Any]) -> str:
    """Return the smallest size that keeps what is in use, with a margin; no size at all where that
    is hardly smaller than what it has.
    """
    wanted = -(-int(usage.used * (1 + limits["used_margin"])) // _MIB) * _MIB
    size = max(wanted, parse_size(cache["small"]))
    if size > (1 - limits["gain"]) * usage.configured:
        return (
            f"{with_unit(usage.used)} of {cache['setting']} are in use; it costs reads of "
            f"{cache['of']} from disk to make it smaller, {number(usage.requests)} a second at "
            "most by what was asked so far: decide by that"
        )
    how = (
        f"SET GLOBAL {cache['setting']} = {size}; and in my.cnf"
        if cache["dynamic"]
        else f"{cache['setting']} = {size} in my.cnf (restart)"
    )
    return f"{how}: {with_unit(usage.used)} are in use; it costs {cache['cost']}"
