"""Advice that does no harm: nothing is advised that is below what is in use, nothing that is set
already, and everything says what it costs.
"""

import re
from dataclasses import replace
from typing import Any

import pytest
from example_explanations import FIGURES, KEYS, MIB, judged, look
from hypothesis import given
from hypothesis import strategies as st

from dballoc.catalogue import verdicts as limits
from dballoc.evidence.process.unwritten_huge_pages import HugePageSample
from dballoc.evidence.sql.server_memory import ARIA, SCHEMA
from dballoc.explain.ledger.ledger_line import LIVE
from dballoc.explain.verdicts.verdict import MemoryVerdict
from dballoc.host.resources.cgroup_memory import CgroupMemory
from dballoc.host.resources.process_limits import ProcessLimits
from dballoc.process.heaps.allocator_statistics import HELD
from dballoc.process.mapping_kind import MappingKind

QUERIES = "query cache"
HUGE = HugePageSample(300 * MIB, 1024, 614)
KILLED = CgroupMemory(
    name="/a",
    limit=1024 * MIB,
    high=None,
    charged=990 * MIB,
    inactive_file=0,
    events={"oom_kill": 1},
)
CACHE_FIGURES = {
    KEYS: ("key_buffer_size", "key_blocks_unused", "key_cache_block_size", 1024, "key_read_requests", "key_blocks_used"),
    ARIA: ("aria_pagecache_buffer_size", "aria_pagecache_blocks_unused", "aria_block_size", 8192, "aria_pagecache_read_requests", "aria_pagecache_blocks_used"),
    QUERIES: ("query_cache_size", "qcache_free_memory", "", 1, "qcache_hits", ""),
}  # fmt: skip
USABLE = {KEYS: 0.82, ARIA: 0.955, QUERIES: 1.0}


def verdict_on_cache(
    owner: str, configured: int, used: int, requests: int, uptime: int = 86400, **more: int
) -> MemoryVerdict | None:
    """What is said of a cache with ``used`` of its ``configured`` bytes in use."""
    setting, unused, block, size, asked, _ = CACHE_FIGURES[owner]
    figures = {
        **{name: value for name, value in FIGURES.items() if not name.startswith("key_")},
        setting: configured,
        unused: int((configured - used) * USABLE[owner]) // size,
        asked: requests * uptime,
        "uptime": uptime,
        **({block: size} if block else {}),
        **more,
    }
    resident = configured / MIB
    found = look({owner: resident, MappingKind.POOL: 100}, figures=figures).verdicts
    return next((v for v in found if v.key == "cache"), None)


@pytest.mark.parametrize("owner", [KEYS, ARIA, QUERIES])
@given(
    configured=st.integers(32, 4096), used=st.floats(0, 1), requests=st.sampled_from([0, 5, 20_000])
)
def test_no_cache_is_made_smaller_than_what_it_has_in_use(
    owner: str, configured: int, used: float, requests: int
) -> None:
    size, in_use = configured * MIB, int(configured * MIB * used)
    verdict = verdict_on_cache(owner, size, in_use, requests)
    assert verdict
    for remedy in verdict.remedies:
        if advised := re.search(r"= (\d+)", remedy):
            assert in_use * 1.2 <= int(advised[1]) < size
            # A variable that cannot be set while the server runs is not set so.
            assert ("SET GLOBAL" in remedy) == (owner != ARIA)


def test_a_cache_that_is_full_is_not_made_smaller_however_idle() -> None:
    verdict = verdict_on_cache(KEYS, 128 * MIB, 128 * MIB, 0)
    assert verdict
    assert "hardly anybody uses it" in verdict.headline
    assert not any("SET GLOBAL" in remedy for remedy in verdict.remedies)


@pytest.mark.parametrize("owner", [KEYS, ARIA])
def test_a_cache_that_was_emptied_keeps_what_was_once_in_use(owner: str) -> None:
    """FLUSH TABLES WITH READ LOCK, as a backup does, empties the key cache."""
    *_, block, _, most_used = CACHE_FIGURES[owner]
    most = int(96 * MIB * USABLE[owner]) // block
    verdict = verdict_on_cache(owner, 128 * MIB, 0, 16_449, **{most_used: most})
    assert verdict
    assert (verdict.level, verdict.remedies) == ("notice", [])
    assert "96.0 MiB in use at most so far, 25 % unused" in verdict.evidence
    verdict = verdict_on_cache(owner, 1024 * MIB, 0, 16_449, **{most_used: most})
    assert verdict
    [remedy] = verdict.remedies
    assert f"= {120 * MIB}" in remedy


def test_a_query_cache_that_is_empty_now_is_not_too_large_for_that() -> None:
    """Each write empties it of its table's results, and nothing tells how full it was."""
    verdict = verdict_on_cache(QUERIES, 256 * MIB, MIB, 500)
    assert verdict
    assert (verdict.level, verdict.remedies) == ("notice", [])


def test_flushed_counters_are_judged_by_their_own_time() -> None:
    """FLUSH STATUS sets requests to zero, and leaves the uptime."""
    month = 30 * 86400
    asked = {"key_read_requests": 1_008_006}
    verdict = verdict_on_cache(
        KEYS, 128 * MIB, 128 * MIB, 0, month, uptime_since_flush_status=60, **asked
    )
    assert verdict
    assert (verdict.level, verdict.remedies) == ("notice", [])
    assert "16,800 requests a second since FLUSH STATUS" in verdict.evidence
    verdict = verdict_on_cache(KEYS, 128 * MIB, 128 * MIB, 0, month, uptime_since_flush_status=7200)
    assert verdict
    assert "hardly anybody uses it" in verdict.headline
    assert "0.00 requests a second since FLUSH STATUS" in verdict.evidence


def test_a_server_that_has_just_started_is_not_judged_by_its_empty_caches() -> None:
    verdict = verdict_on_cache(KEYS, 1024 * MIB, 0, 0, uptime=600)
    assert verdict
    assert (verdict.level, verdict.remedies) == ("notice", [])
    assert "too early" in verdict.evidence[-1]


def remedies_of_sessions(**evidence: Any) -> str:
    found = look({"sessions": 400}, sessions=[("app", 2, 400 * MIB)], **evidence).verdicts
    return " ".join(r for v in found if v.key == "sessions" for r in v.remedies)


def test_what_gives_back_no_memory_of_sessions_is_not_advised() -> None:
    """A limit is above what the largest session has, and a reset leaves network buffers."""
    remedies = remedies_of_sessions(figures=FIGURES)
    assert "max_session_mem_used" not in remedies
    assert "renew its connections: up to 400 MiB go with them" in remedies
    assert "not the network buffers" in remedies


def test_instruments_that_are_on_are_not_advised() -> None:
    growing = [{LIVE: 600 + 5.0 * i} for i in range(40)]
    for counted in (False, True):
        found = judged(
            [look(sizes, taken=1e9 + 10 * i, counted=counted) for i, sizes in enumerate(growing)]
        )
        for key in ("unowned", "leak"):
            [remedies] = [" ".join(v.remedies) for v in found if v.key == key]
            assert ("memory/%=ON" in remedies) is not counted
            assert ("exec --probe heap" in remedies) or not counted


def test_a_cache_with_a_problem_goes_before_a_larger_one_without() -> None:
    figures = {
        **FIGURES,
        "aria_pagecache_buffer_size": 400 * MIB,
        "aria_pagecache_read_requests": 10**9,
        "key_blocks_unused": 100_000,
    }
    found = look({KEYS: 122, ARIA: 400}, figures=figures).verdicts
    [verdict] = [v for v in found if v.key == "cache"]
    assert verdict.level == "problem"
    assert KEYS in verdict.headline


def test_a_time_out_that_is_short_is_not_made_longer() -> None:
    for timeout, advised in ((28800, True), (60, False)):
        remedies = remedies_of_sessions(figures={**FIGURES, "wait_timeout": timeout})
        assert ("wait_timeout=600" in remedies) is advised


@pytest.mark.parametrize(
    ("malloc", "setting"),
    [
        ("glibc", ("MALLOC_ARENA_MAX", "2")),
        ("jemalloc", ("MALLOC_CONF", "narenas:4,dirty_decay_ms:0")),
        ("mimalloc", ("MIMALLOC_PURGE_DELAY", "0")),
    ],
)
def test_what_is_set_already_is_not_advised(malloc: str, setting: tuple[str, str]) -> None:
    assert any(setting[0] in remedy for remedy in advise_on_held(malloc=malloc))
    assert not any(setting[0] in r for r in advise_on_held(malloc=malloc, settings=[setting]))


def advise_on_held(**evidence: Any) -> list[str]:
    """What is advised where malloc holds 400 MiB free."""
    found = look({HELD: 400}, **evidence).verdicts
    return [r for v in found if v.key == "fragmentation" for r in v.remedies]


def test_fewer_arenas_are_advised_only_where_many_share_what_is_free() -> None:
    """36 of 51 MiB were in one of 15 arenas, and with two arenas more was free than before."""
    [setting] = [r for r in advise_on_held(worst=50 * MIB) if "MALLOC_ARENA_MAX=2" in r]
    assert "up to 350 MiB" in setting
    assert not [r for r in advise_on_held(worst=280 * MIB) if "MALLOC_ARENA_MAX" in r]


def test_what_needs_no_restart_comes_first_with_what_it_gives_back() -> None:
    [first, *_] = advise_on_held(trimmable=250 * MIB)
    assert first.startswith("dballoc explain --trim")
    assert "gives back about 250 MiB at once, without a restart" in first
    assert "up to 400 MiB" in advise_on_held(malloc="tcmalloc")[0]


@pytest.mark.parametrize(
    ("malloc", "trimmable"), [("glibc", 10 * MIB), ("mimalloc", None)], ids=["little", "its own"]
)
def test_trim_is_not_advised_where_it_gives_little_back(malloc: str, trimmable: int | None) -> None:
    remedies = advise_on_held(malloc=malloc, trimmable=trimmable)
    assert not [r for r in remedies if "--trim" in r]


def test_a_setting_that_never_helped_is_not_advised() -> None:
    """TCMALLOC_RELEASE_RATE: 332.9 of 333.0 MiB stayed, at every rate."""
    assert not [r for r in advise_on_held(malloc="tcmalloc") if "TCMALLOC_RELEASE_RATE" in r]


def test_a_trial_of_other_mallocs_can_be_carried_to_another_host() -> None:
    """--like reads a process of the host that it runs on, and a look may be read elsewhere."""
    [held] = [v for v in look({HELD: 400}).verdicts if v.key == "fragmentation"]
    [trial] = [remedy for remedy in held.remedies if "--like" in remedy]
    assert "on the server's own host dballoc bench --like" in trial
    assert "--print > like-it.toml, then dballoc bench like-it.toml" in trial


def test_the_host_is_only_changed_where_that_changes_something() -> None:
    def remedies(thp: str) -> str:
        found = look(huge=HUGE, thp=thp).verdicts
        return " ".join(r for v in found if v.key == "thp" for r in v.remedies)

    assert "echo madvise" in remedies("always")
    assert "echo madvise" not in remedies("madvise")


def test_performance_schemas_rows_are_compared_with_those_in_use() -> None:
    figures = {**FIGURES, "performance_schema_max_table_instances": 12_500, "open_tables": 2_000}
    [verdict] = [
        v for v in look({SCHEMA: 300}, figures=figures).verdicts if v.key == "performance_schema"
    ]
    fewer = verdict.remedies[1]
    assert (
        "performance_schema_max_table_instances (now 12,500) above Open_tables at its highest (now 2,000)"
        in fewer
    )
    assert "=500" not in fewer


def every_verdict() -> list[MemoryVerdict]:
    """At least one of each key, with advice where it has any."""
    growing = [look({LIVE: 40 + 5 * i}, taken=1e9 + 10 * i) for i in range(40)]
    slower = [look({LIVE: 200 - 160 * 0.97**i}, taken=1e9 + 10 * i) for i in range(60)]
    connecting = [
        look({LIVE: 40 + i}, taken=1e9 + 10 * i, sessions=[("app", 10 + i, MIB)]) for i in range(40)
    ]
    pool = {"innodb_buffer_pool_size": 800 * MIB}
    looks = [
        look(),
        look({HELD: 400}),
        *(look({HELD: 400}, malloc=name) for name in limits()["remedies"]),
        *(look(huge=HUGE, malloc=name, thp="always") for name in limits()["remedies_huge"]),
        look({"sessions": 400}, sessions=[("app", 2, 400 * MIB)], figures={**FIGURES, "prepared_stmt_count": 9000}),
        look({SCHEMA: 300}),
        look({LIVE: 600}),
        look({LIVE: 0, HELD: 0, MappingKind.MALLOC: 900}, malloc="jemalloc"),
        look(cgroup=KILLED),
        look(cgroup=KILLED, figures=FIGURES | pool),
        look(cgroup=replace(KILLED, charged=400 * MIB), figures=FIGURES | pool | {"innodb_buffer_pool_pages_free": 51_000}),
        look(online_cpus=64, cpus=ProcessLimits(64, 2.0, None)),
        look(online_cpus=64, cpus=ProcessLimits(64, 2.0, None), malloc="jemalloc"),
        look(online_cpus=64, cpus=ProcessLimits(64, 1.0, None), malloc="jemalloc"),
    ]  # fmt: skip
    found = [v for reading in looks for v in reading.verdicts]
    for series in (growing, slower, connecting):
        found += judged(series)
    caches = [(KEYS, 0), (KEYS, 900), (ARIA, 10), (QUERIES, 10)]
    found += [
        v for owner, used in caches if (v := verdict_on_cache(owner, 1024 * MIB, used * MIB, 0))
    ]
    return found


def test_all_advice_says_what_it_costs() -> None:
    found = every_verdict()
    silent = [
        (v.key, remedy)
        for v in found
        for remedy in v.remedies
        # What the pool may still take is no advice: nothing is to be done.
        if "costs" not in remedy and v.key != "pool"
    ]
    assert silent == []
    # Every rule that can advise is among them.
    assert {v.key for v in found if v.remedies} >= {
        "arenas", "cache", "fragmentation", "growth", "leak", "limit", "own_books",
        "performance_schema", "sessions", "thp", "unowned",
    }  # fmt: skip


def find_verdict(key: str, verdicts: list[MemoryVerdict]) -> MemoryVerdict | None:
    return next((verdict for verdict in verdicts if verdict.key == key), None)


@pytest.mark.parametrize(
    ("owner", "configured", "used", "advice", "cost"),
    [
        (ARIA, 400, 40, f"aria_pagecache_buffer_size = {51 * MIB} in my.cnf (restart): 40.0 MiB were in use at most", "a restart, and reads from disk"),
        (ARIA, 400, 0, f"aria_pagecache_buffer_size = {16 * MIB} in my.cnf (restart): none was ever in use", "a restart, and reads from disk"),
        (KEYS, 256, 10, f"SET GLOBAL key_buffer_size = {13 * MIB}; and in my.cnf: 10.0 MiB were in use at most", "a cold cache"),
    ],
)  # fmt: skip
def test_a_cache_that_is_mostly_unused_is_made_smaller(
    owner: str, configured: int, used: int, advice: str, cost: str
) -> None:
    verdict = verdict_on_cache(owner, configured * MIB, used * MIB, 20_000)
    assert verdict
    assert verdict.level == "problem"
    assert "most of it is unused" in verdict.headline
    assert "hardly anybody uses it" not in verdict.headline
    [remedy] = verdict.remedies
    assert remedy.startswith(advice)
    assert f"it costs {cost}" in remedy


@pytest.mark.parametrize("owner", [ARIA, QUERIES])
def test_a_cache_that_hardly_anybody_asks_is_a_problem_and_one_that_is_used_is_none(
    owner: str,
) -> None:
    idle = verdict_on_cache(owner, 256 * MIB, 200 * MIB, 0)
    assert idle
    assert (idle.level, len(idle.remedies)) == ("problem", 1)
    assert "hardly anybody uses it" in idle.headline
    if owner == QUERIES:
        idle = verdict_on_cache(owner, 256 * MIB, 0, 0)
        assert idle
        assert idle.remedies[0].startswith("SET GLOBAL query_cache_size = 0; and in my.cnf: none")
        assert "it costs the results that it holds" in idle.remedies[0]
    # A request a second is the limit.
    for used, requests in ((200, 1), (200, 20_000), (129, 20_000)):
        verdict = verdict_on_cache(owner, 256 * MIB, used * MIB, requests)
        assert verdict
        assert (verdict.level, verdict.remedies) == ("notice", [])


@pytest.mark.parametrize("owner", [ARIA, QUERIES])
def test_nothing_is_said_of_a_cache_that_is_small_or_advised_where_no_figures_are(
    owner: str,
) -> None:
    assert verdict_on_cache(owner, 15 * MIB, 0, 0) is None
    # 50 MiB are less than a twentieth of this server's memory.
    assert find_verdict("cache", look({owner: 50}).verdicts) is None
    without_login = find_verdict("cache", look({owner: 400}, figures={}).verdicts)
    assert without_login
    assert (without_login.level, without_login.remedies) == ("notice", [])


@pytest.mark.parametrize(
    ("sizes", "speaks"),
    [
        ({SCHEMA: 110}, True),
        ({SCHEMA: 100}, False),  # less than a tenth of RSS
        ({SCHEMA: 33, MappingKind.POOL: 100}, True),
        ({SCHEMA: 31, MappingKind.POOL: 100}, False),  # less than 32 MiB
    ],
)
def test_performance_schema_is_spoken_of_where_it_has_much(
    sizes: dict[str, float], speaks: bool
) -> None:
    verdict = find_verdict("performance_schema", look(sizes).verdicts)
    assert (verdict is not None) is speaks
    if verdict:
        assert verdict.level == "notice"
        off, fewer = verdict.remedies
        assert "performance_schema=OFF; it costs a restart" in off
        # What the server has is not known here, so that no number is named.
        assert "performance_schema_max_table_instances above Open_tables at its highest, " in fewer


@pytest.mark.parametrize(
    ("sample", "speaks"),
    [
        (HugePageSample(32 * MIB, 1000, 300), True),
        (HugePageSample(31 * MIB, 1000, 1000), False),
        (HugePageSample(300 * MIB, 1000, 299), False),
        (HugePageSample(300 * MIB, 0, 0), False),  # none of them could be read
        (None, False),
    ],
)
def test_huge_pages_are_spoken_of_where_many_hold_nothing(
    sample: HugePageSample | None, speaks: bool
) -> None:
    verdict = find_verdict("thp", look(huge=sample, thp="always").verdicts)
    assert (verdict is not None) is speaks
    assert verdict is None or verdict.level == "problem"


@pytest.mark.parametrize(
    ("malloc", "setting", "advice"),
    [
        ("glibc", ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=0"), "glibc.malloc.hugetlb=0"),
        ("jemalloc", ("MALLOC_CONF", "thp:never"), "thp:never in MALLOC_CONF"),
        ("mimalloc", ("MIMALLOC_ALLOW_THP", "0"), "MIMALLOC_ALLOW_THP=0"),
        ("tcmalloc", None, ""),  # it has no such setting
    ],
)
def test_huge_pages_of_a_malloc_are_advised_against_unless_that_is_set(
    malloc: str, setting: tuple[str, str] | None, advice: str
) -> None:
    def remedies(settings: list[tuple[str, str]]) -> list[str]:
        verdict = find_verdict(
            "thp", look(huge=HUGE, malloc=malloc, thp="madvise", settings=settings).verdicts
        )
        assert verdict
        return verdict.remedies

    assert [advice in remedy for remedy in remedies([])] == ([True] if advice else [])
    assert setting is None or remedies([setting]) == []


@pytest.mark.parametrize(
    ("pool", "rise", "looks", "speaks"),
    [
        (800, 0.5, 40, True),
        (800, 0.2, 40, False),  # 7.8 MiB in all: less than a hundredth of RSS
        (100, 0.2, 40, True),
        (100, 0.08, 40, False),  # 3.1 MiB in all
        (800, 0.0, 40, False),
        (800, -0.5, 40, False),
        (800, 20.0, 5, False),  # too few looks to tell
        (800, 20.0, 6, True),
    ],
)
def test_a_leak_is_spoken_of_where_unlabelled_heap_rises_and_goes_on(
    pool: float, rise: float, looks: int, speaks: bool
) -> None:
    verdict = find_verdict(
        "leak",
        judged(
            [
                look({MappingKind.POOL: pool, LIVE: 60 + rise * i}, taken=1e9 + 10 * i)
                for i in range(looks)
            ]
        ),
    )
    assert (verdict is not None) is speaks
    assert verdict is None or verdict.level == "problem"


@pytest.mark.parametrize("owner", [HELD, SCHEMA, MappingKind.POOL, "sessions"])
def test_memory_that_has_an_owner_or_is_free_is_no_leak(owner: str) -> None:
    series = [look({owner: 60 + 5.0 * i}, taken=1e9 + 10 * i) for i in range(40)]
    assert find_verdict("leak", judged(series)) is None
