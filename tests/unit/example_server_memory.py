"""Snapshots of a server's process and its own statistics, of which a test names what matters."""

from typing import Any

from dballoc.evidence.sql.server_memory import ServerMemory
from dballoc.host.process.handle import Process
from dballoc.process.malloc.identify_malloc import MallocInUse
from dballoc.process.mapping_kind import MappingKind
from dballoc.process.smaps import MemoryMapping
from dballoc.process.snapshot import ProcessSnapshot

GLIBC_IN_USE = MallocInUse(
    pid=1,
    executable="/usr/sbin/mariadbd",
    name="glibc",
    title="glibc malloc",
    version="2.36",
    library="/lib/libc.so.6",
    how="",
    mixed={},
    settings={},
    idle={},
    thp="",
)


def make_snapshot(
    mappings: list[MemoryMapping], kinds: list[MappingKind], **others: Any
) -> ProcessSnapshot:
    """A snapshot of a server on glibc, whose heap was not walked."""
    fields: dict[str, Any] = {
        "process": Process.at(1),
        "taken_at": 0.0,
        "malloc": GLIBC_IN_USE,
        "heap": None,
        "server_mappings": [],
        "threads": 1,
        "page_tables": 0,
        "swap": 0,
        "seconds": 0.0,
    }
    return ProcessSnapshot(mappings=mappings, kinds=kinds, **fields | others)


def make_server_memory(version: str, **others: Any) -> ServerMemory:
    """Statistics of a server that tells nothing but its version and ``others``."""
    fields: dict[str, Any] = {
        "heap": [],
        "tables": [],
        "mapped_caches": {},
        "variables": {},
        "status": {},
    }
    return ServerMemory(version=version, **fields | others)
