"""What verdicts need beside the ledger: numbers of the server and of malloc, as they were at the
time of the snapshot. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dballoc.catalogue import causes
from dballoc.catalogue import suspects as suspects_catalogue
from dballoc.evidence.process.unwritten_huge_pages import HugePageSample
from dballoc.evidence.sql.server_memory import ServerMemory, is_number, parse_number
from dballoc.host.resources.cgroup_memory import CgroupMemory
from dballoc.host.resources.process_limits import ProcessLimits
from dballoc.process.heaps.heap_walk import BlockGroup
from dballoc.process.snapshot import ProcessSnapshot

# The variables and status of the server that verdicts need, beside the caches' (verdicts.toml).
_VARIABLES = (
    "uptime",
    "uptime_since_flush_status",
    "innodb_page_size",
    "innodb_buffer_pool_size",
    "innodb_buffer_pool_pages_total",
    "innodb_buffer_pool_pages_free",
    "prepared_stmt_count",
    "max_prepared_stmt_count",
    "max_used_connections",
    "innodb_buffer_pool_chunk_size",
    "innodb_buffer_pool_instances",
    "performance_schema_digests_size",
    "performance_schema_max_table_instances",
    "open_tables",
    "wait_timeout",
    "performance_schema",
    "threads_connected",
)
# Keys of a cache in verdicts.toml whose values are names of variables or status.
_CACHE_KEYS = ("setting", "unused", "most_used", "block", "requests")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """``malloc``: its name in the catalogue; ``arenas``: how many glibc has; ``worst``: bytes that
    one of them holds free at most; ``settings``: those of its own that have an
    effect, or may have, as (variable, value) of the environment;
    ``sessions``: (user, connections, bytes), ``largest_session``: bytes of one; ``figures``: the
    server's variables and status by name; ``counted``: whether its memory instruments are on;
    ``cgroup``: the narrowest one's memory; ``cpus``: what the server may use of the machine's
    ``online_cpus``; ``machine_memory``: bytes; ``groups``: live blocks by size, None where the
    malloc's heap is not walked; ``trimmable``: resident bytes that malloc gives back if it is asked
    to, None where that is not known; ``counts``: what may have memory that nobody claims, empty
    where the server was not asked. All may be missing.
    """

    malloc: str | None = None
    arenas: int = 0
    worst: int = 0
    huge: HugePageSample | None = None
    thp: str = ""
    mariadb: bool = False
    settings: list[tuple[str, str]] = field(default_factory=list)
    sessions: list[tuple[str, int, int]] = field(default_factory=list)
    largest_session: int = 0
    figures: dict[str, int] = field(default_factory=dict)
    counted: bool = False
    cgroup: CgroupMemory | None = None
    cpus: ProcessLimits | None = None
    online_cpus: int = 0
    machine_memory: int = 0
    groups: list[BlockGroup] | None = None
    trimmable: int | None = None
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def counted_seconds(self) -> int:
        """For how long the server's status has counted: since its start, or since FLUSH STATUS."""
        uptime = self.figures.get("uptime", 0)
        return min(uptime, self.figures.get("uptime_since_flush_status", uptime))

    @property
    def is_flushed(self) -> bool:
        """Whether FLUSH STATUS has set its counters to zero since it started."""
        return self.counted_seconds < self.figures.get("uptime", 0)

    @property
    def connections(self) -> int:
        """How many there are in ``sessions``."""
        return sum(n for _, n, _ in self.sessions)

    def sets_any(self, names: Sequence[str]) -> bool:
        """Whether one of these stands in the malloc's settings, written as ``VARIABLE=value``."""
        return any(name in f"{key}={value}" for name in names for key, value in self.settings)

    @property
    def sessions_bytes(self) -> int:
        """The bytes of all sessions."""
        return sum(size for *_, size in self.sessions)


def gather_evidence(
    snapshot: ProcessSnapshot,
    labels: ServerMemory | None,
    huge: HugePageSample | None,
    limits: Mapping[str, Any],
    surroundings: Evidence,
    counts: Mapping[str, int],
) -> Evidence:
    """Gather it from a snapshot, the server's own labels, a sample of its huge pages, what the
    host gives it, and ``counts`` of what may have memory that nobody claims. ``limits``:
    :func:`dballoc.catalogue.verdicts`.
    """
    free_by_arena = snapshot.heap.free_by_arena if snapshot.heap else []
    return replace(
        surroundings,
        malloc=snapshot.malloc.name,
        arenas=len(free_by_arena),
        worst=max(free_by_arena, default=0),
        huge=huge,
        thp=snapshot.malloc.thp,
        mariadb=labels.mariadb if labels else False,
        settings=list(snapshot.malloc.effective_settings.items()),
        sessions=labels.sessions if labels else [],
        largest_session=labels.largest_session if labels else 0,
        figures=_select_figures(labels, limits) if labels else {},
        counted=bool(labels and labels.counted),
        groups=_list_groups(snapshot),
        trimmable=snapshot.heap.trimmable if snapshot.heap else None,
        counts=dict(counts),
    )


def _list_groups(snapshot: ProcessSnapshot) -> list[BlockGroup] | None:
    """Return the live blocks by size; None where nothing of a heap could be read."""
    return snapshot.heap.groups if snapshot.heap and snapshot.heap.statistics.live else None


def count_sessions(labels: ServerMemory) -> dict[str, int]:
    """Return how many sessions there are and how many statements run, our own left out."""
    connected, running = (
        max(0, parse_number(labels.status, name) - 1)
        for name in ("threads_connected", "threads_running")
    )
    return {"sessions": connected, "running": running}


def _select_figures(labels: ServerMemory, limits: Mapping[str, Any]) -> dict[str, int]:
    """Return the numeric ones of the variables and status that verdicts need."""
    values = labels.status | labels.variables
    names = [
        *_VARIABLES,
        *(cache[key] for cache in limits["caches"] for key in _CACHE_KEYS if key in cache),
        *(
            name
            for entries in causes().values()
            for entry in entries.values()
            for name in (*entry["bounds"], *entry["counts"])
        ),
        *(entry["size"] for entry in suspects_catalogue()["suspects"] if "size" in entry),
    ]
    return {name: int(values[name]) for name in names if is_number(values.get(name, ""))}
