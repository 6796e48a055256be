"""A campaign as it will run on this machine, found and checked before the first start: builds,
allocators, environments, CPU sets, proof of use, memory and disk.

Whatever is wrong is one UsageError, and nothing was started.
"""

import os
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import psutil

from dballoc.allocators import find_library as find_allocator
from dballoc.campaign.preparation import data_contents
from dballoc.campaign.preparation.data_contents import DataContents
from dballoc.campaign.preparation.prepare_duet import PreparedDuet, prepare_duet
from dballoc.campaign.preparation.prepare_turns import (
    PreparedTurns,
    pair_servers,
    prepare_turns,
)
from dballoc.campaign.preparation.prepare_variant import (
    PreparedVariant,
    VariantInputs,
    prepare_variant,
    suggest_small_scale,
)
from dballoc.campaign.preparation.prepared import Prepared
from dballoc.experiment.designs import Design
from dballoc.experiment.model import LOAD, SCAN, Experiment
from dballoc.fetch import closed_store, name_and_version
from dballoc.fetch.fetch_sources import NotFetched
from dballoc.ground import user_directories
from dballoc.ground.errors import NotNow, UsageError
from dballoc.ground.numbers import listing
from dballoc.host import directories
from dballoc.host.resources import cgroup
from dballoc.host.resources.cpus import list_available_cpus
from dballoc.host.resources.thread_limits import (
    describe_shortage,
    list_thread_limits,
    read_most_mappings,
)
from dballoc.host.settings import machine_lock, thp
from dballoc.host.unprivileged.server_user import ServerUser, server_user
from dballoc.instruments.server_counters import Countable, find_countable
from dballoc.load import hammerdb_command, sysbench_command, workload
from dballoc.servers import build as find_build
from dballoc.servers.private import binary_log, data_template

# Bytes of a server's memory beside its cache, only for the estimate: fixed, and for each connection
# with its client. With 4,096 of sysbench's they were 0.6 MiB: docs/evidence.md.
_BASE_MEMORY = 200 * 2**20
_CONNECTION_MEMORY = 2 * 2**20
# Threads of a server beside its connections' and of its client beside theirs; of the client's
# mappings of memory, which sysbench has most of: those beside its threads', and of each (4,096
# threads had 13,500: docs/evidence.md).
_OTHER_THREADS = 150
_OTHER_MAPPINGS, _THREAD_MAPPINGS = 1000, 4


@dataclass(frozen=True, kw_only=True)
class PreparedCampaign(Prepared):
    """A campaign of servers. ``no_duet``, ``no_turns``: why a campaign that might have them has
    none; ``countable``: which of the experiment's counters the host counts.
    """

    variants: dict[str, PreparedVariant]
    sysbench: sysbench_command.Sysbench
    contents: DataContents
    duet: PreparedDuet | None = None
    no_duet: str | None = None
    turns: PreparedTurns | None = None
    no_turns: str | None = None
    countable: Countable = field(default_factory=Countable)

    def list_notices(self) -> list[str]:
        """Return why there are no duets or turns, or which variants are not in them."""
        notices = [f"no duet: {self.no_duet}"] if self.no_duet else []
        left_out = self.duet.left_out if self.duet else {}
        notices += [f"{name} is not in the duet: {why}" for name, why in left_out.items()]
        notices += list_together(self.variants, self.duet)
        return notices + ([f"no turns: {self.no_turns}"] if self.no_turns else [])

    @property
    def designs(self) -> list[Design]:
        """The designs that are run."""
        prepared = {Design.SOLO: True, Design.DUET: self.duet, Design.TURNS: self.turns}
        return [design for design in self.experiment.designs if prepared[design]]

    @property
    def has_replica(self) -> bool:
        """Whether the servers that are measured are replicas, each with a primary beside it."""
        return any(self.sysbench.workload(name).replica for name in self.experiment.workloads)

    @property
    def memory_needed(self) -> int:
        """Bytes that the servers that run at once are expected to take at most."""
        servers = 2 if self.has_replica else 1
        solo = (
            servers * self._estimate_memory(max(self.experiment.threads))
            if Design.SOLO in self.designs
            else 0
        )
        turns = self.turns.servers_at_once if self.turns else 0
        return max(
            solo,
            2 * self._estimate_memory(self.duet.threads) if self.duet else 0,
            turns * self._estimate_memory(max(self.experiment.threads)),
        )

    @property
    def threads_needed(self) -> int:
        """Threads of all servers that are alive at once and of their clients, at most."""
        at_level = 0
        if Design.SOLO in self.designs:
            at_level = 2 if self.has_replica else 1
        if self.turns:
            at_level = self.turns.servers_at_once
        return max(
            at_level * (2 * max(self.experiment.threads) + _OTHER_THREADS),
            2 * (2 * self.duet.threads + _OTHER_THREADS) if self.duet else 0,
        )

    def _estimate_memory(self, clients: int) -> int:
        pool = max((p.pool_bytes or 0) for p in self.variants.values())
        return pool + _BASE_MEMORY + clients * _CONNECTION_MEMORY

    def data_recipe(self, prepared: PreparedVariant, workload: str | None) -> data_template.Recipe:
        """Return the recipe of the data on which a start of a variant begins: for all workloads
        (None), or for that one alone.
        """
        return (
            replace(prepared.recipe, tables=False)
            if LOAD in self.experiment.runs(workload)
            else prepared.recipe
        )

    def data_recipes(self, prepared: PreparedVariant) -> list[data_template.Recipe]:
        """Return the recipes of all data on which a variant starts, or its workloads are
        rehearsed.
        """
        experiment = self.experiment
        fresh = experiment.sequence == "fresh"
        starts: list[str | None] = list(experiment.workloads) if fresh else [None]
        recipes = [self.data_recipe(prepared, start) for start in starts]
        recipes += [prepared.recipe] if experiment.workload else []
        return list({recipe.key: recipe for recipe in recipes}.values())

    @property
    def reuses_data(self) -> bool:
        """Whether a server may start on the data that another one left: only if all workloads read
        sysbench's tables alone, in InnoDB, whose files a start and an orderly shutdown leave as
        they were. Never where every workload is to have a fresh copy, or where the server settles,
        which analyzes the tables. A script of the user's may do anything.
        """
        experiment = self.experiment
        works = [self.sysbench.workload(name) for name in experiment.loads]
        return (
            experiment.sequence == "cycle"
            and experiment.warmup_sql in (None, SCAN, [])
            and not experiment.settles
            and not experiment.data.own
            and all(p.server.engine == "innodb" for p in self.variants.values())
            and not any(w.writes or w.brings or w.ends for w in works)
            and all(w.file is None or w.statements for w in works)
        )

    @property
    def copies_at_once(self) -> int:
        """How many copies of the data there may be at once."""
        two = 2 if self.duet or self.has_replica else 1
        return max(two, self.turns.servers_at_once if self.turns else 0)

    @property
    def largest_copy_bytes(self) -> int:
        """Bytes of the largest copy of data that a trial makes."""
        return max(self._data_bytes().values())

    @property
    def disk_needed(self) -> int:
        """Bytes needed in the cache directory: the templates still to be made, and the largest
        copies that exist at once, with the logs that servers write beside them.
        """
        missing = {r.key for r in self._all_recipes() if data_template.find(r) is None}
        sizes = self._data_bytes()
        loaded = (
            data_template.tables_bytes(self.experiment.data)
            if LOAD in self.experiment.workloads
            else 0
        )
        logs = max(p.redo_bytes + self._estimate_binary_log(p) for p in self.variants.values())
        return (
            sum(sizes[key] for key in missing)
            + self.copies_at_once * (max(sizes.values()) + logs)
            + loaded
        )

    def _estimate_binary_log(self, prepared: PreparedVariant) -> int:
        """Estimate the bytes of a server's binary log when it is longest: in a solo trial at the
        end of a step, after which it is emptied; in a duet at the end.
        """
        experiment = self.experiment
        works = [self.sysbench.workload(name) for name in experiment.loads]
        if not binary_log.writes_binary_log(prepared.options) or not any(
            w.writes or w.file is not None for w in works
        ):
            return 0
        time = experiment.time
        seconds = max(time.warmup, time.level) if Design.SOLO in self.designs else 0.0
        if self.duet:
            each = experiment.duet_warmup + time.level
            seconds = max(seconds, len(experiment.workloads) * each)
        if self.turns:
            each = experiment.turns_warmup + time.level
            seconds = max(seconds, len(experiment.workloads) * each)
        cpus = len(prepared.server_cpus or list_available_cpus())
        written = int(seconds * cpus * binary_log.BYTES_PER_CPU_SECOND)
        filled = data_template.tables_bytes(experiment.data) if LOAD in experiment.workloads else 0
        return max(written, filled)

    def _all_recipes(self) -> list[data_template.Recipe]:
        return [r for p in self.variants.values() for r in self.data_recipes(p)]

    def _data_bytes(self) -> dict[str, int]:
        """Bytes of each recipe's data by its key: of its template, else an estimate."""
        recipes = {r.key: r for r in self._all_recipes()}
        return {
            k: t.size if (t := data_template.find(r)) else data_template.estimate_bytes(r)
            for k, r in recipes.items()
        }


def list_together(
    variants: Mapping[str, PreparedVariant], duet: PreparedDuet | None = None
) -> list[str]:
    """Return why clients do not have cores of their own where they were to have some, each reason
    once.
    """
    names: dict[str, list[str]] = {}
    for name, prepared in variants.items():
        if prepared.together:
            names.setdefault(prepared.together, []).append(name)
    if duet and duet.cpus.together:
        names.setdefault(duet.cpus.together, []).append("duets")
    return [f"{listing(of)}: clients beside the server: {why}" for why, of in names.items()]


def prepare_campaign(experiment: Experiment) -> PreparedCampaign:
    """Find and check everything. Raises UsageError for anything that this machine cannot do."""
    # First of all: everything below takes the present THP settings for the host's own.
    put_back = tuple(machine_lock.put_back_leftovers())
    if experiment.replay:
        raise UsageError(
            f"replay: this experiment is a replay's, of {experiment.replay.trace}; run it with "
            "dballoc replay"
        )
    if experiment.record and Design.SOLO not in experiment.designs:
        raise UsageError(
            "record: a start of the baseline alone is recorded; set design to both or solo, "
            "not to duet"
        )
    _refuse_builds_from_source(experiment)
    check_missing_fetches(experiment)
    sysbench = replace(
        sysbench_command.find(),
        workloads={
            name: hammerdb_command.settle(work)
            for name, work in workload.settle(experiment).items()
        },
    )
    contents = data_contents.inspect_data(experiment, sysbench)
    user = server_user()
    user.check_alone()
    _check_directories_open(user)
    if experiment.limits.memory is not None:
        cgroup.check_memory_cgroup()
    inputs = VariantInputs(experiment, user, sysbench, contents)
    variants = {v.name: prepare_variant(inputs, v) for v in experiment.variant}
    setting = PreparedCampaign(
        experiment=experiment,
        variants=variants,
        user=user,
        sysbench=sysbench,
        contents=contents,
        thp=thp.read_host(),
        put_back=put_back,
        countable=find_countable(experiment.counters),
    )
    setting = _add_turns(_add_duet(setting))
    _check_memory_and_disk(setting)
    return setting


def _add_duet(setting: PreparedCampaign) -> PreparedCampaign:
    """Return the setting with its duet, if the experiment wants one. On a machine that cannot play
    one, UsageError if the experiment asks for a duet; else the solo design runs alone, and
    ``no_duet`` says why.
    """
    if Design.DUET not in setting.experiment.designs:
        return setting
    try:
        duet = prepare_duet(setting.experiment, setting.sysbench)
        _check_memory_and_threads(replace(setting, duet=duet))
    except UsageError as error:
        if setting.experiment.design is not None:
            raise
        return replace(setting, no_duet=str(error))
    return replace(setting, duet=duet)


def _add_turns(setting: PreparedCampaign) -> PreparedCampaign:
    """Return the setting with its turns, if the experiment wants them: of all servers, or in pairs
    where memory and threads allow no more. Where they allow no pair either, UsageError if the
    experiment asks for turns; else ``no_turns`` says why there are none.
    """
    experiment = setting.experiment
    if Design.TURNS not in experiment.designs:
        return setting
    try:
        turns = prepare_turns(experiment, setting.sysbench, setting.thp.get(thp.SETTING))
        try:
            _check_memory_and_threads(replace(setting, turns=turns))
        except UsageError:
            turns = pair_servers(turns)
            _check_memory_and_threads(replace(setting, turns=turns))
    except UsageError as error:
        if experiment.design is not None:
            raise
        return replace(setting, no_turns=str(error))
    return replace(setting, turns=turns)


def _refuse_builds_from_source(experiment: Experiment) -> None:
    """Raises UsageError for a variant whose server must be built from source. Checked first: the
    user should know this before fetching anything else.
    """
    for variant in experiment.variant:
        if variant.server.recipe and experiment.server_of(variant).basedir is None:
            raise UsageError(
                f"variant {variant.name!r}: its server cannot be fetched: "
                f"{variant.server.recipe}; then set the variant's server.basedir in the file that "
                "--print writes"
            )


def _check_directories_open(user: ServerUser) -> None:
    """Raises UsageError if the server user may not pass the cache or the temporary directory."""
    if closed_store.open_closed_store():
        directories.check_socket_path("move the kit to a directory with a shorter path")
    else:
        directories.check_socket_path()
    for path, name in (
        (directories.make_server_cache(user), "DBALLOC_CACHE"),
        (Path(tempfile.gettempdir()), "TMPDIR"),
    ):
        if blocked := user.may_not_pass(path):
            raise UsageError(
                f"{path}: the server runs as {user.name}, which may not enter {blocked}; set "
                f"{name} to a directory that every user may enter"
            )


def _check_memory(setting: PreparedCampaign) -> None:
    """Raises UsageError if less memory is available than the servers are expected to take."""
    available = psutil.virtual_memory().available
    limit = setting.experiment.limits.memory
    need = setting.memory_needed
    if limit and setting.has_replica:
        need = min(need, limit + need // 2)  # the primary has no limit
    elif limit:
        need = min(need, setting.copies_at_once * limit)
    if need > available:
        purpose, remedy = "of memory needed", "lower the buffer pool or the threads"
        if setting.duet or setting.turns:
            remedy += ", or use --design solo"
            purpose = "for a duet's two servers"
        if setting.turns:
            purpose = f"for {setting.turns.servers_at_once} servers that take turns"
        raise NotNow(
            f"server.options: about {need / 2**30:.1f} GiB {purpose}, {available / 2**30:.1f} GiB "
            f"available; {remedy}"
            f"{suggest_small_scale(setting.experiment)}"
        )


def _check_threads(setting: PreparedCampaign) -> None:
    """Raises UsageError if servers and clients need more threads, or mappings of memory, than this
    host allows.
    """
    experiment = setting.experiment
    clients = max(*experiment.threads, setting.duet.threads if setting.duet else 0)
    uid = os.getuid() if setting.user.uid is None else setting.user.uid
    if why := describe_shortage(setting.threads_needed, list_thread_limits(uid)):
        solo = ", or use --design solo" if setting.duet or setting.turns else ""
        raise NotNow(
            f"threads: about {setting.threads_needed:,} threads of servers and {clients:,} clients "
            f"each are needed, {why}, or lower the clients{solo}"
        )
    mappings = _OTHER_MAPPINGS + _THREAD_MAPPINGS * clients
    if mappings > (most := read_most_mappings()):
        raise UsageError(
            f"threads: about {mappings:,} mappings of memory are needed for {clients:,} clients, "
            f"vm.max_map_count is {most:,.0f}; raise it (sysctl -w vm.max_map_count={mappings}), "
            "or lower the clients"
        )


def _check_memory_and_threads(setting: PreparedCampaign) -> None:
    """Raises UsageError if memory or threads do not suffice."""
    _check_memory(setting)
    _check_threads(setting)


def _suggest_less_log(setting: PreparedCampaign) -> str:
    """Return how to need less disk for binary logs; "" where there are none."""
    logs = any(binary_log.writes_binary_log(p.options) for p in setting.variants.values())
    return " or time.level, leave log_bin out" if logs else ""


def _check_memory_and_disk(setting: PreparedCampaign) -> None:
    """Raises UsageError if memory, threads or disk do not suffice."""
    _check_memory_and_threads(setting)
    place = user_directories.make_cache()
    if (need := setting.disk_needed) > (free := directories.free_bytes(place)):
        raise NotNow(
            f"{place}: about {need / 2**30:.1f} GiB of disk needed for data and logs, "
            f"{free / 2**30:.1f} GiB free; make room, lower data.rows"
            f"{_suggest_less_log(setting)}, or set DBALLOC_CACHE"
            f"{suggest_small_scale(setting.experiment)}"
        )


# -- what is missing -------------------------------------------------------------------------------


def check_missing_fetches(experiment: Experiment) -> None:
    """Raises UsageError if several servers or allocators have to be fetched. A single one is
    refused where it is needed, with its own message.
    """
    missing: dict[str, None] = {}
    for find in _list_lookups(experiment):
        try:
            find()
        except NotFetched as error:
            missing[error.reference] = None
        except UsageError:
            pass
    if len(missing) > 1:
        raise UsageError(
            f"{len(missing)} servers or libraries are missing; fetch them: "
            f"dballoc fetch {shlex.join(missing)}"
        )


def _list_lookups(experiment: Experiment) -> Iterator[Callable[[], object]]:
    """Yield a lookup for each server and allocator that may have to be fetched."""
    for variant in experiment.variant:
        server = experiment.server_of(variant)
        yield partial(find_build.find, server.use, server.basedir)
        glibc = [name_and_version.join_reference("glibc", server.glibc)] if server.glibc else []
        for reference in filter(None, [variant.allocator, *glibc]):
            if "@" in reference:
                yield partial(find_allocator.find_allocator, reference)
