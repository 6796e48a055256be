"""What verdicts need beside the ledger: figures of the server and of malloc, as they were at the
time of the look. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dballoc.explain.sources.server_memory import Labels
from dballoc.explain.verdicts.thp_waste import Huge
from dballoc.process_memory.process_snapshot import Outside

# Of the server's variables and status, what verdicts ask for beside the caches' (verdicts.toml).
_FIGURES = (
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


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """``malloc``: its name in the catalogue; ``arenas`` and ``worst``: of glibc, how many, and what
    one holds free at most; ``sessions``: (user, connections, bytes); ``figures``: the server's
    numbers by name. Sizes in bytes. All may be missing.
    """

    malloc: str | None = None
    arenas: int = 0
    worst: int = 0
    huge: Huge | None = None
    thp: str = ""
    mariadb: bool = False
    sessions: list[tuple[str, int, int]] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)

    @property
    def connections(self) -> int:
        """That the sessions' memory is of."""
        return sum(n for _, n, _ in self.sessions)

    @property
    def sessions_bytes(self) -> int:
        """Of all of them."""
        return sum(size for *_, size in self.sessions)


def gather(
    look: Outside, labels: Labels | None, huge: Huge | None, limits: Mapping[str, Any]
) -> Evidence:
    """From what was seen and said. ``limits``: :func:`dballoc.catalogue.verdicts`."""
    arenas = look.heap.arenas if look.heap else []
    return Evidence(
        malloc=look.malloc.name,
        arenas=len(arenas),
        worst=max((b.free_resident for b in arenas), default=0),
        huge=huge,
        thp=look.malloc.thp,
        mariadb=labels.mariadb if labels else False,
        sessions=labels.sessions if labels else [],
        figures=_figures(labels, limits) if labels else {},
    )


def _figures(labels: Labels, limits: Mapping[str, Any]) -> dict[str, int]:
    said = labels.status | labels.variables
    names = [
        *_FIGURES,
        *(cache[key] for cache in limits["caches"] for key in _KEYS if key in cache),
    ]
    return {name: int(said[name]) for name in names if said.get(name, "").isdigit()}


_KEYS = ("setting", "unused", "block", "requests")
