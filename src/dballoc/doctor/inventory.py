"""List what the catalogue has, and what of it is on this machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dballoc import catalogue
from dballoc.allocators import find_library as find_allocator
from dballoc.allocators import host_requirements, tunables
from dballoc.allocators.find_library import Allocator
from dballoc.fetch import fetch_sources, name_and_version, private_store
from dballoc.fetch.fetch_sources import FetchSource, Kind
from dballoc.fetch.private_store import FetchedEntry
from dballoc.ground.errors import UsageError
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
class ShippedWorkload:
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


def list_workloads() -> list[ShippedWorkload]:
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
        ShippedWorkload(
            name,
            row["title"],
            any(scripts[w].writes for w in row["workloads"]),
            scripts[row["workloads"][0]].script,
        )
        for name, row in catalogue.cycles().items()
    ]


def _make_workload(
    name: str, row: dict[str, Any], directories: list[Path], has_sysbench: bool
) -> ShippedWorkload:
    if row.get("hammerdb") and (hammerdb := hammerdb_command.find()):
        return ShippedWorkload(name, hammerdb.does, row.get("writes", False), hammerdb.executable)
    return ShippedWorkload(
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
            library = None if version else _find_library(allocator)
            shown_version = library.version if library else version or None
            rows += _list_settings(allocator, family, shown_version)
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


def _find_library(name: str) -> Allocator | None:
    """Find an allocator's library here or in the private store; None if there is none."""
    try:
        return find_allocator.find_allocator(name)
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
    library = _find_library(name)
    version, paths = (library.version, library.libraries) if library else (None, ())
    return InventoryItem(
        name=name,
        title=row["title"],
        version=version,
        paths=paths,
        package=packages.choose(row["packages"]) if "packages" in row else None,
        more={
            "url": row["url"],
            "settings": row["tunables"].get("env", "none"),
            "otherwise": f"dballoc fetch {name}"
            if fetch_sources.list_sources(name)
            else "give its file: preload = [PATH] in a variant",
            "note": _describe_fit(row, name, version),
        },
    )


def _describe_fit(row: dict[str, Any], name: str, version: str | None) -> str:
    """Return what to know of an allocator on this machine, or of its source; empty if nothing."""
    return host_requirements.describe_fit(row, name, version or "", host_requirements.read_host())


def _describe_fetched(
    row: dict[str, Any], name: str, version: str | None, entry: FetchedEntry | None
) -> str:
    """Return what to know of one version of an allocator; empty if nothing."""
    build = entry.untried_build if entry else None
    untried = f"not tried by dballoc's authors: built from an archive of yours by {build}"
    return "; ".join(filter(None, [untried if build else "", _describe_fit(row, name, version)]))


def _make_server_item(name: str, row: dict[str, Any], packages: Packages) -> InventoryItem:
    server = _find_server(name)
    return InventoryItem(
        name=name,
        title=row["title"],
        version=server.version if server else None,
        paths=(server.executable,) if server else (),
        package=packages.choose(row["packages"]),
        more={
            "engines": server.engines if server else list(row["engines"]),
            "otherwise": "unpack one and give its directory: server.basedir",
        },
    )


def _make_fetched_item(
    word: str, entry: FetchedEntry | None, source: FetchSource | None
) -> InventoryItem:
    """Make the item of what was fetched; else of the machine's own build or library, if it has that
    very version.
    """
    name, source_version = name_and_version.split_reference(word)
    is_server = name in catalogue.servers()
    row = (catalogue.servers() if is_server else catalogue.allocators())[name]
    size = (
        f" ({source.download / 10**6:,.0f} MB, {source.room / 10**6:,.0f} MB on disk)"
        if source
        else ""
    )
    server = _find_server(word) if is_server else None
    library = None if is_server or entry else _find_library(word)
    version: str | None = None
    paths: tuple[Path, ...] = ()
    if entry is not None:
        version, paths = entry.version, entry.libraries or (entry.root,)
    elif server is not None:
        version, paths = server.version, (server.executable,)
    elif library is not None:
        version, paths = library.version, library.libraries
    fitting = entry.version if entry else source_version
    return InventoryItem(
        name=word,
        title=row["title"],
        version=version,
        paths=paths,
        package=None,
        more={
            "engines": server.engines if server else list(row.get("engines", [])),
            "settings": row.get("tunables", {}).get("env", "none"),
            "otherwise": f"dballoc fetch {word}{size}",
            "note": "" if is_server else _describe_fetched(row, name, fitting, entry),
        },
    )


def _find_script(module: str, directories: list[Path]) -> Path | None:
    return next((d / f"{module}.lua" for d in directories if (d / f"{module}.lua").exists()), None)
