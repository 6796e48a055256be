"""Everything that is settled before the first start: builds, allocators, environments, CPU sets,
proof, room.

Whatever is wrong here is one line, and nothing was started.
"""

import json
import os
import tempfile
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import psutil

from dballoc.allocators import find_library as find_allocator
from dballoc.allocators import proof_of_use, reported_tunables, server_environment, tunables
from dballoc.allocators.find_library import Allocator
from dballoc.allocators.tunables import Given
from dballoc.campaign.preparation import data_contents, missing_fetches, variant_malloc
from dballoc.campaign.preparation.data_contents import Contents
from dballoc.errors import UsageError
from dballoc.experiment.durations_and_sizes import parse_size
from dballoc.experiment.model import LOAD, Design, Experiment, Server, Variant
from dballoc.host import directories
from dballoc.host.resources import cgroup, cpu_halves, cpus
from dballoc.host.settings import machine_lock, thp
from dballoc.host.settings.settings_journal import PutBack
from dballoc.host.unprivileged.server_user import ServerUser, server_user
from dballoc.load import hammerdb_command, sysbench_command, workload
from dballoc.profile.heap import probe_launch
from dballoc.servers import build as find_build
from dballoc.servers import client_programs
from dballoc.servers.build import Build
from dballoc.servers.private import command_line as server_options
from dballoc.servers.private import data_template, option_check

# A server's memory beside its cache, for the estimate alone: fixed, and for each connection.
_BASE_MEMORY = 200 * 2**20
_CONNECTION_MEMORY = 2 * 2**20

_POOL_DEFAULTS = {"innodb-buffer-pool-size": 128 * 2**20, "rocksdb-block-cache-size": 512 * 2**20}


# A duet's clients for each CPU of a half: enough to keep it busy, too few to make a contest of it.
_CLIENTS_PER_CPU = 4
_MOST_CLIENTS = 64


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A variant as it will run on this machine. ``programs``: what its workloads run beside
    sysbench, by workload; ``wrappers``: libraries ahead of the allocator, which may answer for it
    (:func:`dballoc.campaign.preparation.variant_malloc.wrappers`).
    """

    variant: Variant
    server: Server
    build: Build
    allocator: Allocator
    env: dict[str, str]
    options: dict[str, str]
    server_cpus: frozenset[int] | None
    client_cpus: frozenset[int] | None
    recipe: data_template.Recipe
    bindings: proof_of_use.Bindings
    pool_bytes: int | None
    nofile: int
    settings: tuple[Given, ...] = ()
    programs: dict[str, Path] = field(default_factory=dict)
    wrappers: tuple[str, ...] = ()

    def row(self) -> dict[str, Any]:
        """For the table ``variant``."""
        own = {k: v for k, v in self.env.items() if k not in server_environment.clean(os.environ)}
        address = server_options.Address(
            Path("SOCKET"), 0 if self.server.connect == "tcp" else None
        )
        return {
            "name": self.variant.name,
            "allocator": self.allocator.name,
            "allocator_version": self.allocator.version,
            "libraries": json.dumps(
                self.env.get("LD_PRELOAD", "").split(":") if "LD_PRELOAD" in self.env else []
            ),
            "environment": json.dumps(own, sort_keys=True),
            "server": self.build.title,
            "server_version": self.build.version,
            "engine": self.server.engine,
            "command": json.dumps(
                server_options.command(self.build, Path("DATA"), address, self.options)
            ),
            "pool_bytes": self.pool_bytes,
            "thp": self.variant.thp,
        }


@dataclass(frozen=True)
class DuetSetting:
    """How duets are played on this machine. ``thp``: for each partner the host's mode and for whom,
    baseline and partner, THP is switched off (:func:`dballoc.host.settings.thp.together`);
    ``left_out``: variants that cannot be in a duet, and why.
    """

    halves: cpu_halves.Halves
    threads: int
    thp: dict[str, tuple[str | None, bool, bool]]
    left_out: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The whole campaign as it will run on this machine. ``no_duet``: why a campaign that might
    have has none; ``thp``: the host's own mode, None where the kernel has no THP; ``put_back``:
    what an earlier run had left changed.
    """

    experiment: Experiment
    variants: dict[str, Prepared]
    user: ServerUser
    sysbench: sysbench_command.Sysbench
    contents: Contents
    duet: DuetSetting | None = None
    no_duet: str | None = None
    thp: str | None = None
    put_back: tuple[PutBack, ...] = ()

    @property
    def switches_thp(self) -> bool:
        """Whether any variant wants the host otherwise than it is."""
        return any(p.variant.thp not in (None, self.thp) for p in self.variants.values())

    @property
    def designs(self) -> list[str]:
        """Which of "solo" and "duet" are run."""
        return [
            d
            for d in get_args(Design)
            if self.experiment.design in (d, "both", None) and (d != "duet" or self.duet)
        ]

    @property
    def memory_needed(self) -> int:
        """Bytes that the hungriest servers that run at once are expected to take."""
        solo = self._memory(max(self.experiment.threads)) if "solo" in self.designs else 0
        return max(solo, 2 * self._memory(self.duet.threads) if self.duet else 0)

    def _memory(self, clients: int) -> int:
        pool = max((p.pool_bytes or 0) for p in self.variants.values())
        return pool + _BASE_MEMORY + clients * _CONNECTION_MEMORY

    def recipe(self, prepared: Prepared, workload: str | None) -> data_template.Recipe:
        """Of the data on which a start of a variant begins: of all workloads (None), or of that one
        alone.
        """
        return (
            replace(prepared.recipe, tables=False)
            if LOAD in self.experiment.runs(workload)
            else prepared.recipe
        )

    def recipes(self, prepared: Prepared) -> list[data_template.Recipe]:
        """Of all data that a variant's starts begin on, and on which its workloads are
        rehearsed.
        """
        e = self.experiment
        starts: list[str | None] = list(e.workloads) if e.sequence == "fresh" else [None]
        found = [self.recipe(prepared, start) for start in starts]
        found += [prepared.recipe] if e.workload else []
        return list({recipe.key: recipe for recipe in found}.values())

    @property
    def copied(self) -> int:
        """Bytes of the largest copy of data that a trial makes."""
        return max(self._sizes().values())

    @property
    def disk_needed(self) -> int:
        """Bytes in the cache: the templates still to be made, and the largest copies that are there
        at once.
        """
        missing = {r.key for r in self._recipes() if data_template.find(r) is None}
        sizes = self._sizes()
        loaded = (
            data_template.tables_bytes(self.experiment.data)
            if LOAD in self.experiment.workloads
            else 0
        )
        return (
            sum(sizes[key] for key in missing)
            + (2 if self.duet else 1) * max(sizes.values())
            + loaded
        )

    def _recipes(self) -> list[data_template.Recipe]:
        return [r for p in self.variants.values() for r in self.recipes(p)]

    def _sizes(self) -> dict[str, int]:
        recipes = {r.key: r for r in self._recipes()}
        return {
            k: t.size if (t := data_template.find(r)) else data_template.estimate_bytes(r)
            for k, r in recipes.items()
        }


def settle(experiment: Experiment) -> Setting:
    """Find and check everything. UsageError for whatever this machine cannot do as asked."""
    # All that follows takes the host's THP mode for its own.
    put_back = tuple(machine_lock.put_back_leftovers())
    _check_recipes(experiment)
    missing_fetches.check(experiment)
    client = replace(
        sysbench_command.find(),
        workloads={n: hammerdb_command.settle(w) for n, w in workload.settle(experiment).items()},
    )
    of = data_contents.settle(experiment, client)
    user = server_user()
    user.check_alone()
    _check_places(user)
    if experiment.limits.memory is not None:
        cgroup.check()
    variants = {
        v.name: _settle_variant(experiment, v, user, client, of) for v in experiment.variant
    }
    setting = _with_duet(
        Setting(
            experiment=experiment,
            variants=variants,
            user=user,
            sysbench=client,
            contents=of,
            thp=thp.mode(),
            put_back=put_back,
        )
    )
    _check_room(setting)
    return setting


def _with_duet(setting: Setting) -> Setting:
    """The setting with its duet, where the experiment wants one. Where nobody asked for it
    outright, a machine that cannot play one runs the solo design alone, and says so. UsageError
    where it was asked for.
    """
    if setting.experiment.design == "solo":
        return setting
    try:
        duet = settle_duet(setting)
        _check_memory(replace(setting, duet=duet))
    except UsageError as error:
        if setting.experiment.design is not None:
            raise
        return replace(setting, no_duet=str(error))
    return replace(setting, duet=duet)


def settle_duet(setting: Setting) -> DuetSetting:
    """How this machine plays the experiment's duets. UsageError if it cannot."""
    experiment = setting.experiment
    for name in experiment.workloads:
        if setting.sysbench.workload(name).ends:
            raise UsageError(
                f"{name}: it ends by itself, and a duet loads both servers without a break; use "
                "--design solo"
            )
    if experiment.sequence == "fresh":
        raise UsageError(
            "sequence: a duet plays all workloads in one start; use --design solo for a start of "
            "each"
        )
    chosen = cpu_halves.choose(experiment.cpu)
    threads = experiment.duet.threads or min(_MOST_CLIENTS, _CLIENTS_PER_CPU * len(chosen[0]))
    modes = {v.name: v.thp for v in experiment.variant}
    found: dict[str, tuple[str | None, bool, bool]] = {}
    left_out: dict[str, str] = {}
    for variant in experiment.variant:
        modes_together = thp.together(modes[experiment.baseline], variant.thp, thp.mode())
        if modes_together is None:
            left_out[variant.name] = "THP: always and madvise cannot be had at once"
        elif (
            variant.cpu is not None or setting.experiment.find(experiment.baseline).cpu is not None
        ):
            left_out[variant.name] = "it has CPUs of its own"
        else:
            found[variant.name] = modes_together
    if experiment.baseline in left_out:
        raise UsageError(
            f"a duet is not for baseline {experiment.baseline!r}: {left_out[experiment.baseline]}; "
            "use --design solo"
        )
    return DuetSetting(chosen, threads, found, left_out)


def _check_recipes(experiment: Experiment) -> None:
    """Before anything else: what would have to be built is worth more to know than what would have
    to be fetched.
    """
    for variant in experiment.variant:
        if variant.server.recipe and experiment.server_of(variant).basedir is None:
            raise UsageError(
                f"variant {variant.name!r}: no registry has its build: {variant.server.recipe}; "
                "then name it by the variant's "
                "server.basedir in the file that --print writes"
            )


def _check_places(user: ServerUser) -> None:
    directories.check_socket_path()
    for path, name in (
        (directories.cache(), "DBALLOC_CACHE"),
        (Path(tempfile.gettempdir()), "TMPDIR"),
    ):
        if blocked := user.may_not_pass(path):
            raise UsageError(
                f"{path}: the server runs as {user.name}, which may not pass {blocked}; set {name} "
                "to an open directory"
            )


def _settle_variant(
    experiment: Experiment,
    variant: Variant,
    user: ServerUser,
    client: sysbench_command.Sysbench,
    of: Contents,
) -> Prepared:
    where = f"variant {variant.name!r}"
    server = experiment.server_of(variant)
    build = find_build.find(server.use, server.basedir)
    if blocked := user.blocked_at(build.executable):
        raise UsageError(
            f"{where}: the server runs as {user.name}, which may not read {blocked}; open it, or "
            "move the server"
        )
    # A build of one's own may have as part of it what others have as a plugin.
    engines = list(build.entry["engines"]) if server.basedir else build.engines
    if server.engine not in engines:
        raise UsageError(
            f"{where}: {build.title} has no engine {server.engine!r}; it has {', '.join(engines)}"
        )
    for chosen in (server.options, server.init_options):
        server_options.check(chosen, where)
    try:
        settled = variant_malloc.settle(build, server, variant)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    allocator, runs = settled.allocator, settled.build
    before = ((_thp_shim(),) if variant.thp in ("always", "madvise") else ()) + settled.before
    probe = (probe_launch.library(),) if experiment.profile == "heap" else ()
    for library in (*before, *allocator.libraries, *probe):
        if blocked := user.blocked_at(library):
            raise UsageError(
                f"{where}: preload {library}: the server runs as {user.name}, which may not read "
                f"{blocked}"
            )
    if variant.tunables and not allocator.entry["tunables"]:
        raise UsageError(f"{where}: tunables: {allocator.entry['title']} has no settings")
    command = [os.fspath(runs.executable)]
    given = _settings(where, command, allocator, variant, before)
    env = server_environment.environment(
        os.environ, allocator, variant.tunables, variant.env, before
    )
    wrappers = variant_malloc.wrappers(before)
    bindings = _prove(where, runs, env, allocator, wrappers)
    if given and (
        said := tunables.not_taken(
            allocator, given, reported_tunables.read(allocator, command, env)
        )
    ):
        raise UsageError(f"{where}: {said}")
    _check_thp(where, variant)
    cpu = experiment.cpu_of(variant)
    try:
        server_cpus, client_cpus = cpus.choose(cpu)
    except UsageError as error:
        raise UsageError(f"{error}{_or_smaller(experiment)}") from None
    clients = _most_clients(experiment)
    works = [
        client.workload(name) for name in dict.fromkeys([*experiment.workloads, *experiment.warm])
    ]
    statements = max(
        sysbench_command.statements(w, clients, experiment.data.tables, experiment.load)
        for w in works
    )
    if of.sql:
        data_contents.reader(build)
    found = {
        w.name: client_programs.find(build, w.program, f"{w.name} runs {' or '.join(w.program)}")
        for w in works
        if w.program
    }
    for work in works:
        _check_client(
            work,
            [*hammerdb_command.needed_files(work), *([found[work.name]] if work.program else [])],
            user,
        )
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
    option_check.check(build, options, user, where)
    recipe = data_template.Recipe(
        build=build,
        engine=server.engine,
        data=experiment.data,
        init_options=server.init_options,
        content=of.identity,
        size=of.size,
        directory=of.directory,
    )
    return Prepared(
        variant=variant,
        server=server,
        build=runs,
        allocator=allocator,
        env=env,
        options=options,
        server_cpus=server_cpus,
        client_cpus=client_cpus,
        recipe=recipe,
        bindings=bindings,
        pool_bytes=_pool(server.engine, options, where),
        nofile=server_options.open_files(clients, experiment.data.tables),
        settings=tuple(given),
        programs=found,
        wrappers=wrappers,
    )


def _settings(
    where: str, command: list[str], allocator: Allocator, variant: Variant, before: tuple[Path, ...]
) -> list[Given]:
    """The settings that the variant gives its allocator, each found to be one."""
    found = tunables.given(allocator, variant.tunables, variant.env, where)
    bare = server_environment.environment(os.environ, allocator, {}, {}, before)
    if found:
        tunables.check(allocator, found, reported_tunables.names(allocator, command, bare), where)
    glibc = find_allocator.find("glibc")
    if allocator.name != glibc.name and (text := variant.env.get("GLIBC_TUNABLES")):
        # Other parts of glibc read it under any malloc.
        others = tunables.given(glibc, {}, {"GLIBC_TUNABLES": text}, where)
        tunables.check(glibc, others, reported_tunables.names(glibc, command, bare), where)
    return found


def _most_clients(experiment: Experiment) -> int:
    """What a server must have room for; the same in both designs, for it has its price in
    memory.
    """
    duet = 0 if experiment.design == "solo" else experiment.duet.threads or _MOST_CLIENTS
    return max(*experiment.threads, duet)


def _prove(
    where: str, build: Build, env: dict[str, str], allocator: Allocator, wrappers: tuple[str, ...]
) -> proof_of_use.Bindings:
    complaints = allocator.entry.get("complaints", [])
    try:
        bindings = proof_of_use.read_bindings([os.fspath(build.executable)], env)
        proof_of_use.check_bindings(bindings, allocator.providers, complaints, wrappers)
    except proof_of_use.NotProved as error:
        wanted = ", ".join(Path(p).name for p in allocator.providers)
        raise variant_malloc.refused(where, error, build, wanted) from None
    return bindings


def _check_client(work: workload.Workload, files_: list[Path], user: ServerUser) -> None:
    for path in files_:
        if blocked := user.blocked_at(path):
            raise UsageError(
                f"workload {work.name!r}: {path}: clients run as {user.name}, which may not read "
                f"{blocked}; "
                f"chmod o+rX {blocked}"
            )


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
        raise UsageError(
            f"{where}: thp: the host is at {now!r} and only root can switch it to {variant.thp!r}; "
            "run as root"
        )


def _pool(engine: str, options: dict[str, str], where: str) -> int | None:
    name = server_options.CACHES.get(engine)
    if name is None:
        return None
    if name not in options:
        return _POOL_DEFAULTS[name]
    value = options[name]
    try:
        return int(value) if value.isdigit() else parse_size(value)
    except ValueError as error:
        raise UsageError(f"{where}: server option {name}: {error}") from None


def _check_memory(setting: Setting) -> None:
    have = psutil.virtual_memory().available
    limit = setting.experiment.limits.memory
    need = min(
        setting.memory_needed,
        (2 if setting.duet else 1) * limit if limit else setting.memory_needed,
    )
    if need > have:
        what = "for a duet's two servers" if setting.duet else "of memory needed"
        less = "lower the buffer pool or the threads" + (
            ", or use --design solo" if setting.duet else ""
        )
        raise UsageError(
            f"server.options: about {need / 2**30:.1f} GiB {what}, {have / 2**30:.1f} GiB "
            f"available; {less}"
            f"{_or_smaller(setting.experiment)}"
        )


def _or_smaller(experiment: Experiment) -> str:
    """What else would do where the machine is too small for an experiment that is made for large
    ones.
    """
    return (
        "; or give --scale small"
        if experiment.small is not None and experiment.scaled is None
        else ""
    )


def _check_room(setting: Setting) -> None:
    _check_memory(setting)
    place = directories.cache()
    if (need := setting.disk_needed) > (free := directories.free_bytes(place)):
        raise UsageError(
            f"{place}: about {need / 2**30:.1f} GiB of disk needed for data, {free / 2**30:.1f} "
            "GiB free; "
            f"make room, lower data.rows, or set DBALLOC_CACHE{_or_smaller(setting.experiment)}"
        )
