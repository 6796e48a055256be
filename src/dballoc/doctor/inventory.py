"""List what the catalogue has, and what of it is on this machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dballoc import catalogue
from dballoc.allocators import find_library as find_allocator
from dballoc.allocators import host_requirements, tunables
from dballoc.errors import UsageError
from dballoc.fetch import fetch_sources, name_and_version, private_store
from dballoc.fetch.fetch_sources import Kind, Source
from dballoc.fetch.private_store import FetchedEntry
from dballoc.host.package_names import Packages
from dballoc.load import hammerdb_command, sysbench_command
from dballoc.load.workload import lua
from dballoc.servers import build as find_build
from dballoc.servers.build import Build


@dataclass(frozen=True, kw_only=True)
class InventoryItem:
    """An allocator or a server family. ``version`` is None if it is not on this machine;
    ``package`` then names the package that has it, if there is one.
    """

    name: str
    title: str
    version: str | None
    paths: tuple[Path, ...]
    package: str | None
    more: dict[str, Any]

    @property
    def remedy(self) -> str:
        """How to install it. With ``--no-remove``, as one server's package may conflict with
        another's, which must stay on the machine.
        """
        return (
            f"apt-get install --no-remove {self.package}"
            if self.package
            else self.more["otherwise"]
        )


@dataclass(frozen=True)
class Workload:
    """``script`` is None if sysbench, or its script of that name, is not on this machine."""

    name: str
    title: str
    writes: bool
    script: Path | None


@dataclass(frozen=True, kw_only=True)
class AllocatorSetting:
    """One setting of an allocator. ``available``: whether the version on this machine has it; None
    where there is none.
    """

    allocator: str
    name: str
    values: str
    default: str
    unit: str
    versions: str
    available: bool | None
    variable: str
    effect: str


def list_allocators() -> list[InventoryItem]:
    """List every allocator of the catalogue."""
    return [
        _make_allocator_item(name, row, _list_packages())
        for name, row in catalogue.allocators().items()
    ]


def list_servers() -> list[InventoryItem]:
    """List every server family of the catalogue."""
    return [
        _make_server_item(name, row, _list_packages()) for name, row in catalogue.servers().items()
    ]


def list_fetchable(kind: Kind) -> list[InventoryItem]:
    """List every version that can be fetched, and those that were, vendors' archives included."""
    entries = {k.reference: k for k in private_store.list_fetched() if k.manifest["kind"] == kind}
    sources = {s.reference: s for s in fetch_sources.list_all_sources() if s.kind == kind}
    return [
        _make_fetched_item(word, entries.get(word), sources.get(word))
        for word in dict.fromkeys([*sources, *entries])
    ]


def list_workloads() -> list[Workload]:
    """List every workload of the catalogue."""
    directories = [lua()]
    try:
        directories.append(sysbench_command.find().share)
        has_sysbench = True
    except UsageError:
        has_sysbench = False
    listed = [
        _make_workload(name, row, directories, has_sysbench)
        for name, row in catalogue.workloads().items()
    ]
    scripts = {workload.name: workload for workload in listed}
    return listed + [
        Workload(
            name,
            row["title"],
            any(scripts[w].writes for w in row["workloads"]),
            scripts[row["workloads"][0]].script,
        )
        for name, row in catalogue.cycles().items()
    ]


def _make_workload(
    name: str, row: dict[str, Any], directories: list[Path], has_sysbench: bool
) -> Workload:
    if row.get("hammerdb") and (hammerdb := hammerdb_command.find()):
        return Workload(name, hammerdb.does, row.get("writes", False), hammerdb.executable)
    return Workload(
        name,
        row["title"],
        row.get("writes", False),
        _find_script(row["script"], directories) if has_sysbench else None,
    )


def list_settings(name: str | None) -> list[AllocatorSetting]:
    """List the settings of one allocator (``NAME`` or ``NAME@VERSION``), or of all. UsageError for
    one that the catalogue does not know.
    """
    bare, _, version = (name or "").partition("@")
    if bare:
        catalogue.look_up(catalogue.allocators(), bare, "allocator")
    rows = []
    for family in catalogue.tunables().values():
        # Where allocators share their settings, they are listed for the first one.
        allocator = bare or family["allocators"][0]
        if allocator in family["allocators"]:
            rows += _list_settings(allocator, family, version or _find_version(allocator))
            rows += _list_rseq(allocator)
    return rows


def _list_rseq(name: str) -> list[AllocatorSetting]:
    """List the setting of glibc's that an allocator depends on; none for most."""
    if not (needed := catalogue.allocators().get(name, {}).get("rseq")):
        return []
    return [
        AllocatorSetting(
            allocator=name,
            name=host_requirements.RSEQ,
            values="0, 1",
            default="dballoc sets "
            + ", ".join(f"{row['value']} on {row['where']}" for row in needed),
            unit="",
            versions="",
            available=None,
            variable="GLIBC_TUNABLES",
            effect="0: glibc leaves restartable sequences to the allocator; 1: it keeps them",
        )
    ]


def _list_settings(
    name: str, family: dict[str, Any], version: str | None
) -> list[AllocatorSetting]:
    style = catalogue.allocators().get(name, {}).get("tunables", {}).get("env", "")
    return [
        AllocatorSetting(
            allocator=name,
            name=key,
            values=tunables.describe_values(family, row, version or ""),
            default=tunables.describe_default(row, version or ""),
            unit=row.get("unit", ""),
            versions=", ".join(row.get("versions", [])),
            available=None if version is None else tunables.is_in_version(row, version),
            variable=row.get("variable") or style.format(NAME=key.upper()),
            effect=row["effect"],
        )
        for key, row in family["settings"].items()
    ]


def _find_version(name: str) -> str | None:
    try:
        return find_allocator.find_allocator(name).version
    except UsageError:
        return None


def _find_server(name: str) -> Build | None:
    """Find the build of a server on this machine or in the private store; None if none runs."""
    try:
        return find_build.find(name, None)
    except UsageError:
        return None


def _list_packages() -> Packages:
    rows = [*catalogue.allocators().values(), *catalogue.servers().values()]
    return Packages(package for row in rows for package in row.get("packages", []))


def _make_allocator_item(name: str, row: dict[str, Any], packages: Packages) -> InventoryItem:
    more = {
        "url": row["url"],
        "settings": row["tunables"].get("env", "none"),
        "otherwise": f"dballoc fetch {name}"
        if fetch_sources.list_sources(name)
        else "give its file: preload = [PATH] in a variant",
        "note": _describe_fit(row, name, None),
    }
    package = packages.choose(row["packages"]) if "packages" in row else None
    try:
        library = find_allocator.find_allocator(name)
    except UsageError:
        return InventoryItem(
            name=name, title=row["title"], version=None, paths=(), package=package, more=more
        )
    return InventoryItem(
        name=name,
        title=row["title"],
        version=library.version,
        paths=library.libraries,
        package=package,
        more=more | {"note": _describe_fit(row, name, library.version)},
    )


def _describe_fit(row: dict[str, Any], name: str, version: str | None) -> str:
    """Return what to know of an allocator on this machine, or of its source; empty if nothing."""
    return host_requirements.describe_fit(row, name, version or "", host_requirements.read_host())


def _make_server_item(name: str, row: dict[str, Any], packages: Packages) -> InventoryItem:
    more = {
        "engines": list(row["engines"]),
        "otherwise": "unpack one and give its directory: server.basedir",
    }
    package = packages.choose(row["packages"])
    if (server := _find_server(name)) is None:
        return InventoryItem(
            name=name, title=row["title"], version=None, paths=(), package=package, more=more
        )
    return InventoryItem(
        name=name,
        title=row["title"],
        version=server.version,
        paths=(server.executable,),
        package=package,
        more=more | {"engines": server.engines},
    )


def _make_fetched_item(
    word: str, entry: FetchedEntry | None, source: Source | None
) -> InventoryItem:
    name, source_version = name_and_version.split_reference(word)
    row = {**catalogue.allocators(), **catalogue.servers()}[name]
    size = (
        f" ({source.download / 10**6:,.0f} MB, {source.room / 10**6:,.0f} MB on disk)"
        if source
        else ""
    )
    more = {
        "engines": list(row.get("engines", [])),
        "settings": row.get("tunables", {}).get("env", "none"),
        "otherwise": f"dballoc fetch {word}{size}",
        "note": _describe_fit(row, name, entry.version if entry else source_version)
        if name in catalogue.allocators()
        else "",
    }
    if entry is not None:
        if name in catalogue.servers() and (server := _find_server(word)):
            more["engines"] = server.engines
        return InventoryItem(
            name=word,
            title=row["title"],
            version=entry.version,
            paths=entry.libraries or (entry.root,),
            package=None,
            more=more,
        )
    # The machine's own build or library may have that very version.
    try:
        if name in catalogue.servers():
            server = find_build.find(word, None)
            return InventoryItem(
                name=word,
                title=row["title"],
                version=server.version,
                paths=(server.executable,),
                package=None,
                more=more | {"engines": server.engines},
            )
        library = find_allocator.find_allocator(word)
        return InventoryItem(
            name=word,
            title=row["title"],
            version=library.version,
            paths=library.libraries,
            package=None,
            more=more,
        )
    except UsageError:
        return InventoryItem(
            name=word, title=row["title"], version=None, paths=(), package=None, more=more
        )


def _find_script(module: str, directories: list[Path]) -> Path | None:
    return next((d / f"{module}.lua" for d in directories if (d / f"{module}.lua").exists()), None)
