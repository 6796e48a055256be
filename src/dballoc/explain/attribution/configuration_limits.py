"""What the configuration allows a server to ask for. Not what it uses, and never mixed with it.
Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Bytes. ``once``: buffers of which there is one; ``connection``: of each of ``connections`` at
    a time; ``statement``: one of each that a statement may have several of; ``shared``: what the
    temporary tables of all of them may have; ``caps``: limits that the server has against it, in
    words; ``each`` and ``all``: the narrowest of those in force, of one connection and of all, None
    without; ``more``: what there may be several of, in words.
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
        """Every connection with its own buffers, and none at work on more than rows."""
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
        one = self.connection + self.statement
        whole = self.connections * (one if self.each is None else min(one, self.each))
        return whole if self.all is None else min(whole, self.all)

    def reach(self, rss: int, filled: int, connected: int) -> int:
        """What RSS can still grow to from ``rss``, without any other growth: ``filled``, what is
        resident already of what there is once; ``connected``: connections that have their own
        buffers already.
        """
        theirs = min(self.working, connected * self.connection)
        return rss + max(0, self.once - filled) + self.shared + self.working - theirs


def bounds(variables: Mapping[str, str], catalogue: Mapping[str, Any]) -> Bounds:
    """From SHOW GLOBAL VARIABLES, names in lower case. ``catalogue``:
    :func:`dballoc.catalogue.bounds`.
    """

    def total(names: list[str]) -> int:
        return sum(_bytes(variables.get(name, "")) for name in names)

    statement = total(catalogue["statement"])
    shared, caps = _shared(variables, catalogue)
    if "tmp_table_size" in variables:
        table = _bytes(variables["tmp_table_size"])
        # In memory, a table of the engine MEMORY ends at the smaller of the two; TempTable has one
        # store for all.
        heap = (
            0
            if shared
            else _bytes(variables.get("max_heap_table_size", variables["tmp_table_size"]))
        )
        statement -= max(0, table - heap)
    narrow: dict[str, list[int]] = {"connection": [], "connections": []}
    for name, cap in catalogue["caps"].items():
        size = _bytes(variables.get(name, ""))
        if not size or variables[name] == cap["none"]:
            continue
        needs = cap.get("needs")
        idle = bool(needs) and variables.get(needs["variable"]) != needs["value"]
        tail = f"; not in force without {needs['variable']} = {needs['value']}" if idle else ""
        caps.append(f"{name} = {_words(size)} for {cap['of']}{tail}")
        if not idle and cap["scope"] in narrow:
            narrow[cap["scope"]].append(size)
    more = [
        f"{name} ({_words(_bytes(variables[name]))}): {of}"
        for name, of in catalogue["more"].items()
        if _bytes(variables.get(name, ""))
    ]
    return Bounds(
        once=total(catalogue["once"]),
        connection=total(catalogue["connection"]),
        statement=statement,
        connections=_bytes(variables.get("max_connections", "")),
        caps=caps,
        shared=shared,
        each=min(narrow["connection"], default=None),
        all=min(narrow["connections"], default=None),
        more=more,
    )


def _shared(variables: Mapping[str, str], catalogue: Mapping[str, Any]) -> tuple[int, list[str]]:
    """What TempTable may have in all, and that in words; nothing where it is not used."""
    if variables.get("internal_tmp_mem_storage_engine", "").lower() != "temptable":
        return 0, []
    whole, words = 0, []
    for name, entry in catalogue["temptable"].items():
        size, unless = _bytes(variables.get(name, "")), entry.get("unless")
        if not size or (unless and variables.get(unless["variable"]) == unless["value"]):
            continue
        whole += size
        words.append(f"{name} = {_words(size)} for {entry['of']}")
    return whole, words


@dataclass(frozen=True)
class Room:
    """What there is: the machine's memory and the narrowest cgroup's limit, bytes; None without a
    limit.
    """

    machine: int
    limit: int | None

    @property
    def least(self) -> int:
        """The narrower of both."""
        return min(self.machine, self.limit) if self.limit else self.machine


def verdict(found: Bounds, room: Room, rss: int) -> str:
    """Whether the OOM killer may come, in a sentence."""
    have = (
        f"{room.least / 2**30:.1f} GiB of "
        f"{'the cgroup' if room.limit and room.limit < room.machine else 'the machine'}"
    )
    if rss > 0.95 * room.least:
        return f"RSS has {rss / room.least:.0%} of the {have}: the OOM killer is near"
    if min(found.plain, found.capped) > room.least:
        return (
            f"its buffers alone, with all connections in use, are more than the {have}: it may be "
            "killed without a big query"
        )
    if found.capped > room.least:
        return (
            "all connections with one sort, join and temporary table each would need more than "
            f"the {have}"
        )
    if found.worst > room.least:
        return (
            "the server's own limits keep one of each buffer for every connection within the "
            f"{have}"
        )
    return (
        f"even one of each buffer for every connection fits the {have}; the allocator's own "
        "overhead comes on top"
    )


def _words(size: int) -> str:
    return (
        f"{size / 2**30:,.0f} GiB"
        if size >= 64 << 30
        else f"{size / 2**20:,.4g} MiB"
        if size < 10 << 20
        else f"{size / 2**20:,.0f} MiB"
    )


def _bytes(value: str) -> int:
    return int(value) if value.isdigit() else 0
