"""Determine what a variant needs to run: libraries, environment, server options; from the results
directory. Pure.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import polars as pl

from dballoc.allocators import host_requirements, server_environment, setting_effects
from dballoc.allocators.find_library import Allocator
from dballoc.allocators.setting_effects import MallocSettings
from dballoc.catalogue import allocators
from dballoc.experiment.durations_and_sizes import parse_size
from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.questions.compare import baseline_comparison
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.servers.families import find_family_named

# The shim that keeps a server from switching THP off for itself (native/thp).
_SHIM = "libdballoc_keep_thp.so"

_THP = "/sys/kernel/mm/transparent_hugepage"

# The only directories, without their subdirectories, from which MySQL's mysqld_safe loads a library
# (5.5.52, 5.6.33, 5.7.15 and later; the same list in 8.0). MariaDB's takes any absolute path that
# it can read.
SAFE_DIRECTORIES = (
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib/i386-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
)

# What instructions are printed of. Results may be anybody's: a path of other characters is refused,
# and a version of another form is left to the reader.
_PATH = re.compile(r"/[\w.+@=,~ -]+(?:/[\w.+@=,~ -]+)*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPTION = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]*")
_WORDS = re.compile(r"[\w.+~:@()/, -]{0,200}")
_RELEASE = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}")
# In place of a release that is not known.
_SOME_RELEASE = "VERSION"

# Environment variables that choose or tune a malloc, to be unset for a server without any.
STEERING = ("LD_PRELOAD", "GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "MALLOC_CONF")


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """What a variant needs. ``libraries``: in the order of LD_PRELOAD; ``settings``: the other
    environment variables; ``packages``: alternatives, the preferred first; ``options``: the
    server's options that differ from the baseline's; ``thp``: what it asks of the host, value by
    file of the kernel's; ``thp_words``: the same in words; ``wants_huge_pages``: whether the server
    must not switch THP off for itself; ``shim``: the one of ``libraries`` that is dballoc's own;
    ``rseq``: which value of glibc.pthread.rseq it needs on which kernel, in words; ``idle``: the
    settings that have no effect, with the reason; ``faults``: (k, n) of its trials; ``replayed``:
    whether these were replays of a recorded server.
    """

    variant: str
    baseline: str
    allocator: str
    title: str
    version: str
    family: str
    server: str
    engine: str
    libraries: tuple[str, ...]
    settings: dict[str, str]
    packages: tuple[str, ...]
    tuned: bool
    options: dict[str, str]
    thp: dict[str, str]
    thp_words: str
    wants_huge_pages: bool
    shim: str | None
    rseq: tuple[str, ...]
    idle: tuple[str, ...]
    faults: tuple[int, int] | None
    replayed: bool = False

    @property
    def preload(self) -> str:
        """The value of LD_PRELOAD."""
        return ":".join(self.libraries)

    @property
    def expectation(self) -> list[str]:
        """The words with which ``dballoc verify PID`` checks that a server runs as this variant
        does. Empty for a library that the catalogue does not know.
        """
        if self.allocator not in allocators():
            return []
        name = "@".join(filter(None, [self.allocator, self.version]))
        settings = [f"{variable}={value}" for variable, value in self.settings.items()]
        return ["--expect", name, *(word for each in settings for word in ("--setting", each))]

    @property
    def environment(self) -> dict[str, str]:
        """All variables, LD_PRELOAD first."""
        return ({"LD_PRELOAD": self.preload} if self.libraries else {}) | self.settings

    @property
    def plain(self) -> bool:
        """Whether the server runs like this without any setting."""
        return not self.environment and not self.thp

    @property
    def needs_newer_kernel(self) -> bool:
        """Whether it asks more of THP than every kernel's mode."""
        return any(path != f"{_THP}/enabled" for path in self.thp)

    @property
    def refused(self) -> list[str]:
        """The libraries that MySQL's mysqld_safe would refuse."""
        return [p for p in self.libraries if str(PurePosixPath(p).parent) not in SAFE_DIRECTORIES]

    @property
    def release(self) -> str:
        """``10.11`` of MariaDB 10.11.19, as images are tagged; of a replay, whose server's version
        is not known, a word to be replaced.
        """
        match = _RELEASE.match(self.server.rpartition(" ")[2])
        return match[0] if match and not self.replayed else _SOME_RELEASE


def build_deployment(campaign: Campaign, name: str, directory: Path) -> Deployment:
    """Return what the variant ``name`` needs. Raises UsageError if there is no such variant, if no
    environment can reproduce it, or if it has a path or name that is not printed to be pasted.
    """
    if name not in campaign.names:
        raise UsageError(f"{directory}: no variant {name!r}; there are {', '.join(campaign.names)}")
    experiment = campaign.experiment
    variant, row = (
        experiment.find(name),
        campaign.variant.row(by_predicate=pl.col("name") == name, named=True),
    )
    entry = allocators().get(row["allocator"])
    libraries = tuple(_resolve_merged_usr(p) for p in json.loads(row["libraries"]))
    allocator = Allocator(name=row["allocator"], libraries=(), version=row["allocator_version"])
    settings = server_environment.build_environment(
        {}, allocator, variant.tunables, variant.env, measuring=False
    )
    settings.pop("LD_PRELOAD", None)
    # What the campaign set by itself, for this allocator on its kernel.
    rseq = host_requirements.find_rseq_setting(json.loads(row["environment"]))
    if rseq is not None and host_requirements.find_rseq_setting(settings) is None:
        settings = host_requirements.add_rseq_setting(settings, rseq)
    server, common = (
        experiment.server_of(variant),
        experiment.server_of(experiment.find(experiment.baseline)),
    )
    allocator_name, at, version = (variant.allocator or "").partition("@")
    if glibc := server.glibc or (version if allocator_name == "glibc" else ""):
        raise UsageError(
            f"{directory}: variant {name!r} runs its server on glibc {glibc}, which environment "
            "variables cannot select; use a system or an image with that C library"
        )
    deployment = Deployment(
        variant=name,
        baseline=experiment.baseline,
        allocator=row["allocator"],
        title=entry["title"] if entry else row["allocator"],
        version=row["allocator_version"],
        family=find_family_named(row["server"]).name,
        server=row["server"],
        engine=row["engine"],
        libraries=libraries,
        settings=settings,
        # Packages bring the release's version, not the one that was asked for.
        packages=tuple(entry.get("packages", [])) if entry and not at else (),
        tuned=bool(variant.tunables or settings),
        options={k: v for k, v in server.options.items() if common.options.get(k) != v},
        thp={_find_thp_file(setting): v for setting, v in variant.host_settings.items()},
        thp_words=row["thp"] or "",
        wants_huge_pages=variant.wants_huge_pages,
        shim=next((p for p in libraries if p.endswith(_SHIM)), None),
        rseq=tuple(host_requirements.describe_rseq(entry or {})),
        idle=_list_idle_settings(allocator, settings),
        faults=baseline_comparison.count_faults(campaign).get(name),
        replayed=campaign.is_replay,
    )
    _check_words(deployment, f"{directory}: variant {name!r}")
    return deployment


def _check_words(deployment: Deployment, where: str) -> None:
    """Raises UsageError for a text that could be more than a word where it is pasted; values of
    settings may be anything, for they are quoted.
    """
    checks: list[tuple[str, re.Pattern[str], Iterable[str]]] = [
        ("library", _PATH, deployment.libraries),
        ("variable", _VARIABLE, deployment.settings),
        ("server option", _OPTION, deployment.options),
        ("server", _WORDS, [deployment.server, deployment.engine]),
        ("allocator", _WORDS, [deployment.title, deployment.allocator, deployment.version]),
        ("THP setting", _WORDS, [deployment.thp_words]),
    ]
    for kind, form, texts in checks:
        for text in texts:
            if not form.fullmatch(text):
                raise UsageError(
                    f"{where}: {kind} {readers.shown(text)} has characters that dballoc deploy "
                    "does not print to be pasted"
                )


def _list_idle_settings(allocator: Allocator, settings: dict[str, str]) -> tuple[str, ...]:
    """Return the settings that this version of the allocator does not take, with the reason."""
    shown = MallocSettings(in_force={})
    effects = setting_effects.judge_settings(allocator, settings, shown)
    return tuple(f"{e.setting} {e.words}" for e in effects if e.effect == "none")


def _find_thp_file(setting: str) -> str:
    """Return the kernel's file of a setting of THP: ``thp``, ``thp_defrag``, ``thp_64K``
    (Documentation/admin-guide/mm/transhuge.rst).
    """
    _, _, detail = setting.partition("_")
    match detail:
        case "":
            name = "enabled"
        case "defrag":
            name = detail
        case size:
            name = f"hugepages-{parse_size(size) // 1024}kB/enabled"
    return f"{_THP}/{name}"


def _resolve_merged_usr(path: str) -> str:
    """Return the path below /usr: /lib is a link to /usr/lib on all current systems, and
    mysqld_safe compares names, not files.
    """
    return "/usr" + path if path.startswith(("/lib/", "/lib64/")) else path
