"""A campaign of replays as it will run on this machine, found and checked before the first start:
the trace, the engine, the mallocs and their proof of use.

Whatever is wrong is one UsageError, and nothing was started.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import dballoc
from dballoc import catalogue
from dballoc.allocators.find_library import Allocator
from dballoc.allocators.library_version import UNKNOWN
from dballoc.allocators.tunables import VariantSetting
from dballoc.campaign.preparation import variant_malloc
from dballoc.campaign.preparation.malloc_on_this_host import find_entry
from dballoc.campaign.preparation.prepared import Prepared, check_thp
from dballoc.campaign.preparation.proved_malloc import ProvedMalloc, prove_malloc
from dballoc.campaign.replay.replay_limits import check_needs, measure_spare_memory
from dballoc.experiment.model import Experiment, Variant
from dballoc.ground.errors import UsageError
from dballoc.host.resources import cgroup
from dballoc.host.resources.choose_cpus import choose_cpus
from dballoc.host.settings import machine_lock, thp
from dballoc.host.unprivileged.server_user import ServerUser, server_user
from dballoc.servers.build import Build
from dballoc.store.replay_facts import RecordedTrace
from dballoc.store.rows import VariantRow
from dballoc.trace.replay import run_replay


@dataclass(frozen=True, kw_only=True)
class EngineBuild(Build):
    """The engine that replays traces, in a server's place: its malloc is chosen and proved as a
    server's is.
    """

    @property
    def title(self) -> str:
        """How messages call it."""
        return "dballoc's replay engine"


@dataclass(frozen=True, kw_only=True)
class PreparedReplayVariant(ProvedMalloc):
    """A variant as its malloc will run in the engine on this machine."""

    trace: RecordedTrace

    def make_row(self) -> VariantRow:
        """Return the variant's row of table ``variant``; in the server's place is the program that
        was recorded.
        """
        return self.fill_row(
            server=f"replay of {self.trace.program}",
            engine="malloc",
            command=json.dumps([self.build.executable.name, "PLAN"]),
            pool_bytes=None,
        )


@dataclass(frozen=True, kw_only=True)
class PreparedReplay(Prepared):
    """A campaign of replays. ``path``: of the trace; ``server_cpus``: of the engine, None: all."""

    variants: Mapping[str, PreparedReplayVariant]
    path: Path
    trace: RecordedTrace
    server_cpus: frozenset[int] | None = None

    def list_decaying_variants(self) -> tuple[str, ...]:
        """Return the variants whose malloc gives memory back by the clock; one that the catalogue
        does not know may.
        """
        return tuple(name for name, each in self.variants.items() if may_decay(each.allocator))

    def find_recorded_variant(self) -> str | None:
        """Return the variant whose malloc is the recorded one; None if there is none."""
        mallocs = {
            name: (each.allocator.name, each.allocator.version, each.settings)
            for name, each in self.variants.items()
        }
        return find_recorded_variant(self.trace, self.experiment, mallocs)

    def list_unjudged_idle(self) -> tuple[str, ...]:
        """Return the variants whose idle heap says nothing: they return memory by the clock, which
        the replay does not keep.
        """
        replay = self.experiment.replay
        keeps_the_clock = replay is not None and replay.mode == "timed" and replay.speed == 1
        return () if keeps_the_clock else self.list_decaying_variants()


def may_decay(allocator: Allocator) -> bool:
    """Whether a malloc gives memory back by the clock, or may."""
    entry = find_entry(allocator)
    return bool(entry.get("decays", entry not in catalogue.allocators().values()))


def prepare_replay(experiment: Experiment, path: Path, trace: RecordedTrace) -> PreparedReplay:
    """Find and check everything for replays of the trace at ``path``. Raises UsageError for
    whatever this machine cannot do as asked.
    """
    # First of all: everything below takes the present THP settings for the host's own.
    put_back = tuple(machine_lock.put_back_leftovers())
    check_needs(experiment, trace, measure_spare_memory())
    user = server_user()
    user.check_alone()
    if experiment.limits.memory is not None:
        cgroup.check_memory_cgroup()
    build = find_engine()
    if blocked := user.blocked_at(build.executable):
        raise UsageError(
            f"{build.executable}: replays run as {user.name}, which may not read {blocked}; make "
            "it readable"
        )
    variants = {}
    for variant in experiment.variant:
        where = f"variant {variant.name!r}"
        check_thp(where, variant)
        malloc = _prove(where, experiment, user, build, variant)
        variants[variant.name] = PreparedReplayVariant(**vars(malloc), trace=trace)
    return PreparedReplay(
        experiment=experiment,
        path=path,
        trace=trace,
        variants=variants,
        user=user,
        server_cpus=choose_cpus(experiment.cpu).server,
        thp=thp.read_host(),
        put_back=put_back,
    )


def _prove(
    where: str, experiment: Experiment, user: ServerUser, build: EngineBuild, variant: Variant
) -> ProvedMalloc:
    """Prove a variant's malloc in the engine. UsageError that says what to do instead where the
    malloc and the engine need different C libraries.
    """
    try:
        return prove_malloc(where, experiment, user, build, variant)
    except variant_malloc.GlibcTooOld as error:
        if experiment.server.glibc or (variant.allocator or "").startswith("glibc@"):
            text = (
                f"dballoc's replay engine was built on glibc {error.needs} or newer, and does not "
                "run on an older one; compare servers on it: dballoc bench"
            )
        else:
            newer = variant_malloc.find_newer_glibc(error.needs) or error.needs
            text = (
                f"it needs glibc {error.needs} or newer; replay everything on one: dballoc fetch "
                f"glibc@{newer}, then --glibc {newer}"
            )
        raise UsageError(f"{where}: {text}") from None


def find_engine() -> EngineBuild:
    """Find the engine that replays traces. Raises Failure if it is not built."""
    engine = run_replay.find_engine()
    return EngineBuild(
        family="replay",
        version=dballoc.__version__,
        executable=engine,
        basedir=engine.parent,
        share=engine.parent,
        plugins=None,
    )


# -- the recorded variant --------------------------------------------------------------------------


def find_recorded_variant(
    trace: RecordedTrace,
    experiment: Experiment,
    mallocs: Mapping[str, tuple[str, str, tuple[VariantSetting, ...]]],
) -> str | None:
    """Return the variant whose malloc is the recorded one: in its version and with its settings, as
    far as these are known, on the machine's own C library and under its own settings; None if there
    is none. ``mallocs``: each variant's by name, version and settings.
    """
    if experiment.server.glibc is not None:
        return None
    for variant in experiment.variant:
        name, version, settings = mallocs[variant.name]
        if (
            name == trace.allocator.partition(" ")[0]
            and len({version, trace.allocator_version} - {"", UNKNOWN}) <= 1
            and {each.name: each.value for each in settings} == dict(trace.settings or {})
            and not _differs_otherwise(variant, settings)
        ):
            return variant.name
    return None


def _differs_otherwise(variant: Variant, settings: tuple[VariantSetting, ...]) -> bool:
    """Whether a variant sets more than its malloc and the malloc's settings."""
    places = {each.place.split(":")[0].removeprefix("env ") for each in settings}
    return bool(variant.preload or variant.host_settings or variant.env.keys() - places)
