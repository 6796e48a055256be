"""Server families: the catalogue's entry of each (servers.toml), as one type."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from dballoc.catalogue import look_up, servers
from dballoc.fetch.name_and_version import parse_version_numbers


@dataclass(frozen=True, kw_only=True)
class Family:
    """A server family as the releases of one age have it. ``lineage``: its name, and those of the
    families that it inherits from; the other fields are explained at the top of servers.toml.
    """

    lineage: tuple[str, ...]
    called: str
    title: str
    binaries: list[str]
    mark: str
    units: list[str]
    packages: list[str]
    bootstrap: str
    fixed: list[str]
    redo_files: int
    validate: list[str]
    backup: dict[str, Any]
    options: dict[str, str]
    defaults: dict[str, str]
    once: dict[str, str]
    engines: dict[str, dict[str, str]]
    replication: dict[str, Any]
    scripts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The catalogue's name."""
        return self.lineage[0]


@cache
def describe_family(name: str, version: str | None = None) -> Family:
    """Return a family as releases as old as ``version`` have it (None: the newest). Raises
    UsageError if there is no such family.
    """
    row: dict[str, Any] = look_up(servers(), name, "server")
    parent = row.get("inherits")
    lineage = (name, *(describe_family(parent).lineage if parent else ()))
    bounds: dict[str, Any] = row.get("before", {})
    if version is not None:
        numbers = parse_version_numbers(version.partition("-")[0])
        for bound in sorted(bounds, key=parse_version_numbers, reverse=True):
            if numbers < parse_version_numbers(bound):
                row = row | bounds[bound]
    left_out = ("inherits", "before")
    return Family(lineage=lineage, **{k: v for k, v in row.items() if k not in left_out})


def find_family_named(title: str) -> Family:
    """Return the family that a server's title or program names; MySQL where it names none."""
    named = (family for family in list_families() if family.name in title.lower())
    return next(named, describe_family("mysql"))


def list_families() -> list[Family]:
    """List the families; a family comes before the one that it inherits from, because it has the
    marks of both.
    """
    return sorted(map(describe_family, servers()), key=lambda family: -len(family.lineage))
