"""Which malloc a running process really uses, and with which settings, read from outside."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dballoc.allocators import proof_of_use, setting_effects, version_ranges
from dballoc.allocators.find_library import Allocator
from dballoc.allocators.setting_effects import SettingEffect
from dballoc.catalogue import allocators
from dballoc.host.elf import loader
from dballoc.host.process import maps, privileged_start
from dballoc.host.process.handle import Process
from dballoc.host.process.maps import MapsLine
from dballoc.host.process.privileged_start import PrivilegedStart
from dballoc.host.process.read_rights import failing_for
from dballoc.host.settings import thp
from dballoc.process.malloc import library_file, malloc_bindings, read_settings

# Our libraries that pass calls on to the malloc behind them.
_PROBES = ("libdballoc_probe.so", "libdballoc_trace.so")

# How the variables begin that glibc reads beside GLIBC_TUNABLES (mallopt(3), "Environment
# variables"), and those that somebody has misspelt.
_GLIBC_VARIABLES = (
    "MALLOC_ARENA",
    "MALLOC_CHECK",
    "MALLOC_MMAP",
    "MALLOC_PERTURB",
    "MALLOC_TOP_PAD",
    "MALLOC_TRIM",
)

_NOT_CALLED = "; the program has not called it yet, and this is the first library that has one"
_UNKNOWN = "a malloc that dballoc does not know"
_BUILT_IN = "it is built into the executable"
_STATIC = "the executable is static: its malloc is a part of it, and no preload replaces that"
_BY_LIBRARIES = "its libraries call it; the executable itself calls none"
# musl's loader, which is its C library; elsewhere it has the name that no other C library has.
_MUSL = re.compile(r"(?:ld-musl-\w+\.so\.1|libc\.musl-\w+\.so\.1|libc\.so)(?: \(deleted\))?")
_MUSL_MALLOC = "mallocng"


@dataclass(frozen=True, kw_only=True)
class MallocInUse:
    """The malloc that a process uses, or will use with its first call.

    ``name``: the catalogue's, None for a library that it does not know; ``how``: why the process
    uses it; ``mixed``: the libraries of symbols that another one provides, by symbol; ``settings``:
    the environment variables that configure it; ``effects``: what became of each setting in them;
    ``idle``: what in its environment has no effect, with the reason; ``privileged``: why it was
    started privileged; ``replaced``: what a restart will load instead of files that are not there
    any more; ``thp``: the mode that the process has.
    """

    pid: int
    executable: str
    name: str | None
    title: str
    version: str
    library: str
    how: str
    mixed: dict[str, str]
    settings: dict[str, str]
    idle: dict[str, str]
    thp: str
    effects: list[SettingEffect] = field(default_factory=list)
    privileged: PrivilegedStart | None = None
    replaced: list[str] = field(default_factory=list)

    @property
    def effective_settings(self) -> dict[str, str]:
        """The variables of ``settings``, with those parts that have an effect, or may have."""
        join = allocators()[self.name]["tunables"].get("join", ",") if self.name else ","
        judged = {effect.variable for effect in self.effects}
        effective = {k: v for k, v in self.settings.items() if k not in judged}
        for effect in self.effects:
            if effect.effect != "none":
                part = effect.setting.removeprefix(f"{effect.variable}=")
                before = effective.get(effect.variable)
                effective[effect.variable] = f"{before}{join}{part}" if before else part
        return effective

    def describe_idle_settings(self) -> list[str]:
        """Return a sentence for each setting of this malloc that has no effect, for a start that is
        to blame, and for files that a restart will load in another version.
        """
        notes = [f"{e.setting} {e.words}" for e in self.effects if e.effect == "none"]
        if self.privileged:
            notes.append(
                f"it was started privileged ({self.privileged.cause}), so no setting of "
                f"{self.title} would have an effect: {self.privileged.remedy}"
                if self._ignores_settings
                else f"it was started privileged ({self.privileged.cause}), so LD_PRELOAD has no "
                f"effect: {self.privileged.remedy}"
            )
        return [*notes, *self.replaced]

    @property
    def _ignores_settings(self) -> bool:
        """Whether it ignores its settings in a program that is started privileged."""
        return allocators().get(self.name or "", {}).get("privileged") == "ignores"


def identify_malloc_in_use(process: Process) -> MallocInUse:
    """Identify the malloc of a process. Raises Failure if the process cannot be read, or its malloc
    cannot be told.
    """
    bindings = malloc_bindings.read_bindings(process)
    with failing_for(process):
        executable = loader.find_main_program(process)
        environ = process.read_environment("replace")
        thp_mode, mappings = thp.describe_process_mode(process), maps.read_maps(process)
        privileged = privileged_start.read_privileged_start(process)
    mapped = maps.list_file_paths(mappings)
    bindings = {symbol: find_malloc_behind_probe(lib, mapped) for symbol, lib in bindings.items()}
    use = _find_use(process, bindings, mapped)
    name = use.name
    mixed = {
        s: lib
        for s, lib in bindings.items()
        if not _is_same_allocator(lib, use.library)
        and not proof_of_use.calls_the_family(s, lib, executable)
    }
    version = library_file.read_version(process, name, use.library, mappings)
    settings = _list_settings(environ, allocators()[name]) if name else {}
    effects = _judge_settings(process, use, version, settings, mappings, privileged)
    return MallocInUse(
        pid=process.pid,
        executable=executable,
        name=name,
        title=_make_title(name, use.library, version),
        version=version,
        library=use.library,
        how=use.how
        or _explain_use(use.library, executable, environ, privileged)
        + (_NOT_CALLED if use.uncalled else ""),
        mixed=mixed,
        settings=settings,
        effects=effects,
        idle=list_ineffective_settings(
            environ, name, mapped, _find_preload_obstacle(use, privileged)
        )
        | {effect.setting: effect.words for effect in effects if effect.effect == "none"},
        privileged=privileged,
        replaced=_list_replaced(process, use, version, executable, mappings),
        thp=thp_mode,
    )


@dataclass(frozen=True, kw_only=True)
class _Use:
    """Which library provides malloc; the fields are those of :class:`MallocInUse`. ``how``: empty
    where the environment has to tell it; ``uncalled``: the program has not called it yet;
    ``static``: no loader has read the environment.
    """

    library: str
    name: str | None
    how: str = ""
    uncalled: bool = False
    static: bool = False


def _find_use(process: Process, bindings: dict[str, str], mapped: Collection[str]) -> _Use:
    """Find it by the bindings of the executable; by what is loaded and built in where it has none.
    Raises UnreadableElf if that cannot be told.
    """
    if bound := bindings.get("malloc") or bindings.get("free"):
        return _Use(library=bound, name=find_catalogue_name(bound))
    first = malloc_bindings.find_unbound_malloc(process)
    library = find_malloc_behind_probe(first.library, mapped)
    if first.imports:
        name = find_catalogue_name(library)
        return _Use(library=library, name=name, uncalled=True)
    built_in = library_file.find_built_in_malloc(process)
    if built_in or library == first.executable:
        how = _STATIC if first.static else _BUILT_IN
        return _Use(library=first.executable, name=built_in, how=how, static=first.static)
    return _Use(library=library, name=find_catalogue_name(library), how=_BY_LIBRARIES)


def _make_title(name: str | None, library: str, version: str) -> str:
    if name is None:
        return _UNKNOWN if ".so" not in library else Path(library).name
    entry = allocators()[name]
    libc = entry.get("libc", {})
    if not libc or not _is_musl(library):
        return str(entry["title"])
    numbers = version_ranges.parse_numbers(version)
    is_older = numbers and numbers < version_ranges.parse_numbers(libc["since"])
    return str(libc["before"] if is_older else entry["title"])


def _judge_settings(
    process: Process,
    use: _Use,
    version: str,
    settings: dict[str, str],
    mappings: Sequence[MapsLine],
    privileged: PrivilegedStart | None,
) -> list[SettingEffect]:
    cause = privileged.cause if privileged else None

    def judge(name: str, library: str, version: str, part: dict[str, str]) -> list[SettingEffect]:
        allocator = Allocator(name=name, libraries=(), version=version)
        evidence = read_settings.read_malloc_settings(
            process, allocator, library, mappings, part, cause
        )
        return setting_effects.judge_settings(allocator, part, evidence)

    # A malloc that registers rseq itself is configured by a setting of another part of glibc.
    is_foreign = use.name not in (None, "glibc")
    of_glibc = {k: v for k, v in settings.items() if is_foreign and k == "GLIBC_TUNABLES"}
    effects = []
    if use.name and (part := {k: v for k, v in settings.items() if k not in of_glibc}):
        effects += judge(use.name, use.library, version, part)
    if of_glibc:
        libc = next((m.path for m in mappings if find_catalogue_name(m.path) == "glibc"), "")
        libc_version = library_file.read_version(process, "glibc", libc, mappings)
        effects += judge("glibc", libc, libc_version, of_glibc)
    return effects


def _find_preload_obstacle(use: _Use, privileged: PrivilegedStart | None) -> str | None:
    """Return why no LD_PRELOAD at all is obeyed; None if nothing speaks against it."""
    if use.static:
        return "the executable is static, so there is no loader that reads LD_PRELOAD"
    if privileged:
        return f"LD_PRELOAD is ignored, as the program was started privileged ({privileged.cause})"
    return None


def _list_replaced(
    process: Process, use: _Use, version: str, executable: str, mappings: Sequence[MapsLine]
) -> list[str]:
    notes = []
    if use.library != executable:
        note = library_file.describe_replacement(process, use.name, use.library, version, mappings)
        notes += [note] if note else []
    if executable.endswith(library_file.DELETED):
        path = executable.removesuffix(library_file.DELETED)
        notes.append(f"{path} was replaced or removed since it was started: a restart runs another")
    return notes


def find_malloc_behind_probe(library: str, mapped: Iterable[str]) -> str:
    """Return the malloc that our probe passes calls on to: the catalogue's allocator that the
    process has mapped, glibc's if there is no other. Any other library is returned as it is.
    """
    if Path(library).name not in _PROBES:
        return library
    names = {path: name for path in mapped if (name := find_catalogue_name(path))}
    return next(
        (path for path, name in names.items() if name != "glibc"), next(iter(names), library)
    )


def read_ld_preload(process: Process) -> list[str]:
    """Return the entries of a process's LD_PRELOAD as they are written there. Raises OSError if it
    cannot be read.
    """
    return _list_preloads(process.read_environment("replace"))


def find_catalogue_name(library: str) -> str | None:
    """Return the catalogue's name of the allocator that a file belongs to, by its soname; None if
    the catalogue does not know it.
    """
    if _is_musl(library):
        return _MUSL_MALLOC
    stem = _strip_suffixes(library)
    for name, entry in allocators().items():
        for sonames in (*entry.get("preload", []), *entry.get("provider", [])):
            if any(stem == _strip_suffixes(soname) for soname in sonames.split("|")):
                return name
    return None


def select_settings(environ: dict[str, str], variable: str | None) -> dict[str, str]:
    """Return the variables of an environment that configure a malloc. ``variable``: the
    catalogue's, maybe with ``{NAME}``.
    """
    start = (variable or "").partition("{")[0]
    if not start:
        return {}
    starts = (start, *_GLIBC_VARIABLES) if start == "GLIBC_TUNABLES" else (start,)
    return {k: v for k, v in environ.items() if k.startswith(starts)}


def _list_settings(environ: dict[str, str], entry: dict[str, Any]) -> dict[str, str]:
    """Return the variables that configure an allocator; for one that registers rseq itself, also
    the one that keeps glibc from it.
    """
    rseq = {"GLIBC_TUNABLES"} & environ.keys() if "rseq" in entry else set()
    return select_settings(environ, entry["tunables"].get("env")) | {v: environ[v] for v in rseq}


def list_ineffective_settings(
    environ: dict[str, str], used: str | None, mapped: set[str], obstacle: str | None = None
) -> dict[str, str]:
    """Return what in an environment has no effect, with the reason: preloads that are not loaded or
    not used, and settings of another malloc than the one ``used``, by the catalogue's name.
    ``obstacle``: why no preload is obeyed.
    """
    stems = {_strip_suffixes(path) for path in mapped}
    reasons = {}
    for path in _list_preloads(environ):
        other = find_catalogue_name(path)
        if _strip_suffixes(path) not in stems:
            reasons[path] = obstacle or (
                "LD_PRELOAD names it, but it is not loaded: missing, unreadable, or built for "
                "another system"
            )
        elif other and other != used:
            reasons[path] = (
                "LD_PRELOAD names it and it is loaded, but malloc comes from another library"
            )
    effective = select_settings(environ, allocators()[used]["tunables"].get("env")) if used else {}
    for name, entry in allocators().items():
        for variable, value in select_settings(environ, entry["tunables"].get("env")).items():
            # The loader and other parts of glibc read GLIBC_TUNABLES too.
            if variable not in effective and (
                variable != "GLIBC_TUNABLES" or "glibc.malloc." in value
            ):
                reasons[variable] = f"a setting of {name}, which is not in use"
    return reasons


def _is_musl(library: str) -> bool:
    return _MUSL.fullmatch(Path(library).name) is not None


def _list_preloads(environ: dict[str, str]) -> list[str]:
    return [p for p in re.split("[: ]", environ.get("LD_PRELOAD", "")) if p]


def _strip_suffixes(path: str) -> str:
    # Before glibc 2.34, libc.so.6 is a link to libc-2.31.so or the like.
    return re.sub(r"-\d[\d.]*$", "", Path(path).name.partition(".so")[0])


def _explain_use(
    library: str, executable: str, environ: dict[str, str], privileged: PrivilegedStart | None
) -> str:
    if library == executable:
        return _BUILT_IN
    if privileged and _list_preloads(environ) and find_catalogue_name(library) == "glibc":
        return f"LD_PRELOAD is ignored: it was started privileged ({privileged.cause})"
    if not privileged and any(
        _strip_suffixes(p) == _strip_suffixes(library) for p in _list_preloads(environ)
    ):
        return "LD_PRELOAD in its environment"
    if find_catalogue_name(library) == "glibc":
        return (
            "what LD_PRELOAD asks for is not used"
            if _preloads_other_malloc(environ)
            else "nothing else was preloaded"
        )
    if _is_musl(library):
        return "it is in the C library, and nothing else was preloaded"
    return "the executable is linked against it, or /etc/ld.so.preload names it"


def _preloads_other_malloc(environ: dict[str, str]) -> bool:
    return any(find_catalogue_name(p) not in (None, "glibc") for p in _list_preloads(environ))


def _is_same_allocator(library: str, other: str) -> bool:
    return (
        library == other or find_catalogue_name(library) == find_catalogue_name(other) is not None
    )
