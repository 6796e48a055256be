"""Choose what a kit carries: the experiment's servers, programs, mallocs and files, found as
``bench`` finds them on this machine.
"""

import itertools
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from dballoc.allocators import find_library as find_allocator
from dballoc.allocators.find_library import Allocator
from dballoc.campaign.preparation import variant_malloc
from dballoc.experiment.model import BUILTIN, Experiment, Server
from dballoc.fetch import closed_store, name_and_version, private_store
from dballoc.fetch.private_store import FetchedEntry
from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.load import sysbench_command, workload
from dballoc.load.sysbench_command import Sysbench
from dballoc.load.workload import LARGEST_FILE, Workload
from dballoc.servers import build as find_build
from dballoc.servers import client_programs
from dballoc.servers.build import Build

_REQUIRE = re.compile(r"""\brequire\s*\(?\s*["']([\w.-]+)["']""")
# Options that name plugins, as they are written with dashes.
_PLUGIN_OPTIONS = ("plugin-load", "plugin-load-add")


@dataclass(frozen=True, kw_only=True)
class ServerPart:
    """A server. ``words``: what the experiment calls it; ``of_machine``: whether it is installed on
    this machine, and shares its libraries; ``fetched``: its entry in this machine's store;
    ``programs``: what workloads run beside sysbench; ``plugins``: what it loads.
    """

    words: tuple[str, ...]
    build: Build
    of_machine: bool
    fetched: FetchedEntry | None
    programs: tuple[Path, ...] = ()
    plugins: tuple[Path, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MallocPart:
    """A malloc of the catalogue, by the experiment's reference."""

    reference: str
    allocator: Allocator
    fetched: FetchedEntry | None


@dataclass(frozen=True, kw_only=True)
class KitParts:
    """All that is carried beside dballoc itself. ``files``: what the experiment names by path."""

    servers: tuple[ServerPart, ...]
    mallocs: tuple[MallocPart, ...]
    files: tuple[Path, ...]
    sysbench: Sysbench


def choose_parts(experiments: Iterable[Experiment]) -> KitParts:
    """Find all parts of the experiments that one file is. Raises UsageError for what is not here,
    and for what a kit cannot carry.
    """
    if closed_store.open_closed_store():
        raise UsageError(
            "kit: this is a kit itself, which finds nothing of its host's; make another where the "
            "servers are installed or fetched"
        )
    servers: dict[Path, ServerPart] = {}
    mallocs: dict[str, MallocPart] = {}
    files: dict[Path, None] = {}
    for experiment in experiments:
        refuse_uncarried(experiment)
        works = list(workload.settle(experiment).values())
        _refuse_hammerdb(works)
        for variant in experiment.variant:
            server = experiment.server_of(variant)
            build = find_build.find(server.use, server.basedir)
            variant_malloc.choose_malloc(build, server, variant)  # refuses what bench would refuse
            part = _describe_server(server, build, works)
            before = servers.get(build.executable)
            servers[build.executable] = join_uses(before, part) if before else part
            for reference in _list_references(variant.allocator, server.glibc):
                mallocs[reference] = _describe_malloc(reference)
            files |= dict.fromkeys(variant_malloc.find_preloads(variant))
        for work in works:
            if work.file:
                _refuse_beside(work.name, work.file)
                files[work.file] = None
    return KitParts(
        servers=tuple(servers.values()),
        mallocs=tuple(mallocs.values()),
        files=tuple(files),
        sysbench=sysbench_command.find(),
    )


def refuse_uncarried(experiment: Experiment) -> None:
    """Raises UsageError for an experiment that a kit cannot carry. Pure."""
    if experiment.replay:
        raise UsageError("kit: a replay has no server; copy its trace, and run dballoc replay")
    if experiment.tune:
        raise UsageError("kit: a search of dballoc tune needs this machine's packages; use bench")
    if experiment.record:
        raise UsageError("kit: record: traces need packages that a kit does not have; leave it out")
    for value, key in ((experiment.data.directory, "directory"), (experiment.data.sql, "sql")):
        if value:
            raise UsageError(
                f"kit: data.{key}: data of your own are not carried; leave it out, and sysbench's "
                "tables are made there"
            )
    for variant in experiment.variant:
        if variant.server.recipe and experiment.server_of(variant).basedir is None:
            raise UsageError(
                f"variant {variant.name!r}: its server cannot be fetched: {variant.server.recipe}"
            )


def _refuse_hammerdb(works: Iterable[Workload]) -> None:
    for work in works:
        if work.driver == "hammerdb" or work.hammerdb:
            raise UsageError(
                f"kit: workload {work.name!r}: HammerDB is not carried; use a workload of sysbench"
            )


def _refuse_beside(name: str, script: Path) -> None:
    """Raises UsageError for a script that loads another one of its directory."""
    loaded = find_loaded_modules(readers.text(script, LARGEST_FILE))
    for module in loaded:
        if (script.parent / f"{module}.lua").is_file():
            raise UsageError(
                f"kit: workload {name!r}: {script} loads {module}.lua beside it, which is not "
                "carried; put both into one file"
            )


def find_loaded_modules(script: str) -> list[str]:
    """Find the modules that a Lua script names in ``require``. Pure."""
    return _REQUIRE.findall(script)


def _describe_server(server: Server, build: Build, works: Iterable[Workload]) -> ServerPart:
    programs = [
        client_programs.find(build, w.program, f"{w.name} runs {' or '.join(w.program)}")
        for w in works
        if w.program
    ]
    programs += [
        client_programs.find_backup(build, f"workload {w.name!r}") for w in works if w.backup
    ]
    fetched = private_store.find_owner(build.executable)
    return ServerPart(
        words=(closed_store.join_server_words(server.use, server.basedir),),
        build=build,
        of_machine=fetched is None and server.basedir is None,
        fetched=fetched,
        programs=tuple(dict.fromkeys(programs)),
        plugins=_find_plugins(server, build),
    )


def _find_plugins(server: Server, build: Build) -> tuple[Path, ...]:
    """Return the plugins that the engine and the server's options load. Raises UsageError if one is
    not there.
    """
    options = {**build.entry.engines.get(server.engine, {}), **server.options}
    names = list_plugins(options) + list_plugins(server.init_options)
    plugins = []
    for name in dict.fromkeys(names):
        path = (build.plugins or Path()) / f"{name.removesuffix('.so')}.so"
        if build.plugins is None or not path.is_file():
            raise UsageError(f"server {server.use!r}: no plugin {name} in {build.plugins}")
        plugins.append(path)
    return tuple(plugins)


def list_plugins(options: dict[str, str]) -> list[str]:
    """List the files of plugins that options load: ``[NAME=]FILE;…``. Pure."""
    values = [v for k, v in options.items() if k.replace("_", "-") in _PLUGIN_OPTIONS]
    words = [word for value in values for word in value.replace(":", ";").split(";") if word]
    return [word.rpartition("=")[2] for word in words]


def join_uses(first: ServerPart, other: ServerPart) -> ServerPart:
    """Return a server that variants name, or start, in two ways. Pure."""
    return replace(
        first,
        words=tuple(dict.fromkeys([*first.words, *other.words])),
        programs=tuple(dict.fromkeys([*first.programs, *other.programs])),
        of_machine=first.of_machine and other.of_machine,
        plugins=tuple(dict.fromkeys([*first.plugins, *other.plugins])),
    )


def _list_references(allocator: str | None, glibc: str | None) -> list[str]:
    """List the mallocs and C libraries that a variant names."""
    of_malloc = [] if allocator in (None, BUILTIN, "glibc") else [allocator]
    return of_malloc + ([name_and_version.join_reference("glibc", glibc)] if glibc else [])


def _describe_malloc(reference: str) -> MallocPart:
    allocator = find_allocator.find_allocator(reference)
    files = [*allocator.libraries, *([allocator.loader] if allocator.loader else [])]
    return MallocPart(
        reference=reference,
        allocator=allocator,
        fetched=private_store.find_owner(files[0]) if files else None,
    )


def name_entry(name: str, version: str, names: Iterable[str]) -> str:
    """Return a name for a directory of the store that is not among ``names``. Pure."""
    wanted = f"{name}@{version}".replace(os.sep, "-")
    used = set(names)
    numbered = (f"{wanted}.{number}" for number in itertools.count(2))
    return next(each for each in itertools.chain([wanted], numbered) if each not in used)
