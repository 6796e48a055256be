"""Whether the cgroup's memory limit is near, by the working set as the kubelet counts it. Pure;
thresholds: ``[limit]`` of verdicts.toml.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dballoc.evidence.model import Evidence
from dballoc.evidence.sql.server_memory import POOL
from dballoc.explain.ledger.configuration_limits import Bounds
from dballoc.explain.ledger.ledger import Ledger
from dballoc.explain.verdicts.verdict import Case, Level, MemoryVerdict
from dballoc.ground.numbers import count, duration, number, percent, with_unit
from dballoc.host.resources.cgroup_memory import CgroupMemory

# A pool has a whole number of chunks in each instance: the server rounds other sizes up. Where it
# tells no chunks (MariaDB from 10.11.12 on), the pool is resized by whole mebibytes.
_CHUNK = 1 << 20

BoundBy = Literal["limit", "memory.high", "the machine's memory"]
MACHINE: BoundBy = "the machine's memory"


@dataclass(frozen=True, kw_only=True)
class SafePool:
    """Bytes. ``pool``: the estimate, 0 if nothing is left for one; ``configured`` and ``filled``:
    the pool as it is; ``limit``, ``beside``, ``sessions``, ``margin`` and ``overhead``: its parts;
    ``overhead_share``: of what the pool has more; ``unit``: what its size is a multiple of;
    ``bound_by``: what the limit is; ``connections``: of how many the sessions are, the most at once
    in the last ``counted`` seconds, if FLUSH STATUS has begun that count anew, else since the
    start.
    """

    pool: int
    configured: int
    filled: int
    limit: int
    beside: int
    sessions: int
    margin: int
    overhead: int
    overhead_share: float
    unit: int
    connections: int
    counted: int | None = None
    bound_by: BoundBy = "limit"

    @property
    def needed_limit(self) -> int:
        """The limit under which the pool as it is configured would be safe."""
        rest = self.beside + self.sessions + self.configured
        return rest * self.limit // (self.limit - self.margin)

    def describe(self) -> str:
        """Return the estimate with its parts, in words."""
        peak = count(self.connections, "connection")
        since = ""
        if self.counted is not None:
            since = f", the most since FLUSH STATUS {duration(self.counted)} ago"
        return (
            f"largest buffer pool that is safe here: about {with_unit(self.pool)} (estimate: "
            f"{self.bound_by} {with_unit(self.limit)} − {with_unit(self.beside)} beside the pool "
            f"now − {with_unit(self.sessions)} more for {peak} at work{since} − "
            f"margin {with_unit(self.margin)}{self._describe_overhead()}, rounded down to a "
            f"multiple of {with_unit(self.unit)})"
        )

    def _describe_overhead(self) -> str:
        if not self.overhead:
            return ""
        share = percent(self.overhead_share, 0)
        return (
            f" − {with_unit(self.overhead)} for its own descriptors, {share} of what it has more "
            f"than the {with_unit(self.configured)} of now"
        )


def find_bound(cgroup: CgroupMemory, machine_memory: int) -> tuple[int, BoundBy]:
    """Return what the server has at most, in bytes, and what sets that: a pod may be allowed more
    than its node has. ``machine_memory``: 0 if it is not known.
    """
    assert cgroup.bound is not None
    if 0 < machine_memory < cgroup.bound:
        return machine_memory, MACHINE
    return cgroup.bound, "memory.high" if cgroup.is_bound_high else "limit"


def estimate_safe_pool(
    evidence: Evidence, bounds: Bounds | None, ledger: Ledger, limits: Mapping[str, Any]
) -> SafePool | None:
    """Estimate it; None without a limit, without InnoDB's figures, or if the server has hugetlb
    pages that its working set may lack. ``limits``: verdicts.toml.

        safe pool = limit − beside − sessions − margin − overhead

    ``limit``: the cgroup's, its memory.high if that is lower, or the machine's memory if that
    is; ``beside``: the cgroup's working set without the pool's pages; ``sessions``: what
    connections would have more if all that were ever connected at once used one buffer of each
    kind; ``margin``: a share of the limit, for page cache and fragments; ``overhead``: what a
    pool that is larger than the one that was measured brings with it, descriptors, latches and
    hash, a share of what it has more. The result is rounded down to whole chunks.

    Where the server has hugetlb pages (``large_pages``) nothing is estimated: a pool in them
    lies outside the working set, and inside only where the cgroups are mounted with
    memory_hugetlb_accounting (the kernel's admin-guide/cgroup-v2.rst, Linux 6.6).
    """
    cgroup, figures, shares = evidence.cgroup, evidence.figures, limits["safe_pool"]
    configured = figures.get("innodb_buffer_pool_size", 0)
    if cgroup is None or cgroup.bound is None or not configured or bounds is None or ledger.hugetlb:
        return None
    page = figures.get("innodb_page_size", 0)
    total, free = (figures.get(f"innodb_buffer_pool_pages_{of}", 0) for of in ("total", "free"))
    filled = page * max(0, total - free)
    # Pages that the server has freed stay resident.
    beside = max(0, cgroup.working_set - max(filled, ledger.sum_resident(POOL)))
    peak = max(figures.get("max_used_connections", 0), figures.get("threads_connected", 0))
    in_use = figures.get("threads_connected", 0) * bounds.connection
    sessions = max(0, bounds.compute_working(peak) - in_use)
    limit, bound_by = find_bound(cgroup, evidence.machine_memory)
    margin = int(shares["margin"] * limit)
    spare = limit - beside - sessions - margin
    share = shares["overhead"]
    overhead = max(0, spare - configured) - int(max(0, spare - configured) / (1 + share))
    chunk = figures.get("innodb_buffer_pool_chunk_size", 0) or _CHUNK
    unit = chunk * max(1, figures.get("innodb_buffer_pool_instances", 1))
    return SafePool(
        pool=max(0, spare - overhead) // unit * unit,
        configured=configured,
        filled=filled,
        limit=limit,
        beside=beside,
        sessions=sessions,
        margin=margin,
        overhead=overhead,
        overhead_share=share,
        unit=unit,
        connections=peak,
        counted=evidence.counted_seconds if evidence.is_flushed else None,
        bound_by=bound_by,
    )


_FULL = "full avg60"


def judge_limit(case: Case) -> MemoryVerdict | None:
    """Judge the working set against the narrowest limit above the server; None without one."""
    cgroup = case.evidence.cgroup
    if cgroup is None or cgroup.bound is None or not cgroup.bound:
        return None
    hugetlb = case.ledger.hugetlb
    safe = estimate_safe_pool(case.evidence, case.bounds, case.ledger, case.limits)
    bound, bound_by = find_bound(cgroup, case.evidence.machine_memory)
    level, headline = _judge_level(cgroup, bound, bound_by, case.limits["limit"])
    return MemoryVerdict(
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
