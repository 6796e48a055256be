"""Verdicts: planted faults are named, a healthy server has none, and one look does not tell
a leak.
"""

from typing import Any

import numpy as np
import pytest
from example_explanations import KEYS, MIB, judged, look

from dballoc.catalogue import verdicts as limits
from dballoc.evidence.process.unwritten_huge_pages import HugePageSample
from dballoc.evidence.sql.server_memory import LOGS, SCHEMA
from dballoc.explain.explanation import Explanation
from dballoc.explain.ledger.ledger_line import LIVE
from dballoc.explain.verdicts.growth import estimate_growth
from dballoc.explain.verdicts.verdict import MemoryVerdict
from dballoc.explain.verdicts.verdicts import HELD
from dballoc.process.mapping_kind import MappingKind


def levels(found: list[MemoryVerdict]) -> dict[str, str]:
    return {v.key: v.level for v in found}


def text(found: list[MemoryVerdict], key: str) -> str:
    [verdict] = [v for v in found if v.key == key]
    return " ".join([verdict.headline, *verdict.evidence, *verdict.remedies])


def series(sizes: list[dict[str, float]], **evidence: list[Any]) -> list[Explanation]:
    """A look every 10 s; lists of evidence have a value for each."""
    return [
        look(s, taken=1e9 + 10 * i, **{k: v[i] for k, v in evidence.items()})
        for i, s in enumerate(sizes)
    ]


def noisy(seed: int, n: int, at: float, rise: float, noise: float) -> list[float]:
    draw = np.random.default_rng(seed)
    return [at + rise * i + float(draw.normal(0, noise)) for i in range(n)]


def test_a_healthy_server_has_no_problem_and_one_look_tells_no_leak() -> None:
    # The pool has most of it, as configured.
    assert levels(look().verdicts) == {"growth": "open", "owner": "fine"}
    assert "cannot tell" in text(look().verdicts, "growth")


@pytest.mark.parametrize(
    ("sizes", "evidence", "key", "level", "says"),
    [
        ({HELD: 400}, {"worst": 90 * MIB}, "fragmentation", "problem", ["400 MiB", "16 arenas; the worst holds 90.0 MiB", "MALLOC_ARENA_MAX=2"]),
        ({HELD: 400}, {"malloc": "jemalloc"}, "fragmentation", "problem", ["dirty_decay_ms"]),
        ({MappingKind.POOL: 250}, {"figures": {"innodb_page_size": 16384, "innodb_buffer_pool_pages_total": 51200, "innodb_buffer_pool_pages_free": 35840}},
         "pool", "notice", ["30 % full", "RSS can rise by 550 MiB more", "innodb_buffer_pool_size"]),
        ({"sessions": 260}, {"sessions": [("app", 20, 255 * MIB), ("root", 1, 5 * MIB)]}, "sessions", "problem",
         ["21 connections have 260 MiB", "app 255 MiB in 20", "renew its connections", "20.5 MiB"]),
        ({"sessions": 260}, {"sessions": [("app", 2, 260 * MIB)], "figures": {"prepared_stmt_count": 12000}}, "sessions", "problem",
         ["12,000 are open"]),
        ({}, {"huge": HugePageSample(300 * MIB, 1024, 614)}, "thp", "problem", ["180 MiB", "60 %", "madvise"]),
        ({KEYS: 122}, {"figures": {"key_buffer_size": 128 * MIB, "key_blocks_unused": 100, "key_cache_block_size": 1024, "uptime": 9000,
                                   "key_read_requests": 44}}, "cache", "problem", ["122 MiB", "hardly anybody uses", "128 MiB were in use at most"]),
        ({KEYS: 122}, {"figures": {"key_buffer_size": 128 * MIB, "key_blocks_unused": 100000, "key_cache_block_size": 1024, "uptime": 9000,
                                   "key_read_requests": 10**8}}, "cache", "problem", ["93 % unused", "SET GLOBAL key_buffer_size = "]),
        ({KEYS: 122}, {}, "cache", "notice", ["key_buffer_size=128 MiB"]),
        ({SCHEMA: 300}, {}, "performance_schema", "notice", ["300 MiB", "performance_schema=OFF"]),
        ({LIVE: 600}, {}, "unowned", "notice", ["instruments from the start"]),
        ({LIVE: 0, HELD: 0, MappingKind.MALLOC: 900}, {"malloc": "jemalloc"}, "own_books", "open", ["from outside they cannot be told apart"]),
    ],
)  # fmt: skip
def test_a_planted_fault_is_named(
    sizes: dict[str, float], evidence: dict[str, Any], key: str, level: str, says: list[str]
) -> None:
    found = look(sizes, **evidence).verdicts
    assert levels(found)[key] == level
    assert [word for word in says if word not in text(found, key)] == []
    problems = {v.key for v in found if v.level == "problem"}
    assert problems <= {key}, "a fault is blamed on another one"


@pytest.mark.parametrize("sizes", [{HELD: 20}, {SCHEMA: 30}, {KEYS: 10}, {"sessions": 30}])
def test_what_is_small_is_not_mentioned(sizes: dict[str, float]) -> None:
    assert set(levels(look(sizes).verdicts)) == {"growth", "owner"}


def test_huge_pages_that_are_used_are_no_bloat() -> None:
    assert "thp" not in levels(look(huge=HugePageSample(300 * MIB, 1024, 60)).verdicts)
    assert "thp" not in levels(look(huge=HugePageSample(8 * MIB, 1024, 1024)).verdicts)


def test_unlabelled_heap_that_rises_steadily_is_a_leak() -> None:
    found = judged(series([{LIVE: x} for x in noisy(1, 40, 40, 1.0, 1.0)]))
    assert levels(found)["leak"] == "problem"
    assert "MiB a minute" in text(found, "leak")
    assert "--probe heap" in text(found, "leak")
    assert levels(found)["growth"] == "notice"


def test_a_heap_that_rises_ever_slower_warms_up() -> None:
    found = judged(series([{LIVE: 200 - 160 * 0.97**i} for i in range(60)]))
    assert levels(found)["leak"] == "open"
    assert "ever slower" in text(found, "leak")


def test_a_heap_that_rises_with_the_connections_is_no_leak() -> None:
    sessions = [[("app", 10 + i, MIB)] for i in range(40)]
    found = judged(series([{LIVE: 40 + x} for x in range(40)], sessions=sessions))
    assert levels(found)["leak"] == "open"
    assert "connections: 10 at first, 49 now" in text(found, "leak")


def test_sessions_that_grow_on_the_same_connections_leak() -> None:
    sessions = [[("app", 10, int((4 + 0.5 * i) * MIB))] for i in range(40)]
    found = judged(series([{"sessions": 4 + 0.5 * i} for i in range(40)], sessions=sessions))
    assert levels(found)["sessions"] == "problem"
    assert "Session leak" in text(found, "sessions")
    assert "leak" not in levels(found)
    more = [[("app", 10 + i, int((4 + 0.5 * i) * MIB))] for i in range(40)]
    assert "sessions" not in levels(
        judged(series([{"sessions": 4 + 0.5 * i} for i in range(40)], sessions=more))
    )


def test_a_pool_that_fills_is_why_rss_grows() -> None:
    figures = [
        {
            "innodb_page_size": 16384,
            "innodb_buffer_pool_pages_total": 51200,
            "innodb_buffer_pool_pages_free": 50000 - 640 * i,
        }
        for i in range(40)
    ]
    found = judged(series([{MappingKind.POOL: 100 + 10 * i} for i in range(40)], figures=figures))
    assert "that is why RSS grows" in text(found, "pool")
    assert "leak" not in levels(found)
    assert "buffer pool and log buffers" in text(found, "growth")


def test_pages_that_the_pool_has_freed_stay_resident() -> None:
    """As after a table was dropped."""
    figures = {
        "innodb_page_size": 16384,
        "innodb_buffer_pool_pages_total": 51200,
        "innodb_buffer_pool_pages_free": 10000,
    }
    said = text(look({MappingKind.POOL: 720}, figures=figures).verdicts, "pool")
    assert "80 % full, RSS can rise by 80.0 MiB more" in said
    assert "in use 644 MiB of 800 MiB; resident 720 MiB of 800 MiB" in said
    assert "pool" not in levels(look({MappingKind.POOL: 799}, figures=figures).verdicts)


def test_what_does_not_grow_is_steady_or_bounded() -> None:
    assert "Steady" in text(judged(series([{} for _ in range(40)])), "growth")
    found = judged(series([{LIVE: x} for x in noisy(2, 40, 60, 0, 3)]))
    assert "No growth shown" in text(found, "growth")
    assert "leak" not in levels(found)


def rates(make: Any, tries: int) -> float:
    """How often growth is said to be shown."""
    found = [
        estimate_growth([10.0 * i for i in range(60)], make(np.random.default_rng(seed)), 8, 6)
        for seed in range(tries)
    ]
    return sum(g is not None and g.grows for g in found) / tries


def test_chance_is_not_called_growth() -> None:
    # The nominal rate is 2.5 %; the bounds are 3 standard errors of 1,000 tries above it.
    assert rates(lambda draw: np.cumsum(draw.normal(0, 1, 60)), 1000) < 0.045
    assert rates(lambda draw: draw.normal(0, 1, 60), 1000) < 0.045


def test_a_leak_within_noise_is_found_with_the_truth_inside_the_interval() -> None:
    rise, inside, shown = 0.025, 0, 0
    for seed in range(300):
        draw = np.random.default_rng(seed)
        found = estimate_growth(
            [float(i) for i in range(120)],
            [rise * i + float(draw.normal(0, 0.5)) for i in range(120)],
            8,
            6,
        )
        assert found
        inside += found.low <= rise <= found.high
        shown += found.grows
    assert inside >= 0.95 * 300
    assert shown >= 0.9 * 300


def test_too_few_looks_tell_nothing() -> None:
    assert estimate_growth([0, 1, 2, 3, 4], [1, 2, 3, 4, 5], 8, limits()["growth"]["looks"]) is None


def test_the_answer_is_one_sentence() -> None:
    assert look().answer.startswith(
        "Most of the 987 MiB is buffer pool and log buffers (81 %); then performance_schema itself (6 %)"
    )
    assert look({MappingKind.POOL: 60}).answer.startswith(
        "No owner has most of the 247 MiB: the largest are"
    )


def order(found: list[MemoryVerdict]) -> list[str]:
    return [
        v.headline.partition(":")[0].partition(",")[0]
        for v in found
        if v.bytes and v.level == "notice"
    ]


def test_of_one_level_who_has_more_is_said_first() -> None:
    """As MariaDB 10.11 with 12 large network buffers, and MySQL 9.7 with a large key cache."""
    held = look({MappingKind.POOL: 30, HELD: 82, LIVE: 166, SCHEMA: 100}).verdicts
    assert order(held) == [
        "Nobody claims 188 MiB",
        "performance_schema itself has 100 MiB",
        "Free but held",
    ]
    keys = look(
        {MappingKind.POOL: 30, KEYS: 119, "temporary tables": 70, LIVE: 0, SCHEMA: 30}
    ).verdicts
    assert order(keys) == ["The key cache (MyISAM) has 119 MiB", "Temporary tables"]
    assert all(v.bytes > 0 for v in (*held, *keys) if v.level == "notice" and v.key != "pool")


def test_a_smaller_problem_is_said_before_a_larger_notice() -> None:
    sessions = [("app", 20, 110 * MIB)]
    found = look({MappingKind.POOL: 30, "sessions": 110, LIVE: 145}, sessions=sessions).verdicts
    assert [v.key for v in found][:2] == ["sessions", "unowned"]


def test_log_buffers_as_configured_are_said_last() -> None:
    found = look({MappingKind.POOL: 30, LOGS: 120, "table cache": 60}).verdicts
    assert [v.headline.partition(":")[0] for v in found if v.key == "owner"] == [
        "Table cache",
        "InnoDB log buffers",
    ]
    assert "owner" not in levels(look({MappingKind.POOL: 30, LOGS: 64, LIVE: 200}).verdicts)


def test_key_caches_beyond_the_default_one_are_not_its_fault() -> None:
    """MySQL 9.7 counts 119 MiB of key caches where the default one has 8 MiB."""
    figures = {
        "key_buffer_size": 8 * MIB,
        "key_blocks_unused": 7000,
        "key_cache_block_size": 1024,
        "uptime": 9000,
    }
    [found] = [v for v in look({KEYS: 119}, figures=figures).verdicts if v.key == "cache"]
    assert (found.level, found.remedies) == ("notice", [])
    assert (
        "111 MiB more than key_buffer_size: caches with names of their own (NAME.key_buffer_size)"
        in found.evidence
    )
