"""What the configuration allows a server to ask for. Not what it uses, and never mixed with it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Bounds:
    """Bytes. ``once``: buffers of which there is one; ``connection``: of each of ``connections`` at a time; ``statement``: one
    of each that a statement may have several of; ``caps``: limits that the server has against it, in words.
    """

    once: int
    connection: int
    statement: int
    connections: int
    caps: list[str]

    @property
    def plain(self) -> int:
        """Every connection with its own buffers, and none at work on more than rows."""
        return self.once + self.connections * self.connection

    @property
    def worst(self) -> int:
        """Every connection with one of each buffer at once; several joins or temporary tables make it more."""
        return self.plain + self.connections * self.statement


def bounds(variables: Mapping[str, str], catalogue: Mapping[str, Any]) -> Bounds:
    """From SHOW GLOBAL VARIABLES, names in lower case. ``catalogue``: :func:`dballoc.catalogue.bounds`."""

    def total(names: list[str]) -> int:
        return sum(_bytes(variables.get(name, "")) for name in names)

    statement = total(catalogue["statement"])
    if "max_heap_table_size" in variables and "tmp_table_size" in variables:
        # A temporary table in memory ends at the smaller of the two.
        table, heap = (_bytes(variables[n]) for n in ("tmp_table_size", "max_heap_table_size"))
        statement -= max(0, table - heap)
    caps = [
        f"{name} = {_bytes(variables[name]) / 2**20:,.0f} MiB for {cap['of']}"
        for name, cap in catalogue["caps"].items()
        if name in variables and variables[name] != cap["none"] and _bytes(variables[name])
    ]
    connections = _bytes(variables.get("max_connections", ""))
    return Bounds(total(catalogue["once"]), total(catalogue["connection"]), statement, connections, caps)


@dataclass(frozen=True)
class Room:
    """What there is: the machine's memory and the narrowest cgroup's limit, bytes; None without a limit."""

    machine: int
    limit: int | None

    @property
    def least(self) -> int:
        """The narrower of both."""
        return min(self.machine, self.limit) if self.limit else self.machine


def verdict(found: Bounds, room: Room, rss: int) -> str:
    """Whether the OOM killer may come, in a sentence."""
    have = f"{room.least / 2**30:.1f} GiB of {'the cgroup' if room.limit and room.limit < room.machine else 'the machine'}"
    if rss > 0.95 * room.least:
        return f"RSS has {rss / room.least:.0%} of the {have}: the OOM killer is near"
    if found.plain > room.least:
        return f"its buffers alone, with all connections in use, are more than the {have}: it may be killed without a big query"
    if found.worst > room.least:
        return f"all connections with one sort, join and temporary table each would need more than the {have}"
    return f"even one of each buffer for every connection fits the {have}; the allocator's own overhead comes on top"


def _bytes(value: str) -> int:
    return int(value) if value.isdigit() else 0
