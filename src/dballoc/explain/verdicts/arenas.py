"""Whether malloc sized itself for CPUs that the server may not use: allocators count the machine's,
and a CPU limit of a cgroup hides none. Pure; what each malloc counts: ``[by_cpus]`` of
verdicts.toml.
"""

from dballoc.explain.verdicts.verdict import Case, Verdict, sum_owned
from dballoc.numbers import count, with_unit
from dballoc.process_memory.heaps.allocator_statistics import HELD


def judge_arenas(case: Case) -> Verdict | None:
    """Judge what malloc counted against what the server may use; None where both agree, where its
    settings say how many there are, or where nothing is known.
    """
    now = case.evidence
    sizing = case.limits["by_cpus"].get(now.malloc)
    if sizing is None or now.cpus is None or not now.online_cpus:
        return None
    if now.sets_any(sizing["names"]):
        return None
    counted = now.online_cpus if sizing["counts"] == "online" else now.cpus.cpus
    allowed = now.cpus.cpu_count
    if counted < case.limits["arenas"]["excess"] * allowed:
        return None
    most = sizing["each"] * counted
    fitting = 1 if allowed == 1 and sizing.get("one") else sizing["each"] * allowed
    evidence = []
    held = sum_owned(case.ledger, HELD)
    if now.arenas:
        worst = f", the worst {with_unit(now.worst)}" if now.worst else ""
        evidence.append(f"{count(now.arenas, 'arena')} now, with {with_unit(held)} free{worst}")
    evidence.append("a CPU limit hides no CPUs from malloc")
    bloated = now.arenas > fitting and case.exceeds(held, "held")
    advice = sizing["advice"].format(count=fitting, cpus=count(allowed, "CPU"))
    return Verdict(
        key="arenas",
        level="problem" if bloated else "notice",
        headline=f"{case.ledger.malloc} sized itself for {counted} CPUs, the server may use "
        f"{allowed}: up to {most} {sizing['of']}",
        evidence=evidence,
        remedies=[f"{advice}; it costs {sizing['costs']}"],
        bytes=held if bloated else 0,
    )
