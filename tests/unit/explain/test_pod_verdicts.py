"""Verdicts of a server in a cgroup: its limit, the largest pool that is safe, and a malloc that
counts CPUs which the server may not use.
"""

import re
from dataclasses import replace
from typing import Any

import pytest
from example_explanations import BOUNDS, EVIDENCE, FIGURES, MIB, judged, look
from hypothesis import given
from hypothesis import strategies as st

from dballoc.catalogue import verdicts as limits
from dballoc.explain.output import openmetrics
from dballoc.explain.verdicts.cgroup_limit import SafePool, estimate_safe_pool
from dballoc.explain.verdicts.verdict import MemoryVerdict
from dballoc.host.resources.cgroup_memory import CgroupMemory
from dballoc.host.resources.process_limits import ProcessLimits
from dballoc.process.heaps.allocator_statistics import HELD

GIB = 1 << 30
POOL = {
    "innodb_buffer_pool_size": 800 * MIB,
    "innodb_buffer_pool_pages_free": 1000,
    "innodb_buffer_pool_chunk_size": 8 * MIB,
    "max_used_connections": 60,
}


def cgroup(working_set: int, limit: int | None = GIB, **more: Any) -> CgroupMemory:
    return CgroupMemory(
        name="/pod",
        limit=limit,
        high=more.pop("high", None),
        charged=working_set + 100 * MIB,
        inactive_file=100 * MIB,
        **more,
    )


def judge(key: str, sizes: dict[str, float] | None = None, **evidence: Any) -> MemoryVerdict | None:
    figures = FIGURES | POOL | evidence.pop("figures", {})
    verdicts = look(sizes, figures=figures, **evidence).verdicts
    return next((v for v in verdicts if v.key == key), None)


def test_the_bound_is_named_and_no_pool_is_safe_beyond_the_machine() -> None:
    near = cgroup(950 * MIB)
    high = cgroup(950 * MIB, limit=8 * GIB, high=GIB)
    narrow = cgroup(950 * MIB, limit=GIB + MIB, high=GIB)
    beyond = cgroup(750 * MIB)
    pools, remedies, headlines = [], [], []
    for group, memory in (
        (near, 8 * GIB),
        (high, 8 * GIB),
        (beyond, 768 * MIB),
        (near, 0),
        (narrow, 8 * GIB),
        (near, GIB + MIB),
    ):
        verdict = judge("limit", cgroup=group, machine_memory=memory)
        assert verdict
        headlines.append(verdict.headline)
        [pool] = [text for text in verdict.evidence if "is safe here" in text]
        pools.append(pool)
        remedies.append(" ".join(verdict.remedies))
    assert "(estimate: limit 1.00 GiB − " in pools[0]
    assert "(estimate: memory.high 1.00 GiB − " in pools[1]
    assert "(estimate: the machine's memory 768 MiB − " in pools[2]
    assert pools[3] == pools[0]
    assert "raise the limit to about" in remedies[0]
    assert "raise memory.high to about" in remedies[1]
    assert "in a pod the kubelet sets both" in remedies[1]
    assert "raise the machine's memory to about" in remedies[2]
    assert "raise the limit" not in remedies[2]
    assert headlines[2] == "The machine's memory is near: working set 750 MiB of 768 MiB"
    assert "raise memory.high and the limit to about" in remedies[4]
    assert "and it has 1.00 GiB in all" in remedies[5]
    assert "in all" not in remedies[0]


@pytest.mark.parametrize(
    ("group", "level", "words"),
    [
        (cgroup(500 * MIB), "fine", "Within its cgroup: working set 500 MiB of 1.00 GiB"),
        (cgroup(850 * MIB), "notice", "not far"),
        (cgroup(950 * MIB), "problem", "limit is near: working set 950 MiB of 1.00 GiB"),
        (cgroup(500 * MIB, events={"oom_kill": 2}), "notice", "has killed 2 processes"),
        (cgroup(850 * MIB, events={"oom_kill": 1}), "problem", "has killed 1 process of"),
        (cgroup(500 * MIB, pressure={"full avg60": 4.5}), "problem", "Slowed down for memory"),
        (cgroup(480 * MIB, high=500 * MIB), "problem", "working set 480 MiB of 500 MiB"),
    ],
)
def test_the_limit_is_judged_by_the_working_set(
    group: CgroupMemory, level: str, words: str
) -> None:
    verdict = judge("limit", cgroup=group)
    assert verdict
    assert verdict.level == level
    assert words in verdict.headline


def test_a_peak_since_flush_status_is_said_to_be_that() -> None:
    """FLUSH STATUS sets Max_used_connections to those that are there."""
    for figures, words in (
        ({"uptime_since_flush_status": 86400}, "for 60 connections at work − margin"),
        (
            {"uptime_since_flush_status": 300},
            "60 connections at work, the most since FLUSH STATUS 5 min ago −",
        ),
    ):
        verdict = judge("limit", cgroup=cgroup(500 * MIB), figures=figures)
        assert verdict
        assert any(words in text for text in verdict.evidence), verdict.evidence


@pytest.mark.parametrize(("limit", "used"), [(4 * GIB, 900 * MIB), (400 * MIB, 250 * MIB)])
def test_the_printed_parts_of_a_safe_pool_add_up(limit: int, used: int) -> None:
    verdict = judge("limit", cgroup=cgroup(used, limit=limit))
    assert verdict
    [text] = [each for each in verdict.evidence if "is safe here" in each]
    pool, formula = text.split("(estimate: ")
    sizes = [
        float(number) * {"KiB": 2**-10, "MiB": 1, "GiB": 1024}[unit]
        for number, unit in re.findall(r"([\d.]+) ([KMG]iB)", formula.replace("none", "0 MiB"))
    ]
    has_overhead = "its own descriptors" in formula
    assert has_overhead == (limit == 4 * GIB)
    parts = sizes[: 5 if has_overhead else 4]
    unit = sizes[-1]
    total = max(0.0, parts[0] - sum(parts[1:]))
    match = re.search(r"about (?:([\d.]+) ([MG])iB|none)", pool)
    assert match, pool
    printed = float(match[1]) * (1024 if match[2] == "G" else 1) if match[1] else 0.0
    # Each size in GiB is printed to 10 MiB.
    assert -unit - 15 <= printed - total <= 15, text


def test_without_a_limit_nothing_is_said_of_it() -> None:
    assert judge("limit") is None
    assert judge("limit", cgroup=cgroup(500 * MIB, limit=None)) is None


def test_page_cache_that_was_not_used_lately_does_not_count() -> None:
    """An OOM kill does not come from what the kernel can take back."""
    full_of_cache = replace(cgroup(0), charged=GIB, inactive_file=700 * MIB)
    verdict = judge("limit", cgroup=full_of_cache)
    assert verdict
    assert verdict.level == "fine"


def test_what_was_met_and_waited_for_is_evidence() -> None:
    events, pressure = {"high": 3, "max": 1, "oom_kill": 0}, {"full avg60": 0.25}
    verdict = judge("limit", cgroup=cgroup(500 * MIB, events=events, pressure=pressure))
    assert verdict
    evidence = "; ".join(verdict.evidence)
    assert "met memory.high 3 times and the limit 1 time" in evidence
    assert "waited for memory 0.250 % of the last minute" in evidence


def estimate(working_set: int, **figures: int) -> SafePool:
    known = replace(EVIDENCE, figures=FIGURES | POOL | figures, cgroup=cgroup(working_set))
    pool = estimate_safe_pool(known, BOUNDS, look().ledger, limits())
    assert pool
    return pool


def test_the_safe_pool_is_what_its_parts_leave() -> None:
    # 50,200 pages of 16 KiB are in use; 60 connections may work, 30 are there.
    pool = estimate(900 * MIB)
    assert pool.filled == 50_200 * 16384
    assert pool.beside == 900 * MIB - pool.filled
    assert pool.sessions == 60 * (BOUNDS.connection + BOUNDS.statement) - 30 * BOUNDS.connection
    left = GIB - pool.beside - pool.sessions - pool.margin
    assert pool.pool == max(0, left) // (8 * MIB) * 8 * MIB
    assert with_parts(pool)


def test_pages_that_the_pool_has_freed_are_not_beside_it() -> None:
    known = replace(EVIDENCE, figures=FIGURES | POOL, cgroup=cgroup(900 * MIB))
    ledger = look().ledger
    pool = replace(ledger.lines[0], owner="InnoDB buffer pool")
    told = estimate_safe_pool(known, BOUNDS, replace(ledger, lines=[pool]), limits())
    assert told
    assert told.beside == 900 * MIB - pool.resident


def test_a_safe_pool_has_whole_chunks_in_every_instance() -> None:
    """The server rounds up whatever has not: above what is safe."""
    figures = {
        "innodb_buffer_pool_pages_free": 40_000,
        "max_used_connections": 1,
        "threads_connected": 1,
    }
    one, eight = (
        estimate(300 * MIB, innodb_buffer_pool_instances=n, **figures).pool for n in (1, 8)
    )
    assert 0 < eight <= one
    assert eight % (64 * MIB) == 0
    assert one % (64 * MIB) != 0


def with_parts(pool: SafePool) -> bool:
    return all(word in pool.describe() for word in ("estimate", "beside", "margin", "60 connec"))


@given(st.integers(0, 3 * GIB), st.integers(0, 51_200), st.integers(0, 500))
def test_a_safe_pool_fits_its_own_limit(working_set: int, free: int, peak: int) -> None:
    pool = estimate(working_set, innodb_buffer_pool_pages_free=free, max_used_connections=peak)
    assert pool.pool >= 0
    if pool.pool:
        assert pool.pool + pool.beside + pool.sessions + pool.margin <= pool.limit
    needed = pool.needed_limit
    assert needed * 0.9 >= (pool.beside + pool.sessions + pool.configured) * 0.999


def test_no_safe_pool_is_told_where_the_working_set_may_lack_the_pool() -> None:
    small = look(figures=FIGURES | POOL, cgroup=cgroup(850 * MIB))
    beside = small.ledger.beside | {"hugetlb": 780 * MIB}
    huge = replace(small, ledger=replace(small.ledger, beside=beside))
    texts = []
    for explanation in (small, huge):
        [limit] = [verdict for verdict in judged([explanation]) if verdict.key == "limit"]
        texts.append("; ".join([*limit.evidence, *limit.remedies]))
    assert "largest buffer pool that is safe here: about" in texts[0]
    assert "is safe here" not in texts[1]
    assert "780 MiB in hugetlb pages" in texts[1]
    assert "innodb_buffer_pool_size" not in texts[1]
    assert "raise the limit" in texts[1]
    assert [
        "dballoc_pool_bytes" in openmetrics.render_openmetrics(each) for each in (small, huge)
    ] == [True, False]


def test_no_smaller_pool_is_advised_than_is_in_use() -> None:
    used_up = judge("limit", cgroup=cgroup(980 * MIB))
    assert used_up
    assert not any("SET GLOBAL" in remedy for remedy in used_up.remedies)
    assert "raise the limit to about" in used_up.remedies[0]
    assert "below what the pool has in use" in used_up.remedies[1]


def test_a_pool_with_room_to_spare_may_shrink_to_the_safe_size() -> None:
    figures = {
        "innodb_buffer_pool_size": 900 * MIB,
        "innodb_buffer_pool_pages_total": 57_600,
        "innodb_buffer_pool_pages_free": 57_600 - 6_400,
        "max_used_connections": 1,
        "threads_connected": 1,
    }
    # 100 MiB of the pool are in use; 400 of the working set are something else.
    verdict = judge("limit", cgroup=cgroup(500 * MIB, events={"oom_kill": 1}), figures=figures)
    assert verdict
    assert verdict.level == "notice"
    [shrink, raised] = verdict.remedies
    size = int(shrink.split(" = ")[1].split(";")[0])
    assert 1.05 * 100 * MIB <= size < 900 * MIB
    assert "raise the limit" in raised


@pytest.mark.parametrize(
    ("malloc", "online", "cpus", "words"),
    [
        ("glibc", 64, ProcessLimits(64, 4.0, None), ["for 64 CPUs, the server may use 4: up to 512 arenas", "MALLOC_ARENA_MAX=32 ", "16 arenas now, with 9.00 MiB free"]),
        ("glibc", 64, ProcessLimits(4, None, None), ["up to 512 arenas"]),
        ("jemalloc", 64, ProcessLimits(64, 3.5, None), ["up to 256 arenas", "narenas:16 in MALLOC_CONF, beside"]),
        ("google-tcmalloc", 64, ProcessLimits(64, 4.0, None), ["up to 64 caches of CPUs", "a CPU set of 4 CPUs"]),
        # It counts the CPUs of its affinity, which a CPU set narrows.
        ("jemalloc", 64, ProcessLimits(4, None, None), []),
        ("glibc", 8, ProcessLimits(8, 6.0, None), []),
        ("glibc", 64, None, []),
        ("mimalloc", 64, ProcessLimits(64, 4.0, None), []),
    ],
)  # fmt: skip
def test_a_malloc_that_counts_cpus_of_others(
    malloc: str, online: int, cpus: ProcessLimits | None, words: list[str]
) -> None:
    verdict = judge("arenas", malloc=malloc, online_cpus=online, cpus=cpus)
    assert (verdict is not None) == bool(words)
    if verdict:
        text = " ".join([verdict.headline, *verdict.evidence, *verdict.remedies])
        assert [word for word in words if word not in text] == []
        assert verdict.level == "notice"


@pytest.mark.parametrize(
    "setting",
    [("MALLOC_ARENA_MAX", "4"), ("GLIBC_TUNABLES", "glibc.malloc.arena_max=2:glibc.rtld.nns=1")],
)
def test_arenas_that_somebody_has_set_are_left_alone(setting: tuple[str, str]) -> None:
    few = ProcessLimits(64, 2.0, None)
    assert judge("arenas", online_cpus=64, cpus=few)
    assert judge("arenas", online_cpus=64, cpus=few, settings=[setting]) is None


def test_arenas_that_hold_much_are_a_problem() -> None:
    few = ProcessLimits(64, 1.0, None)
    verdict = judge("arenas", {HELD: 400}, online_cpus=64, cpus=few, worst=50 * MIB)
    assert verdict
    assert verdict.level == "problem"
    assert "16 arenas now, with 400 MiB free, the worst 50.0 MiB" in verdict.evidence


def test_one_number_of_arenas_is_advised() -> None:
    few = ProcessLimits(64, 1.0, None)
    for cpus, kept in ((few, False), (ProcessLimits(64, None, None), True)):
        verdict = judge("fragmentation", {HELD: 800}, online_cpus=64, cpus=cpus, malloc="glibc")
        assert verdict
        assert any("MALLOC_ARENA_MAX=2" in text for text in verdict.remedies) is kept
        assert (judge("arenas", {HELD: 800}, online_cpus=64, cpus=cpus) is None) is kept
