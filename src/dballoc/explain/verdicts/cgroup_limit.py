"""Whether the cgroup's memory limit is near, by the working set as the kubelet counts it. Pure;
thresholds: ``[limit]`` of verdicts.toml.
"""

from collections.abc import Mapping
from typing import Any

from dballoc.explain.verdicts.safe_pool import BoundBy, SafePool, estimate_safe_pool
from dballoc.explain.verdicts.verdict import Case, Level, Verdict
from dballoc.host.resources.cgroup_memory import CgroupMemory
from dballoc.numbers import count, number, percent, with_unit

_FULL = "full avg60"


def judge_limit(case: Case) -> Verdict | None:
    """Judge the working set against the narrowest limit above the server; None without one."""
    cgroup = case.evidence.cgroup
    if cgroup is None or cgroup.bound is None or not cgroup.bound:
        return None
    hugetlb = case.ledger.hugetlb
    safe = estimate_safe_pool(case.evidence, case.bounds, hugetlb, case.limits)
    level, headline = _judge_level(cgroup, cgroup.bound, case.limits["limit"])
    return Verdict(
        key="limit",
        level=level,
        headline=headline,
        evidence=[*_list_evidence(cgroup, cgroup.bound, safe), *_list_uncounted(hugetlb)],
        remedies=_list_remedies(cgroup, safe, case.limits)
        if level in ("problem", "notice")
        else [],
    )


def _judge_level(cgroup: CgroupMemory, bound: int, limits: Mapping[str, Any]) -> tuple[Level, str]:
    share = cgroup.working_set / bound
    sizes = f"working set {with_unit(cgroup.working_set)} of {with_unit(bound)}"
    if kills := cgroup.events.get("oom_kill", 0):
        killed = count(kills, "process", "processes")
        return (
            "problem" if share >= limits["watch"] else "notice",
            f"The kernel has killed {killed} of this cgroup for memory; {sizes} now",
        )
    if cgroup.pressure.get(_FULL, 0.0) >= limits["pressure"]:
        return "problem", f"Slowed down for memory: {sizes} of the cgroup"
    if share >= limits["near"]:
        return "problem", f"The cgroup's limit is near: {sizes}"
    if share >= limits["watch"]:
        return "notice", f"The cgroup's limit is not far: {sizes}"
    return "fine", f"Within its cgroup: {sizes}"


def _list_evidence(cgroup: CgroupMemory, bound: int, safe: SafePool | None) -> list[str]:
    evidence = [
        f"{percent(cgroup.working_set / bound, 0)} as the kubelet counts it; page cache not used "
        f"lately, {with_unit(cgroup.inactive_file)}, comes on top"
    ]
    met = [
        f"{limit} {count(times, 'time')}"
        for event, limit in (("high", "memory.high"), ("max", "the limit"))
        if (times := cgroup.events.get(event, 0))
    ]
    if met:
        evidence.append(f"it has met {' and '.join(met)}, and memory was taken back")
    if (waited := cgroup.pressure.get(_FULL)) is not None and waited > 0:
        evidence.append(f"all its tasks waited for memory {number(waited)} % of the last minute")
    if safe:
        evidence.append(safe.describe())
    return evidence


def _list_uncounted(hugetlb: int) -> list[str]:
    """Return why no largest safe pool is estimated, where that is for hugetlb pages."""
    if not hugetlb:
        return []
    return [
        f"{with_unit(hugetlb)} in hugetlb pages (large_pages): they count here only where the "
        "cgroups are mounted with memory_hugetlb_accounting, so no largest safe pool is estimated"
    ]


def _advise_more(bound_by: BoundBy, size: int | None = None) -> str:
    """Return what gives the server more room, to about so many bytes."""
    to = "" if size is None else f" to about {with_unit(size)}"
    if bound_by == "the machine's memory":
        return f"give the machine more memory{to}, or move what else is on it"
    name = "memory.high" if bound_by == "memory.high" else "the limit"
    pod = (
        "in a pod the kubelet sets it from resources.limits.memory"
        if bound_by == "memory.high"
        else "in a pod: resources.limits.memory"
    )
    return f"raise {name}{to} ({pod}); it costs the node that memory"


def _list_remedies(
    cgroup: CgroupMemory, safe: SafePool | None, limits: Mapping[str, Any]
) -> list[str]:
    """Return what to do: more room; a smaller pool only where it is not below what is in use."""
    if safe is None:
        return [_advise_more("memory.high" if cgroup.is_bound_high else "limit")]
    if safe.pool >= safe.configured:
        return []
    raised = _advise_more(safe.bound_by, safe.needed_limit)
    least = int((1 + limits["safe_pool"]["used_margin"]) * safe.filled)
    if safe.pool and safe.pool >= least:
        kept = with_unit(safe.filled)
        return [
            f"SET GLOBAL innodb_buffer_pool_size = {safe.pool}; and in my.cnf: the pool uses {kept}"
            " and keeps it; it costs room to grow, and a moment's wait while it is resized",
            raised,
        ]
    return [
        raised,
        f"no smaller pool without harm: the safe size is {with_unit(least - safe.pool)} below what "
        "the pool has in use and a margin; it costs reads from disk for those pages",
    ]
