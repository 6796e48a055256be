"""One variant as it will run on this machine: its build, malloc, environment, CPUs, clients and
server options, all checked before the first start. Whatever is wrong is one UsageError.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

from dballoc.campaign.preparation import data_contents
from dballoc.campaign.preparation.data_contents import DataContents
from dballoc.campaign.preparation.prepared import check_thp
from dballoc.campaign.preparation.proved_malloc import ProvedMalloc, prove_malloc
from dballoc.experiment.designs import Design
from dballoc.experiment.durations_and_sizes import parse_size
from dballoc.experiment.model import Experiment, Server, Variant
from dballoc.ground.errors import UsageError
from dballoc.host.resources import open_file_limit
from dballoc.host.resources.choose_cpus import SideCpus, choose_cpus
from dballoc.host.unprivileged.server_user import ServerUser
from dballoc.load import hammerdb_command, sysbench_command
from dballoc.load.workload import Workload
from dballoc.servers import build as find_build
from dballoc.servers import client_programs
from dballoc.servers.build import Build
from dballoc.servers.private import (
    binary_log,
    data_template,
    option_check,
    replication,
    reserved_options,
)
from dballoc.servers.private import command_line as server_options
from dballoc.store.rows import VariantRow

# The most clients that dballoc gives a duet by itself.
MOST_DUET_CLIENTS = 64

_POOL_DEFAULTS = {"innodb-buffer-pool-size": 128 * 2**20, "rocksdb-block-cache-size": 512 * 2**20}


@dataclass(frozen=True, kw_only=True)
class PreparedVariant(ProvedMalloc):
    """A variant as it will run on this machine. ``programs``: what its workloads run beside
    sysbench, by workload; ``redo_bytes``: of the redo log that its options ask for;
    ``together``: why its clients do not have the cores of their own that they were to have, else
    empty.
    """

    server: Server
    options: dict[str, str]
    server_cpus: frozenset[int] | None
    client_cpus: frozenset[int] | None
    recipe: data_template.Recipe
    pool_bytes: int | None
    nofile: int
    programs: dict[str, Path] = field(default_factory=dict)
    redo_bytes: int = 0
    together: str = ""

    def make_row(self) -> VariantRow:
        """Return the variant's row of table ``variant``."""
        address = server_options.Address(
            Path("SOCKET"), None if self.server.connect == "socket" else 0
        )
        return self.fill_row(
            server=self.build.title,
            engine=self.server.engine,
            command=json.dumps(
                server_options.command(self.build, Path("DATA"), address, self.options)
            ),
            pool_bytes=self.pool_bytes,
        )


@dataclass(frozen=True)
class VariantInputs:
    """What every variant of a campaign is prepared from."""

    experiment: Experiment
    user: ServerUser
    sysbench: sysbench_command.Sysbench
    contents: DataContents


def prepare_variant(inputs: VariantInputs, variant: Variant) -> PreparedVariant:
    """Find and check all that a variant needs. Raises UsageError for what this machine cannot
    do.
    """
    experiment = inputs.experiment
    where = f"variant {variant.name!r}"
    server = experiment.server_of(variant)
    build = _find_build(where, server, inputs.user)
    malloc = prove_malloc(where, experiment, inputs.user, build, variant)
    check_thp(where, variant)
    sides = _choose_cpus(experiment, variant)
    works = [inputs.sysbench.workload(name) for name in experiment.loads]
    clients = count_most_clients(experiment)
    statements = max(
        sysbench_command.statements(w, clients, experiment.data.tables, experiment.load)
        for w in works
    )
    _check_encryption(server, works)
    programs = _find_client_programs(inputs, build, works)
    options = _make_server_options(experiment, server, build, clients, statements)
    if any(work.replica for work in works):
        replication.check_replication(build, where)
        options = replication.make_replica_options(build, options, experiment.replica.workers)
    server_options.check_capacity(options, clients, statements, where)
    option_check.check(build, options, inputs.user, where)
    return PreparedVariant(
        **vars(malloc),
        server=server,
        options=options,
        server_cpus=sides.server,
        client_cpus=sides.clients,
        recipe=data_template.Recipe(
            build=build,
            engine=server.engine,
            data=experiment.data,
            init_options=_choose_init_options(server, build),
            content=inputs.contents.identity,
            size=inputs.contents.size,
            directory=inputs.contents.directory,
        ),
        pool_bytes=_find_pool_bytes(server.engine, options, where),
        nofile=_limit_open_files(where, clients, experiment.data.tables, options),
        programs=programs,
        redo_bytes=_count_redo_bytes(build, options),
        together=sides.together,
    )


def count_most_clients(experiment: Experiment) -> int:
    """Return how many clients a server must have room for. It is the same in all designs, because
    room for clients costs memory.
    """
    duet = (
        0 if Design.DUET not in experiment.designs else experiment.duet.threads or MOST_DUET_CLIENTS
    )
    return max(*experiment.threads, duet)


def suggest_small_scale(experiment: Experiment) -> str:
    """Return the remedy ``--scale small`` for an error message about a machine that is too small,
    or "" where it does not apply.
    """
    if experiment.small is not None and experiment.scaled is None:
        return "; or give --scale small"
    return ""


# -- the server
# --------------------------------------------------------------------------------------


def _find_build(where: str, server: Server, user: ServerUser) -> Build:
    """Find the server's build. Raises UsageError if the server user may not read it, if it lacks
    the engine, or if an option is not the experiment's to give.
    """
    build = find_build.find(server.use, server.basedir)
    if blocked := user.blocked_at(build.executable):
        raise UsageError(
            f"{where}: the server runs as {user.name}, which may not read {blocked}; make it "
            "readable, or move the server"
        )
    # A build of the user's may have an engine built in that others have as a plugin.
    engines = list(build.entry.engines) if server.basedir else build.engines
    if server.engine not in engines:
        raise UsageError(
            f"{where}: {build.title} has no engine {server.engine!r}; it has {', '.join(engines)}"
        )
    for options in (server.options, server.init_options):
        reserved_options.check(options, where)
    if any(reserved_options.bare(name) == binary_log.OPTION for name in server.init_options):
        raise UsageError(f"{where}: server.init_options: log_bin belongs into server.options")
    return build


def _make_server_options(
    experiment: Experiment, server: Server, build: Build, clients: int, statements: int
) -> dict[str, str]:
    """Return the server's options: the engine's, room for clients and statements, the variant's."""
    options = {
        **build.entry.engines[server.engine],
        # The events of the user's own data would run in every trial.
        **({"event-scheduler": "OFF"} if experiment.data.own else {}),
        **server_options.capacity(
            clients, statements, experiment.data.tables, open_file_limit.read_most_files()
        ),
        **server.init_options,
        **server.options,
    }
    return binary_log.settle_binary_log(
        {reserved_options.normal(name): value for name, value in options.items()}
    )


def _choose_init_options(server: Server, build: Build) -> dict[str, str]:
    """Return the options with which the data are made: the experiment's, and those of the server's
    options that this build cannot change afterwards.
    """
    fixed = {
        name: value
        for name, value in server.options.items()
        if reserved_options.bare(name) in build.entry.fixed
    }
    return fixed | server.init_options


def _count_redo_bytes(build: Build, options: dict[str, str]) -> int:
    """Return the bytes of the redo log that a server makes in its data directory, if its options
    set the size; else 0, because the data's template has one of the usual size.
    """
    capacity = _parse_bytes(options.get("innodb-redo-log-capacity", ""))
    each = _parse_bytes(options.get("innodb-log-file-size", ""))
    files = options.get("innodb-log-files-in-group", "")
    number = int(files) if files.isdigit() else build.entry.redo_files
    return max(capacity, each * min(number, 100))


def _parse_bytes(text: str) -> int:
    """Return a size in bytes; 0 for what is not one, which the server itself will refuse."""
    try:
        return int(text) if text.isdigit() else parse_size(text)
    except ValueError:
        return 0


def _limit_open_files(where: str, clients: int, tables: int, options: dict[str, str]) -> int:
    """Return the server's limit of open files: what its options allow to connect, as far as our own
    hard limit goes, and what the load needs in any case. Raises UsageError if that may not be had.
    """
    most = open_file_limit.read_most_files()
    needed = server_options.open_files(clients, tables, "", most)
    if needed > most:
        raise UsageError(
            f"{where}: its server needs {needed:,} open files for {clients:,} clients, and the "
            f"hard limit is {most:,.0f}; raise it (ulimit -Hn {needed}, limits.conf), or lower the "
            "clients"
        )
    wanted = server_options.open_files(clients, tables, options["max-connections"], most)
    return int(max(min(wanted, open_file_limit.read_hard_limit()), needed))


def _find_pool_bytes(engine: str, options: dict[str, str], where: str) -> int | None:
    """Return the size of the engine's cache in bytes; None for an engine whose cache is unknown."""
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


# -- the host and the clients
# ------------------------------------------------------------------------


def _choose_cpus(experiment: Experiment, variant: Variant) -> SideCpus:
    """Return the CPUs of the variant's server and of its clients."""
    try:
        return choose_cpus(experiment.cpu_of(variant))
    except UsageError as error:
        fewer = "; choose others with --cpus" if experiment.cpu_of(variant).count else ""
        raise UsageError(f"{error}{fewer}{suggest_small_scale(experiment)}") from None


def _check_encryption(server: Server, works: list[Workload]) -> None:
    """Raises UsageError for a client whose connections cannot be encrypted as asked."""
    work = next((w for w in works if w.driver == "hammerdb"), None)
    if server.connect == "tls" and work:
        raise UsageError(
            f"workload {work.name!r}: HammerDB's connections are not encrypted here; set connect = "
            '"tcp"'
        )


def _find_client_programs(
    inputs: VariantInputs, build: Build, works: list[Workload]
) -> dict[str, Path]:
    """Return the programs that workloads run beside sysbench, by workload. Raises UsageError if one
    is missing, or if the server user may not read a client's files.
    """
    if inputs.contents.sql:
        data_contents.find_sql_client(build)
    programs = {
        w.name: client_programs.find(build, w.program, f"{w.name} runs {' or '.join(w.program)}")
        for w in works
        if w.program
    }
    programs |= {
        w.name: client_programs.find_backup(build, f"workload {w.name!r}")
        for w in works
        if w.backup
    }
    for work in works:
        needed = [*hammerdb_command.needed_files(work)]
        if work.name in programs:
            needed.append(programs[work.name])
        for path in needed:
            if blocked := inputs.user.blocked_at(path):
                raise UsageError(
                    f"workload {work.name!r}: {path}: clients run as {inputs.user.name}, which may "
                    f"not read {blocked}; chmod o+rX {blocked}"
                )
    return programs
