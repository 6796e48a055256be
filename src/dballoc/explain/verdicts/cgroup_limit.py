"""Whether the cgroup's memory limit is near, by the working set as the kubelet counts it. Pure;
thresholds: ``[limit]`` of verdicts.toml.
"""

from collections.abc import Mapping
from typing import Any

from dballoc.explain.verdicts.evidence import Evidence
from dballoc.explain.verdicts.safe_pool import (
    MACHINE,
    BoundBy,
    SafePool,
    estimate_safe_pool,
    find_bound,
)
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
    safe = estimate_safe_pool(case.evidence, case.bounds, case.ledger, case.limits)
    bound, bound_by = find_bound(cgroup, case.evidence.machine_memory)
    level, headline = _judge_level(cgroup, bound, bound_by, case.limits["limit"])
    return Verdict(
        key="limit",
        level=level,
        headline=headline,
        evidence=[*_list_evidence(cgroup, bound, safe), *_list_uncounted(hugetlb)],
        remedies=_list_remedies(case.evidence, safe, case.limits)
        if level in ("problem", "notice")
        else [],
        bytes=cgroup.working_set,
    )


def _judge_level(
    cgroup: CgroupMemory, bound: int, bound_by: BoundBy, limits: Mapping[str, Any]
) -> tuple[Level, str]:
    whose = "The machine's memory" if bound_by == MACHINE else "The cgroup's limit"
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
        return "problem", f"{whose} is near: {sizes}"
    if share >= limits["watch"]:
        return "notice", f"{whose} is not far: {sizes}"
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


def _advise_more(evidence: Evidence, bound_by: BoundBy, size: int = 0) -> str:
    """Return what gives the server more room, to about so many bytes; 0: not known how many."""
    to = f" to about {with_unit(size)}" if size else ""
    limit = evidence.cgroup.limit if evidence.cgroup else None
    if bound_by == MACHINE:
        return f"raise the machine's memory{to}, or move what else runs on it"
    if bound_by == "memory.high":
        name = "memory.high and the limit" if limit and size > limit else "memory.high"
        pod = "in a pod the kubelet sets both from resources.limits.memory"
    else:
        name, pod = "the limit", "in a pod: resources.limits.memory"
    words = f"raise {name}{to} ({pod}); it costs the node that memory"
    if evidence.machine_memory and size > evidence.machine_memory:
        words += f", and it has {with_unit(evidence.machine_memory)} in all"
    return words


def _list_remedies(
    evidence: Evidence, safe: SafePool | None, limits: Mapping[str, Any]
) -> list[str]:
    """Return what to do: more room; a smaller pool only where it is not below what is in use."""
    if safe is None:
        assert evidence.cgroup
        _, bound_by = find_bound(evidence.cgroup, evidence.machine_memory)
        return [_advise_more(evidence, bound_by)]
    if safe.pool >= safe.configured:
        return []
    raised = _advise_more(evidence, safe.bound_by, safe.needed_limit)
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
