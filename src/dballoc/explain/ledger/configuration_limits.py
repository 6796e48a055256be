"""How much memory the configuration allows a server to ask for. Not how much it uses, and never
mixed with that. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dballoc.evidence.sql.server_memory import is_number


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Bytes. ``once``: buffers that exist once; ``connection``: of each of ``connections`` at a
    time; ``statement``: one of each that a statement may have several of; ``shared``: what the
    temporary tables of all of them may have; ``caps``: the server's limits on these, in words;
    ``each`` and ``all``: the narrowest limit in force, of one connection and of all, None without;
    ``more``: buffers that a statement may have several of, in words.
    """

    once: int
    connection: int
    statement: int
    connections: int
    caps: list[str]
    shared: int = 0
    each: int | None = None
    all: int | None = None
    more: list[str] = field(default_factory=list)

    @property
    def plain(self) -> int:
        """Every connection with its own buffers, and none that sorts, joins or makes a temporary
        table.
        """
        return self.once + self.connections * self.connection

    @property
    def worst(self) -> int:
        """Every connection with one of each buffer at once; several joins or temporary tables make
        it more.
        """
        return self.plain + self.connections * self.statement + self.shared

    @property
    def capped(self) -> int:
        """The same with the server's own limits in force."""
        return self.once + self.shared + self.working

    @property
    def working(self) -> int:
        """All connections at once with one of each buffer, within the limits in force."""
        return self.compute_working(self.connections)

    def compute_working(self, connections: int) -> int:
        """Return the same of so many connections."""
        wanted = self.connection + self.statement
        per_connection = wanted if self.each is None else min(wanted, self.each)
        total = connections * per_connection
        return total if self.all is None else min(total, self.all)

    def compute_reach(self, rss: int, filled: int, connected: int) -> int:
        """Return the bytes that RSS can still grow to from ``rss``, if nothing else grows.

        ``filled``: resident bytes of the buffers that exist once; ``connected``: connections that
        have their own buffers already.
        """
        in_use = min(self.working, connected * self.connection)
        return rss + max(0, self.once - filled) + self.shared + self.working - in_use


def compute_bounds(variables: Mapping[str, str], catalogue: Mapping[str, Any]) -> Bounds:
    """Compute them from SHOW GLOBAL VARIABLES, names in lower case. ``catalogue``:
    :func:`dballoc.catalogue.bounds`.
    """

    def total(names: list[str]) -> int:
        return sum(_parse_bytes(variables.get(name, "")) for name in names)

    shared, shared_caps = _sum_temptable(variables, catalogue)
    caps = [cap for name in catalogue["caps"] if (cap := _read_cap(variables, catalogue, name))]
    in_force = [cap for cap in caps if cap.in_force]
    return Bounds(
        once=total(catalogue["once"]),
        connection=total(catalogue["connection"]),
        statement=total(catalogue["statement"]) - _count_unusable_tmp_table(variables, shared),
        connections=_parse_bytes(variables.get("max_connections", "")),
        caps=[*shared_caps, *(cap.text for cap in caps)],
        shared=shared,
        each=min((cap.size for cap in in_force if cap.scope == "connection"), default=None),
        all=min((cap.size for cap in in_force if cap.scope == "connections"), default=None),
        more=[
            f"{name} ({_format_size(_parse_bytes(variables[name]))}): {of}"
            for name, of in catalogue["more"].items()
            if _parse_bytes(variables.get(name, ""))
        ],
    )


@dataclass(frozen=True)
class _Cap:
    """A limit of the server's: bytes, on what (``connection`` or ``connections``), and in words."""

    size: int
    scope: str
    in_force: bool
    text: str


def _read_cap(variables: Mapping[str, str], catalogue: Mapping[str, Any], name: str) -> _Cap | None:
    """Return a limit, None where the server has none of that name."""
    cap = catalogue["caps"][name]
    size = _parse_bytes(variables.get(name, ""))
    if not size or variables[name] == cap["none"]:
        return None
    needs = cap.get("needs")
    idle = bool(needs) and variables.get(needs["variable"]) != needs["value"]
    tail = f"; not in force without {needs['variable']} = {needs['value']}" if idle else ""
    text = f"{name} = {_format_size(size)} for {cap['of']}{tail}"
    return _Cap(size, cap["scope"], not idle, text)


def _count_unusable_tmp_table(variables: Mapping[str, str], shared: int) -> int:
    """Return the bytes of tmp_table_size that no table in memory can use: one of the engine MEMORY
    ends at max_heap_table_size, if that is smaller, and TempTable has one store for all.
    """
    if "tmp_table_size" not in variables:
        return 0
    limit = _parse_bytes(variables["tmp_table_size"])
    if shared:
        return limit
    return max(0, limit - _parse_bytes(variables.get("max_heap_table_size", str(limit))))


def _sum_temptable(
    variables: Mapping[str, str], catalogue: Mapping[str, Any]
) -> tuple[int, list[str]]:
    """Return the bytes that TempTable may have in all, and its limits in words; nothing where it is
    not used.
    """
    if variables.get("internal_tmp_mem_storage_engine", "").lower() != "temptable":
        return 0, []
    total, texts = 0, []
    for name, entry in catalogue["temptable"].items():
        size, unless = _parse_bytes(variables.get(name, "")), entry.get("unless")
        if not size or (unless and variables.get(unless["variable"]) == unless["value"]):
            continue
        total += size
        texts.append(f"{name} = {_format_size(size)} for {entry['of']}")
    return total, texts


@dataclass(frozen=True)
class AvailableMemory:
    """The machine's memory and the narrowest cgroup's limit, bytes; None without a limit."""

    machine: int
    limit: int | None

    @property
    def least(self) -> int:
        """The narrower of both."""
        return min(self.machine, self.limit) if self.limit else self.machine


def judge_bounds(bounds: Bounds, room: AvailableMemory, rss: int) -> str:
    """Return whether the OOM killer may come, in a sentence."""
    place = "the cgroup" if room.limit and room.limit < room.machine else "the machine"
    available = f"{room.least / 2**30:.1f} GiB of {place}"
    if rss > 0.95 * room.least:
        return f"RSS has {rss / room.least:.0%} of the {available}: the OOM killer is near"
    if min(bounds.plain, bounds.capped) > room.least:
        return (
            f"its buffers alone, with all connections in use, are more than the {available}: it "
            "may be killed without a big query"
        )
    if bounds.capped > room.least:
        return (
            "all connections with one sort, join and temporary table each would need more than "
            f"the {available}"
        )
    if bounds.worst > room.least:
        return (
            "the server's own limits keep one of each buffer for every connection within the "
            f"{available}"
        )
    return (
        f"even one of each buffer for every connection fits the {available}; the allocator's own "
        "overhead comes on top"
    )


def _format_size(size: int) -> str:
    return (
        f"{size / 2**30:,.0f} GiB"
        if size >= 64 << 30
        else f"{size / 2**20:,.4g} MiB"
        if size < 10 << 20
        else f"{size / 2**20:,.0f} MiB"
    )


def _parse_bytes(value: str) -> int:
    return int(value) if is_number(value) else 0
