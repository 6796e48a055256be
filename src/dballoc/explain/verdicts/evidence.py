"""What verdicts need beside the ledger: numbers of the server and of malloc, as they were at the
time of the snapshot. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dballoc.explain.sources.server_memory import ServerMemory, is_number
from dballoc.explain.verdicts.thp_waste import HugePageSample
from dballoc.process_memory.process_snapshot import ProcessSnapshot

# The variables and status of the server that verdicts need, beside the caches' (verdicts.toml).
_VARIABLES = (
    "uptime",
    "innodb_page_size",
    "innodb_buffer_pool_size",
    "innodb_buffer_pool_pages_total",
    "innodb_buffer_pool_pages_free",
    "prepared_stmt_count",
    "max_prepared_stmt_count",
    "wait_timeout",
    "performance_schema",
    "threads_connected",
)
# Keys of a cache in verdicts.toml whose values are names of variables or status.
_CACHE_KEYS = ("setting", "unused", "block", "requests")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """``malloc``: its name in the catalogue; ``arenas``: how many glibc has; ``worst``: bytes that
    one of them holds free at most; ``sessions``: (user, connections, bytes); ``figures``: the
    server's variables and status by name. All may be missing.
    """

    malloc: str | None = None
    arenas: int = 0
    worst: int = 0
    huge: HugePageSample | None = None
    thp: str = ""
    mariadb: bool = False
    sessions: list[tuple[str, int, int]] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)

    @property
    def connections(self) -> int:
        """How many there are in ``sessions``."""
        return sum(n for _, n, _ in self.sessions)

    @property
    def sessions_bytes(self) -> int:
        """The bytes of all sessions."""
        return sum(size for *_, size in self.sessions)


def gather_evidence(
    snapshot: ProcessSnapshot,
    labels: ServerMemory | None,
    huge: HugePageSample | None,
    limits: Mapping[str, Any],
) -> Evidence:
    """Gather it from a snapshot, the server's own labels and a sample of its huge pages.
    ``limits``: :func:`dballoc.catalogue.verdicts`.
    """
    free_by_arena = snapshot.heap.free_by_arena if snapshot.heap else []
    return Evidence(
        malloc=snapshot.malloc.name,
        arenas=len(free_by_arena),
        worst=max(free_by_arena, default=0),
        huge=huge,
        thp=snapshot.malloc.thp,
        mariadb=labels.mariadb if labels else False,
        sessions=labels.sessions if labels else [],
        figures=_select_figures(labels, limits) if labels else {},
    )


def _select_figures(labels: ServerMemory, limits: Mapping[str, Any]) -> dict[str, int]:
    """Return the numeric ones of the variables and status that verdicts need."""
    values = labels.status | labels.variables
    names = [
        *_VARIABLES,
        *(cache[key] for cache in limits["caches"] for key in _CACHE_KEYS if key in cache),
    ]
    return {name: int(values[name]) for name in names if is_number(values.get(name, ""))}
