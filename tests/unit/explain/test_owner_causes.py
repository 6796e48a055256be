"""Each owner that can have most of RSS has a verdict, and the instrument that has it is named."""

from dataclasses import replace

import pytest
from example_explanations import FIGURES, MIB, judged, look

from dballoc.catalogue import causes, instruments
from dballoc.catalogue import verdicts as limits
from dballoc.evidence.files import doublewrite
from dballoc.evidence.process import my_once_alloc
from dballoc.evidence.sql import innodb_uncounted, server_memory
from dballoc.evidence.sql.server_memory import MEMORY_TABLES, SESSIONS, assign_to_owners
from dballoc.explain.ledger import ledger_line
from dballoc.explain.ledger.server_caches import LINKS
from dballoc.explain.verdicts.verdict import MemoryVerdict
from dballoc.explain.verdicts.verdicts import write_answer
from dballoc.process.heaps import allocator_statistics
from dballoc.process.mapping_kind import MappingKind

# Every name that a line of the ledger can have.
OWNERS = {
    *(kind for kind in MappingKind if kind not in (MappingKind.HEAP, MappingKind.REST)),
    *(owner for owner in instruments() if owner != "apart"),
    *("memory/sql", "memory/innodb", "memory/group_rpl"),
    *(owner for owner, *_ in server_memory._ROCKSDB),
    *(server_memory.POOL, server_memory.SCHEMA, server_memory.LOGS, SESSIONS, MEMORY_TABLES),
    *(server_memory.KEYS, server_memory.ARIA, server_memory.DICTIONARY),
    *(f"{server_memory.KEYS}{LINKS}", f"{server_memory.ARIA}{LINKS}"),
    *("key cache hot (MyISAM)", f"key cache hot (MyISAM){LINKS}"),
    *(server_memory._TRANSACTIONS, server_memory._HEADERS),
    *(doublewrite.OWNER, innodb_uncounted.TABLES, innodb_uncounted.EVENTS, my_once_alloc.OWNER),
    *(*ledger_line.UNOWNED, ledger_line.LAZY, "mapped file galera.cache"),
    *(getattr(allocator_statistics, name) for name in (
        "LIVE_SMALL", "LIVE_LARGE", "LIVE_ALL", "CACHES", "HELD", "METADATA", "TCACHE", "FAST_BINS", "HEADERS", "FOREIGN",
    )),
}  # fmt: skip


@pytest.mark.parametrize("owner", sorted(OWNERS))
def test_an_owner_with_most_of_rss_has_a_verdict(owner: str) -> None:
    sessions = [("app", 300, 4000 * MIB)] if owner == SESSIONS else []
    size = 800 if owner in (MappingKind.POOL, server_memory.POOL) else 4000
    found = look({owner: size}, figures=FIGURES, sessions=sessions)
    keys = {verdict.key: verdict for verdict in found.verdicts if verdict.key != "growth"}
    about = [
        verdict
        for verdict in keys.values()
        if owner.lower() in verdict.headline.lower() or verdict.key not in ("owner", "pool")
    ]
    assert about, keys


def test_the_catalogue_of_causes_is_whole() -> None:
    for entries in causes().values():
        for name, entry in entries.items():
            assert {"of", "bounds", "counts", "remedies"} <= set(entry), name
            assert set(entry) <= {"of", "bounds", "counts", "remedies", "fine", "exact"}, name
    for name, entry in causes()["instruments"].items():
        assert entry["remedies"], name
    assert not [
        o for o, entry in causes()["owners"].items() if entry.get("fine") and entry["remedies"]
    ]


def explain_line(owner: str, parts: dict[str, int], **evidence) -> tuple[list[MemoryVerdict], str]:
    """What is said of a line with these parts, MiB each, and the answer."""
    total = sum(parts.values())
    found = look({owner: total}, **evidence)
    lines = [
        replace(x, parts=tuple((event, size * MIB) for event, size in parts.items()))
        if x.owner == owner
        else x
        for x in found.ledger.lines
    ]
    found = replace(found, ledger=replace(found.ledger, lines=lines))
    return judged([found]), write_answer(found.ledger, limits())


def test_the_instrument_is_named_with_what_bounds_it() -> None:
    """Triggers times open tables: 1.21 GiB of one instrument (MySQL bug 86821)."""
    figures = FIGURES | {"table_open_cache": 2000, "stored_program_cache": 256, "open_tables": 86}
    verdicts, answer = explain_line(
        "memory/sql",
        {"memory/sql/sp_head::main_mem_root": 1243, "memory/sql/x": 10},
        figures=figures,
    )
    [said] = [v for v in verdicts if v.headline.startswith("memory/sql")]
    assert "most of it is sql/sp_head::main_mem_root" in said.headline
    assert (
        "table_open_cache (now 2,000) and stored_program_cache (now 256) bound it" in said.headline
    )
    assert "memory/sql/sp_head::main_mem_root 1,303,379,968 bytes" in said.evidence
    assert "open_tables 86" in said.evidence
    assert said.remedies
    assert "is memory/sql, mostly sp_head::main_mem_root (56 %)" in answer


def test_sessions_with_most_of_rss_have_a_verdict_with_the_cause() -> None:
    """Stored programs times connections, which MariaDB's process list leaves out."""
    verdicts, _ = explain_line(
        SESSIONS, {"memory/sql/sp_head::main_mem_root": 515}, sessions=[("root", 7, 539 * MIB)]
    )
    [said] = [v for v in verdicts if v.key == "sessions"]
    assert "7 connections have 515 MiB" in said.headline
    assert "most of it is sql/sp_head::main_mem_root" in said.headline
    assert not any(
        "COM_RESET" in remedy or "max_session_mem_used" in remedy for remedy in said.remedies
    )
    # Network buffers stay until the connection ends.
    verdicts, _ = explain_line(
        SESSIONS, {"memory/sql/NET::buff": 200}, sessions=[("root", 15, 200 * MIB)]
    )
    [said] = [v for v in verdicts if v.key == "sessions"]
    assert "only a new connection has a small one" in said.remedies[0]


def test_memory_tables_are_no_temporary_tables() -> None:
    """MySQL bug 8930: HP_PTRS counts both, and information_schema tells them apart."""
    counted = {"memory/memory/HP_PTRS": (3, 134 * MIB), "memory/memory/HP_INFO": (3, MIB)}
    told = server_memory.OwnerMemory(owner=MEMORY_TABLES, bytes=100 * MIB, source="x")
    owners = {x.owner: x for x in assign_to_owners(counted, {}, 0, [told])}
    assert (owners[MEMORY_TABLES].bytes, owners["temporary tables"].bytes) == (100 * MIB, 35 * MIB)
    assert owners[MEMORY_TABLES].parts[0][1] == 100 * MIB
    # A table is its server's, whoever has filled it.
    filled = assign_to_owners(counted, {"memory/memory/HP_PTRS": 134 * MIB}, 0, [told])
    owners = {x.owner: x for x in filled}
    assert (owners[MEMORY_TABLES].bytes, owners[SESSIONS].bytes) == (100 * MIB, 34 * MIB)
    # Where the server does not tell, they are what they were.
    assert [x.owner for x in assign_to_owners(counted, {}, 0) if x.bytes] == ["temporary tables"]


@pytest.mark.parametrize(
    ("instrument", "bound"),
    [
        # MySQL 9.7: hash joins; heaps of open partitions.
        ("memory/sql/hashed_operation", "join_buffer_size"),
        ("memory/sql/hash_join", "join_buffer_size"),
        ("memory/innodb/memory", "table_open_cache"),
        ("memory/innodb/mem0mem", "table_open_cache"),
    ],
)
def test_what_sessions_have_is_named_with_its_bound(instrument: str, bound: str) -> None:
    verdicts, _ = explain_line(
        SESSIONS,
        {instrument: 300},
        sessions=[("root", 9, 300 * MIB)],
        figures=FIGURES | {bound: 4000},
    )
    [said] = [v for v in verdicts if v.key == "sessions"]
    assert f"{bound} (now 4,000)" in said.headline


def test_a_key_cache_with_a_name_is_not_bounded_by_the_default_one() -> None:
    figures = FIGURES | {"key_buffer_size": 8 * MIB}
    verdicts, _ = explain_line("key cache hot (MyISAM)", {"x": 400}, figures=figures)
    [said] = [v for v in verdicts if v.key == "owner" and "key cache" in v.headline.lower()]
    assert said.headline.startswith("Key cache hot (MyISAM): 400 MiB")
    assert "now" not in said.headline
    assert "SET GLOBAL NAME.key_buffer_size = 0" in said.remedies[0]
