"""Explanations made by hand, for tests of what is made of them."""

from dataclasses import replace
from typing import Any

from dballoc.catalogue import verdicts as limits
from dballoc.evidence.model import Evidence
from dballoc.evidence.sql.server_memory import SCHEMA
from dballoc.explain.explanation import Explanation
from dballoc.explain.ledger.configuration_limits import AvailableMemory, Bounds
from dballoc.explain.ledger.ledger import Ledger
from dballoc.explain.ledger.ledger_line import LIVE, MAPPED, LedgerLine
from dballoc.explain.verdicts import verdicts
from dballoc.explain.verdicts.verdict import MemoryVerdict
from dballoc.explain.verdicts.verdicts import HELD
from dballoc.process.mapping_kind import MappingKind

MIB = 1 << 20
KEYS = "key cache (MyISAM)"

# A MariaDB at work with nothing wrong: owner -> MiB.
HEALTHY = {
    MappingKind.POOL: 800,
    SCHEMA: 60,
    "sessions": 6,
    "InnoDB dictionary": 4,
    LIVE: 40,
    MAPPED: 20,
    "threads' caches (tcache)": 1,
    HELD: 9,
    "malloc's own": 1,
    MappingKind.STACK: 6,
    MappingKind.CODE: 28,
    MappingKind.DATA: 9,
    MappingKind.FILE: 1,
}
_GROUPS = {
    MappingKind.POOL: "server",
    KEYS: "server",
    MappingKind.STACK: "threads",
    MappingKind.CODE: "files",
    MappingKind.DATA: "files",
    MappingKind.FILE: "files",
}
FIGURES = {
    "uptime": 86400,
    "innodb_page_size": 16384,
    "innodb_buffer_pool_pages_total": 51200,
    "innodb_buffer_pool_pages_free": 1000,
    "prepared_stmt_count": 300,
    "max_prepared_stmt_count": 16382,
    "threads_connected": 30,
    "max_session_mem_used": 2**63 - 1,
    "connection_memory_limit": 2**64 - 1,
    "key_buffer_size": 128 * MIB,
    "key_blocks_unused": 100,
    "key_cache_block_size": 1024,
    "key_read_requests": 10**9,
}
EVIDENCE = Evidence(
    malloc="glibc",
    arenas=16,
    worst=2 * MIB,
    huge=None,
    thp="madvise",
    mariadb=True,
    sessions=[("shop", 28, 5 * MIB), ("root", 2, MIB)],
    figures=FIGURES,
)
BOUNDS = Bounds(
    once=1024 * MIB, connection=512 * 1024, statement=20 * MIB, connections=200, caps=[]
)


def look(
    sizes: dict[str, float] | None = None, taken: float = 0.0, rest: int = 2 * MIB, **evidence: Any
) -> Explanation:
    """HEALTHY with ``sizes`` (MiB) over it, and ``evidence`` over EVIDENCE; judged by itself."""
    lines = [
        LedgerLine(
            group=_GROUPS.get(owner, "heap"),
            owner=owner,
            resident=int(size * MIB),
            # However much of it is filled, the pool has its size.
            size=int(max(size, HEALTHY[owner]) * MIB if owner == MappingKind.POOL else size * MIB),
            source="made",
            confidence="exact",
        )
        for owner, size in {**HEALTHY, **(sizes or {})}.items()
    ]
    rss = rest + sum(line.resident for line in lines)
    unowned = rest + sum(line.resident for line in lines if line.owner in (LIVE, MAPPED))
    ledger = Ledger(
        pid=7,
        executable="/usr/sbin/mariadbd",
        malloc="glibc malloc 2.36",
        rss=rss,
        lines=lines,
        rest=rest,
        unowned=unowned,
        beside={"swap": 0, "page tables": 3 * MIB},
        tiers=["outside", "SQL"],
    )
    known = replace(EVIDENCE, **evidence)
    made = Explanation(
        ledger=ledger,
        room=AvailableMemory(16384 * MIB, 4096 * MIB),
        bounds=BOUNDS,
        verdict="even one of each fits",
        seconds=0.05,
        timestamp=taken,
        evidence=known,
    )
    return replace(made, answer=verdicts.write_answer(ledger, limits()), verdicts=judged([made]))


def judged(series: list[Explanation]) -> list[MemoryVerdict]:
    """What the last of a series comes to."""
    return verdicts.judge_moments([e.moment for e in series], series[-1].bounds, limits())
