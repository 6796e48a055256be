"""Whether malloc holds much memory that is free, and what gives it back. Pure; thresholds and
settings: ``[held]``, ``[trim]`` and ``[remedies]`` of verdicts.toml. docs/advice.md has the servers
that each advice helped.
"""

from dballoc.explain.verdicts.verdict import Case, MemoryVerdict
from dballoc.ground.numbers import count, percent, with_unit
from dballoc.process.heaps.allocator_statistics import HELD


def judge_arenas(case: Case) -> MemoryVerdict | None:
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
    held = case.ledger.sum_resident(HELD)
    if now.arenas:
        worst = f", the worst {with_unit(now.worst)}" if now.worst else ""
        evidence.append(f"{count(now.arenas, 'arena')} now, with {with_unit(held)} free{worst}")
    evidence.append("a CPU limit hides no CPUs from malloc")
    bloated = now.arenas > fitting and case.exceeds(held, "held")
    advice = sizing["advice"].format(count=fitting, cpus=count(allowed, "CPU"))
    return MemoryVerdict(
        key="arenas",
        level="problem" if bloated else "notice",
        headline=f"{case.ledger.malloc} sized itself for {counted} CPUs, the server may use "
        f"{allowed}: up to {most} {sizing['of']}",
        evidence=evidence,
        remedies=[f"{advice}; it costs {sizing['costs']}"],
        bytes=held if bloated else 0,
    )


_BENCH = (
    "try it first: on the server's own host dballoc bench --like PID --allocators "
    "glibc,jemalloc,tcmalloc,mimalloc --print > like-it.toml, then dballoc bench like-it.toml; "
    "it costs this server nothing if that runs on another host"
)


def judge_held(case: Case) -> MemoryVerdict | None:
    """Judge whether malloc holds much memory that is free."""
    held, heap = (
        case.ledger.sum_resident(HELD),
        sum(line.resident for line in case.ledger.lines if line.group == "heap"),
    )
    if not heap or held < case.limits["held"]["heap"] * heap or not case.exceeds(held, "held"):
        return None
    now = case.evidence
    evidence = [f"free but held {with_unit(held)} of {with_unit(heap)} of heap"]
    if now.arenas:
        evidence.append(f"{count(now.arenas, 'arena')}; the worst holds {with_unit(now.worst)}")
    return MemoryVerdict(
        key="fragmentation",
        level="problem",
        headline=f"Fragmentation: malloc holds {with_unit(held)} that nobody uses, "
        f"{percent(held / heap, 0)} of the heap",
        evidence=evidence,
        remedies=[*_advise_trim(case, held), *list_settings(case, "remedies", held), _BENCH],
        bytes=held,
    )


def _advise_trim(case: Case, held: int) -> list[str]:
    """Advise to have malloc give back its free pages, where it can and that is worth it: it needs
    no restart.
    """
    limits, now = case.limits["trim"], case.evidence
    gain = held if now.trimmable is None else min(held, now.trimmable)
    if now.malloc not in limits["mallocs"] or gain < limits["gain"] * held:
        return []
    about = "up to" if now.trimmable is None else "about"
    return [
        f"dballoc explain --trim (after --install-function) gives back {about} {with_unit(gain)} "
        "at once, without a restart; it costs a library more in the server until "
        "--remove-function, and page faults where that memory is needed again"
    ]


def list_settings(case: Case, table: str, size: int | None = None) -> list[str]:
    """Return what a table of remedies has for this malloc, with what it gives back of ``size``
    bytes; nothing where that would not help, somebody has set it already, or the verdict on arenas
    gives that setting another value.
    """
    now = case.evidence
    remedy = case.limits[table].get(now.malloc)
    if remedy is None or now.sets_any(remedy["names"]):
        return []
    sizing = case.limits["by_cpus"].get(now.malloc, {})
    if set(remedy["names"]) & set(sizing.get("names", [])) and judge_arenas(case):
        return []
    # Where one arena has most of what is free, fewer arenas have no less.
    if size is not None and now.worst > remedy.get("worst", 1) * size:
        return []
    gain = "" if size is None else f", up to {with_unit(size - now.worst)} of it"
    return [f"{remedy['do']}{gain}; it costs {remedy['costs']}"]
