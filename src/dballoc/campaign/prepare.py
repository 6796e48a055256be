"""Everything that is settled before the first start: builds, allocators, environments, CPU sets, proof, room.

Whatever is wrong here is one line, and nothing was started.
"""

import json
import os
import tempfile
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import psutil

from dballoc.allocators import environment, proof
from dballoc.allocators import find as find_allocator
from dballoc.allocators.find import Allocator
from dballoc.campaign import contents
from dballoc.campaign.contents import Contents
from dballoc.errors import UsageError
from dballoc.experiment.model import Experiment, Server, Variant
from dballoc.experiment.units import parse_size
from dballoc.host import cgroup, cpus, places, thp
from dballoc.host.user import ServerUser, server_user
from dballoc.load import sysbench, workload
from dballoc.servers import build as find_build
from dballoc.servers import options as server_options
from dballoc.servers import template, validate
from dballoc.servers.build import Build

# A server's memory beside its cache, for the estimate alone: fixed, and for each connection.
_BASE_MEMORY = 200 * 2**20
_CONNECTION_MEMORY = 2 * 2**20

_POOL_DEFAULTS = {"innodb-buffer-pool-size": 128 * 2**20, "rocksdb-block-cache-size": 512 * 2**20}


@dataclass(frozen=True)
class Prepared:
    """A variant as it will run on this machine."""

    variant: Variant
    server: Server
    build: Build
    allocator: Allocator
    env: dict[str, str]
    options: dict[str, str]
    server_cpus: frozenset[int] | None
    client_cpus: frozenset[int] | None
    recipe: template.Recipe
    bindings: proof.Bindings
    pool_bytes: int | None
    nofile: int

    def row(self) -> dict[str, Any]:
        """For the table ``variant``."""
        own = {k: v for k, v in self.env.items() if k not in environment.clean(os.environ)}
        address = server_options.Address(Path("SOCKET"), 0 if self.server.connect == "tcp" else None)
        return {
            "name": self.variant.name,
            "allocator": self.allocator.name,
            "allocator_version": self.allocator.version,
            "libraries": json.dumps(self.env.get("LD_PRELOAD", "").split(":") if "LD_PRELOAD" in self.env else []),
            "environment": json.dumps(own, sort_keys=True),
            "server": self.build.title,
            "server_version": self.build.version,
            "engine": self.server.engine,
            "command": json.dumps(server_options.command(self.build, Path("DATA"), address, self.options)),
            "pool_bytes": self.pool_bytes,
            "thp": self.variant.thp,
        }


@dataclass(frozen=True)
class Setting:
    """The whole campaign as it will run on this machine."""

    experiment: Experiment
    variants: dict[str, Prepared]
    user: ServerUser
    sysbench: sysbench.Sysbench
    contents: Contents

    @property
    def memory_needed(self) -> int:
        """Bytes that the hungriest variant is expected to take."""
        clients = max(self.experiment.threads)
        return max((p.pool_bytes or 0) for p in self.variants.values()) + _BASE_MEMORY + clients * _CONNECTION_MEMORY

    @property
    def disk_needed(self) -> int:
        """Bytes in the cache: the templates still to be made, and one copy of the largest."""
        recipes = {p.recipe.key: p.recipe for p in self.variants.values()}
        made = {key: template.find(recipe) for key, recipe in recipes.items()}
        sizes = {key: t.size if t else template.estimate_bytes(recipes[key]) for key, t in made.items()}
        return sum(sizes[key] for key, t in made.items() if t is None) + max(sizes.values())


def settle(experiment: Experiment) -> Setting:
    """Find and check everything. UsageError for whatever this machine cannot do as asked."""
    client = replace(sysbench.find(), workloads=workload.settle(experiment))
    of = contents.settle(experiment, client)
    user = server_user()
    _check_places(user)
    if experiment.limits.memory is not None:
        cgroup.check()
    variants = {v.name: _settle_variant(experiment, v, user, client, of) for v in experiment.variant}
    setting = Setting(experiment, variants, user, client, of)
    _check_room(setting)
    return setting


def _check_places(user: ServerUser) -> None:
    places.check_socket_path()
    for path, name in ((places.cache(), "DBALLOC_CACHE"), (Path(tempfile.gettempdir()), "TMPDIR")):
        if blocked := user.may_not_pass(path):
            raise UsageError(
                f"{path}: the server runs as {user.name}, which may not pass {blocked}; set {name} to an open directory"
            )


def _settle_variant(
    experiment: Experiment, variant: Variant, user: ServerUser, client: sysbench.Sysbench, of: Contents
) -> Prepared:
    where = f"variant {variant.name!r}"
    server = experiment.server_of(variant)
    build = find_build.find(server.use, server.basedir)
    if blocked := user.blocked_at(build.executable):
        raise UsageError(f"{where}: the server runs as {user.name}, which may not read {blocked}; open it, or move the server")
    if server.engine not in build.entry["engines"]:
        raise UsageError(f"{where}: {build.title} has no engine {server.engine!r}; it has {', '.join(build.entry['engines'])}")
    for chosen in (server.options, server.init_options):
        server_options.check(chosen, where)
    preload = tuple(Path(p).expanduser().absolute() for p in variant.preload)
    before: tuple[Path, ...] = (_thp_shim(),) if variant.thp in ("always", "madvise") else ()
    if variant.allocator is None and preload:
        allocator = find_allocator.by_path(preload)
    else:
        allocator = find_allocator.find(variant.allocator or "glibc")
        for library in preload:
            find_allocator.check_library(library)
        before += preload
    for library in (*before, *allocator.libraries):
        if blocked := user.blocked_at(library):
            raise UsageError(f"{where}: preload {library}: the server runs as {user.name}, which may not read {blocked}")
    env = environment.environment(os.environ, allocator, variant.tunables, variant.env, before)
    bindings = _prove(where, build, env, allocator)
    _check_thp(where, variant)
    cpu = experiment.cpu_of(variant)
    server_cpus, client_cpus = cpus.choose(cpu)
    clients = max(experiment.threads)
    works = [client.workload(name) for name in experiment.workloads]
    statements = max(sysbench.statements(w, clients, experiment.data.tables, experiment.load) for w in works)
    if of.sql:
        contents.client(build)
    options = {
        **build.entry["engines"][server.engine],
        # Their events would run in every trial.
        **({"event-scheduler": "OFF"} if experiment.data.own else {}),
        **server_options.capacity(clients, statements, experiment.data.tables),
        **server.init_options,
        **server.options,
    }
    options = {server_options.normal(k): v for k, v in options.items()}
    server_options.check_capacity(options, clients, statements, where)
    validate.check(build, options, user, where)
    recipe = template.Recipe(build, server.engine, experiment.data, server.init_options, of.identity, of.size, of.directory)
    return Prepared(
        variant, server, build, allocator, env, options, server_cpus, client_cpus,
        recipe, bindings,
        _pool(server.engine, options, where), server_options.open_files(clients, experiment.data.tables),
    )  # fmt: skip


def _prove(where: str, build: Build, env: dict[str, str], allocator: Allocator) -> proof.Bindings:
    complaints = allocator.entry.get("complaints", [])
    try:
        bindings = proof.read_bindings([os.fspath(build.executable)], env)
        proof.check_bindings(bindings, allocator.providers, complaints)
    except proof.NotProved as error:
        wanted = ", ".join(Path(p).name for p in allocator.providers)
        raise UsageError(f"{where}: {build.title} does not use {wanted}: {error}") from None
    return bindings


def _thp_shim() -> Path:
    shim = Path(str(files("dballoc") / "_native" / "libdballoc_keep_thp.so"))
    if not shim.exists():
        raise UsageError("thp: dballoc's native parts are not built; run make setup")
    return shim


def _check_thp(where: str, variant: Variant) -> None:
    if variant.thp is None or variant.thp == (now := thp.mode()):
        return
    if now is None:
        raise UsageError(f"{where}: thp: this kernel has no transparent huge pages")
    if not os.access(thp.ENABLED, os.W_OK):
        raise UsageError(f"{where}: thp: the host is at {now!r} and only root can switch it to {variant.thp!r}; run as root")


def _pool(engine: str, options: dict[str, str], where: str) -> int | None:
    name = {"innodb": "innodb-buffer-pool-size", "rocksdb": "rocksdb-block-cache-size"}.get(engine)
    if name is None:
        return None
    if name not in options:
        return _POOL_DEFAULTS[name]
    value = options[name]
    try:
        return int(value) if value.isdigit() else parse_size(value)
    except ValueError as error:
        raise UsageError(f"{where}: server option {name}: {error}") from None


def _check_room(setting: Setting) -> None:
    have = psutil.virtual_memory().available
    need = min(setting.memory_needed, setting.experiment.limits.memory or setting.memory_needed)
    if need > have:
        raise UsageError(
            f"server.options: about {need / 2**30:.1f} GiB of memory needed, {have / 2**30:.1f} GiB available; "
            "lower the buffer pool or the threads"
        )
    place = places.cache()
    if (need := setting.disk_needed) > (free := places.free_bytes(place)):
        raise UsageError(
            f"{place}: about {need / 2**30:.1f} GiB of disk needed for data, {free / 2**30:.1f} GiB free; "
            "make room, lower data.rows, or set DBALLOC_CACHE"
        )
