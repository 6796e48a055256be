"""A variant's malloc as it will run on this machine, proved before the first start: in a server, or
in the engine that replays traces.
"""

import json
import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from dballoc.allocators import find_library as find_allocator
from dballoc.allocators import proof_of_use, reported_tunables, server_environment, tunables
from dballoc.allocators.find_library import Allocator
from dballoc.allocators.tunables import VariantSetting
from dballoc.campaign.preparation import malloc_on_this_host, variant_malloc
from dballoc.experiment.model import Experiment, Variant
from dballoc.ground.errors import UsageError
from dballoc.host.process import privileged_start
from dballoc.host.process.privileged_start import Starter
from dballoc.host.settings import thp
from dballoc.host.unprivileged.server_user import ServerUser
from dballoc.instruments.ways_in.preload import find_library
from dballoc.instruments.ways_in.preload_socket import HEAP_PROBE, RECORDER
from dballoc.servers.build import Build
from dballoc.store.rows import VariantRow


@dataclass(frozen=True, kw_only=True)
class ProvedMalloc:
    """A variant whose malloc is proved in ``build`` under ``env``. ``wrappers``: libraries
    preloaded ahead of the allocator, which may answer for it
    (:func:`dballoc.campaign.preparation.variant_malloc.find_wrappers`).
    """

    variant: Variant
    build: Build
    allocator: Allocator
    env: dict[str, str]
    bindings: proof_of_use.Bindings
    settings: tuple[VariantSetting, ...] = ()
    wrappers: tuple[str, ...] = ()

    @property
    def malloc_title(self) -> str:
        """The malloc's name and version."""
        return " ".join(filter(None, [self.allocator.name, self.allocator.version]))

    @property
    def environment(self) -> dict[str, str]:
        """What the malloc and its settings need beside this process's own environment."""
        host_environment = server_environment.remove_allocator_variables(os.environ)
        return {k: v for k, v in self.env.items() if k not in host_environment}

    def fill_row(self, **columns: Any) -> VariantRow:
        """Return the variant's row of table ``variant``; ``columns``: those of what it runs in."""
        libraries = self.env["LD_PRELOAD"].split(":") if "LD_PRELOAD" in self.env else []
        return VariantRow(
            name=self.variant.name,
            allocator=self.allocator.name,
            allocator_version=self.allocator.version,
            libraries=json.dumps(libraries),
            environment=json.dumps(self.environment, sort_keys=True),
            server_version=self.build.version,
            thp=thp.describe_settings(self.variant.host_settings) or None,
            **columns,
        )


def prove_malloc(
    where: str, experiment: Experiment, user: ServerUser, build: Build, variant: Variant
) -> ProvedMalloc:
    """Choose the variant's malloc, and prove that the program uses it with the variant's settings.
    Raises UsageError if it does not.
    """
    _check_start(where, user, build)
    try:
        malloc = variant_malloc.choose_malloc(build, experiment.server_of(variant), variant)
    except variant_malloc.GlibcTooOld as error:
        raise variant_malloc.GlibcTooOld(f"{where}: {error}", error.needs) from None
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    allocator = malloc.allocator
    before = ((_find_thp_shim(),) if variant.wants_huge_pages else ()) + malloc.preloaded_before
    instruments = (
        *([find_library(HEAP_PROBE)] if experiment.profile == "heap" else []),
        *([find_library(RECORDER)] if experiment.record else []),
    )
    for library in (*before, *allocator.libraries, *instruments):
        if blocked := user.blocked_at(library):
            raise UsageError(
                f"{where}: preload {library}: the server runs as {user.name}, which may not "
                f"read {blocked}"
            )
    if variant.tunables and not allocator.entry["tunables"]:
        raise UsageError(f"{where}: tunables: {allocator.entry['title']} has no settings")
    malloc_on_this_host.check_libraries(where, allocator, (*before, *allocator.libraries))
    command = [os.fspath(malloc.build.executable)]
    settings = _check_settings(where, command, allocator, variant, before)
    env = server_environment.build_environment(
        os.environ, allocator, variant.tunables, variant.env, before
    )
    env = malloc_on_this_host.set_rseq(where, allocator, command, env)
    wrappers = variant_malloc.find_wrappers(before)
    bindings = _read_proved_bindings(where, malloc.build, env, allocator, wrappers)
    if settings:
        reported = reported_tunables.read_reported_settings(allocator, command, env)
        if mismatch := tunables.find_setting_not_taken(allocator, settings, reported):
            raise UsageError(f"{where}: {mismatch}")
    return ProvedMalloc(
        variant=variant,
        build=malloc.build,
        allocator=allocator,
        env=env,
        bindings=bindings,
        settings=tuple(settings),
        wrappers=wrappers,
    )


def _check_start(where: str, user: ServerUser, build: Build) -> None:
    """Raises UsageError if the server would start privileged: no preload, no setting of glibc's and
    none of the loader's lists would have an effect.
    """
    starter = Starter(
        os.getuid() if user.uid is None else user.uid,
        os.getgid() if user.uid is None else user.uid,
        no_new_privs=True,
    )
    if privileged := privileged_start.read_executable_privilege(build.executable, starter):
        raise UsageError(
            f"{where}: {build.executable} starts privileged ({privileged.cause}), so its loader "
            "ignores LD_PRELOAD and settings, and cannot show which malloc it uses; let "
            "server.basedir name a copy (cp leaves that behind)"
        )


def _check_settings(
    where: str, command: list[str], allocator: Allocator, variant: Variant, before: tuple[Path, ...]
) -> list[VariantSetting]:
    """Return the settings that the variant gives its allocator. Raises UsageError if the allocator
    does not know one of them.
    """
    settings = tunables.list_variant_settings(allocator, variant.tunables, variant.env, where)
    env = server_environment.build_environment(os.environ, allocator, {}, {}, before)
    if settings:
        names = reported_tunables.list_reported_names(allocator, command, env)
        tunables.check_settings(allocator, settings, names, where)
    glibc = find_allocator.find_allocator("glibc")
    if allocator.name != glibc.name and (text := variant.env.get("GLIBC_TUNABLES")):
        # Other parts of glibc read it under any malloc.
        others = tunables.list_variant_settings(glibc, {}, {"GLIBC_TUNABLES": text}, where)
        tunables.check_settings(
            glibc, others, reported_tunables.list_reported_names(glibc, command, env), where
        )
    return settings


def _read_proved_bindings(
    where: str, build: Build, env: dict[str, str], allocator: Allocator, wrappers: tuple[str, ...]
) -> proof_of_use.Bindings:
    """Return the malloc bindings of the server. Raises UsageError if they are not the
    allocator's.
    """
    complaints = allocator.entry.get("complaints", [])
    try:
        bindings = proof_of_use.read_bindings([os.fspath(build.executable)], env)
        proof_of_use.check_bindings(bindings, allocator.providers, complaints, wrappers)
    except proof_of_use.NotProved as error:
        wanted = ", ".join(Path(p).name for p in allocator.providers)
        raise variant_malloc.make_proof_error(where, error, build, wanted) from None
    return bindings


def _find_thp_shim() -> Path:
    shim = Path(str(files("dballoc") / "_native" / "libdballoc_keep_thp.so"))
    if not shim.exists():
        raise UsageError("thp: dballoc's native parts are not built; run make setup")
    return shim
