"""Explanations made by hand, for tests of what is made of them."""

from dataclasses import replace
from typing import Any

from dballoc.catalogue import verdicts as limits
from dballoc.explain import verdicts
from dballoc.explain.bounds import Bounds, Room
from dballoc.explain.evidence import Evidence
from dballoc.explain.explanation import Explanation
from dballoc.explain.labels import SCHEMA
from dballoc.explain.ledger import LIVE, MAPPED, Ledger, Line
from dballoc.explain.pages import Kind
from dballoc.explain.verdicts import HELD, Verdict

MIB = 1 << 20
KEYS = "key cache (MyISAM)"

# A MariaDB at work with nothing wrong: owner -> MiB.
HEALTHY = {
    Kind.POOL: 800, SCHEMA: 60, "sessions": 6, "InnoDB dictionary": 4, LIVE: 40, MAPPED: 20, "threads' caches (tcache)": 1,
    HELD: 9, "malloc's own": 1, Kind.STACK: 6, Kind.CODE: 28, Kind.DATA: 9, Kind.FILE: 1,
}  # fmt: skip
_GROUPS = {
    Kind.POOL: "server", KEYS: "server", Kind.STACK: "threads", Kind.CODE: "files", Kind.DATA: "files", Kind.FILE: "files",
}  # fmt: skip
FIGURES = {
    "uptime": 86400, "innodb_page_size": 16384, "innodb_buffer_pool_pages_total": 51200, "innodb_buffer_pool_pages_free": 1000,
    "prepared_stmt_count": 300, "max_prepared_stmt_count": 16382, "threads_connected": 30, "key_buffer_size": 128 * MIB,
    "key_blocks_unused": 100, "key_cache_block_size": 1024, "key_read_requests": 10**9,
}  # fmt: skip
EVIDENCE = Evidence("glibc", 16, 2 * MIB, None, "madvise", True, [("shop", 28, 5 * MIB), ("root", 2, MIB)], FIGURES)
BOUNDS = Bounds(1024 * MIB, 512 * 1024, 20 * MIB, 200, [])


def look(sizes: dict[str, float] | None = None, taken: float = 0.0, rest: int = 2 * MIB, **evidence: Any) -> Explanation:
    """HEALTHY with ``sizes`` (MiB) over it, and ``evidence`` over EVIDENCE; judged by itself."""
    lines = [
        Line(_GROUPS.get(owner, "heap"), owner, int(size * MIB), int(size * MIB), "made", "exact")
        for owner, size in {**HEALTHY, **(sizes or {})}.items()
    ]
    rss = rest + sum(line.resident for line in lines)
    unowned = rest + sum(line.resident for line in lines if line.owner in (LIVE, MAPPED))
    ledger = Ledger(
        7, "/usr/sbin/mariadbd", "glibc malloc 2.36", rss, lines, rest, unowned, {"swap": 0, "page tables": 3 * MIB},
        ["outside", "SQL"],
    )  # fmt: skip
    known = replace(EVIDENCE, **evidence)
    made = Explanation(ledger, Room(16384 * MIB, 4096 * MIB), BOUNDS, "even one of each fits", 0.05, taken, known)
    return replace(made, answer=verdicts.answer(ledger, limits()), verdicts=judged([made]))


def judged(series: list[Explanation]) -> list[Verdict]:
    """What the last of a series comes to."""
    return verdicts.judge([e.moment for e in series], series[-1].bounds, limits())
