"""An experiment on a server like a running one: its build, options, CPUs, memory limit and malloc.
The running server is only read.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dballoc.allocators import find_library as find_allocator
from dballoc.experiment import secret_names
from dballoc.experiment.durations_and_sizes import format_size
from dballoc.ground.errors import Failure, UsageError
from dballoc.host.abandonable import touches
from dballoc.host.abandonable.abandonable_work import run_abandonable
from dballoc.host.abandonable.look_limits import likeness_limits
from dballoc.host.process import maps, open_in_process_root
from dballoc.host.process.handle import Process
from dballoc.host.resources import cgroup, process_limits
from dballoc.process.malloc import identify_malloc
from dballoc.process.malloc.identify_malloc import MallocInUse
from dballoc.servers import build as find_build
from dballoc.servers.build import Build
from dballoc.servers.running import running_server as running
from dballoc.servers.running.adopted_options import take, with_own_word
from dballoc.servers.running.credentials import Credentials
from dballoc.servers.running.same_build import find_same_build, find_unsafe_part

# The baseline's name where an allocator's name does not describe it fully.
CURRENT = "current"


@dataclass(frozen=True, kw_only=True)
class Likeness:
    """What an experiment takes over from a running server; ``notes``: a line for each setting that
    it cannot take over.
    """

    server: dict[str, Any]
    cpu: dict[str, Any]
    memory: str | None
    variant: dict[str, Any]
    notes: list[str] = field(default_factory=list)

    def lay(self, table: dict[str, Any]) -> dict[str, Any]:
        """Return the experiment's table with the running server's settings in place of its own.
        Pure.

        Build, engine and options are replaced, not merged: an option that the running server does
        not set has its default. Its malloc becomes the baseline; the other variants stay, except
        one of the same name.
        """
        kept = {k: v for k, v in table.get("server", {}).items() if k == "connect"}
        variants = [v for v in table.get("variant", []) if v.get("name") != self.variant["name"]]
        result = {
            **table,
            "server": {**kept, **self.server},
            "variant": [self.variant, *variants],
            "baseline": self.variant["name"],
        }
        if self.cpu:
            result["cpu"] = self.cpu
        if self.memory:
            result["limits"] = {**table.get("limits", {}), "memory": self.memory}
        return result


def read_running_server(
    process: Process, credentials: Credentials, other: tuple[str, str | None] | None
) -> Likeness:
    """Read what an experiment takes over from a running server. ``other``: the build to run in its
    place (``server.use``, ``server.basedir``). Raises UsageError if the process is not a server, is
    not running, may not be read, or cannot be run here; Failure if it does not answer.
    """
    return run_abandonable(
        lambda: _read_likeness(process, credentials, other),
        f"--like {process.pid}",
        likeness_limits(),
    )


def _read_likeness(
    process: Process, credentials: Credentials, other: tuple[str, str | None] | None
) -> Likeness:
    running_server = running.look(process)
    if other is None:
        use, basedir, build = find_same_build(running_server)
    else:
        use, basedir = other
        build = find_build.find(use, basedir)
    server: dict[str, Any] = {"use": use} | ({"basedir": basedir} if basedir else {})
    options, option_notes = _read_options(running_server, credentials, build)
    limits = _read_limits(process)
    return Likeness(
        server=server | options,
        cpu=limits.cpu,
        memory=limits.memory,
        variant=_read_variant(process),
        notes=[*option_notes, *limits.notes, *touches.list_notes()],
    )


def _read_options(
    server: running.RunningServer, credentials: Credentials, build: Build
) -> tuple[dict[str, Any], list[str]]:
    """Return the running server's engine and options as keys of ``server``, and notes."""
    started_with = running.read_options(server)
    options = started_with.options
    notes = [f"options: {note}" for note in started_with.notes]
    try:
        options = with_own_word(options, running.own_word(server, options, credentials))
    except running.NoWord as error:
        notes.append(f"options changed at run time are unknown: {error}")
    adopted = take(options, build.plugins)
    notes += adopted.notes()
    table: dict[str, Any] = {"engine": adopted.engine or "innodb"}
    if table["engine"] not in build.entry.engines:
        notes.append(
            f"engine {table['engine']} is not one that dballoc can load in {build.title}; using "
            "innodb"
        )
        table["engine"] = "innodb"
    if adopted.options:
        table["options"] = adopted.options
    if adopted.init_options:
        table["init_options"] = adopted.init_options
    return table, notes


@dataclass(frozen=True)
class _CopiedLimits:
    """A running server's limits as ``cpu`` and ``limits.memory`` of an experiment, and notes."""

    cpu: dict[str, Any]
    memory: str | None
    notes: list[str]


def _read_limits(process: Process) -> _CopiedLimits:
    try:
        limits = process_limits.read_limits(process)
    except OSError as error:
        return _CopiedLimits({}, None, [f"CPU and memory limits are unknown: {error.strerror}"])
    notes = []
    available = len(os.sched_getaffinity(0))
    cpu = {"count": limits.cpu_count} if limits.cpu_count < available else {}
    if limits.quota is not None and limits.quota != limits.cpu_count:
        notes.append(f"its quota of {limits.quota:g} CPUs is rounded to {limits.cpu_count}")
    if limits.memory is None or limits.memory >= _machine_memory_bytes():
        return _CopiedLimits(cpu, None, notes)
    size = format_size(limits.memory)
    try:
        cgroup.check_memory_cgroup()
    except UsageError as error:
        return _CopiedLimits(
            cpu, None, [*notes, f"its memory limit of {size} is not used here: {error}"]
        )
    return _CopiedLimits(cpu, size, notes)


def _machine_memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _read_variant(process: Process) -> dict[str, Any]:
    try:
        malloc = identify_malloc.identify_malloc_in_use(process)
        mapped = sorted(maps.list_mapped_files(process))
        preloaded = [] if malloc.privileged else identify_malloc.read_ld_preload(process)
    except (Failure, OSError) as error:
        raise UsageError(
            f"--like {process.pid}: its malloc cannot be read: {error}; run as root"
        ) from None
    if malloc.library == malloc.executable:
        raise UsageError(
            f"--like {process.pid}: its malloc is built into {malloc.executable} and cannot be "
            "replaced"
        )
    result = make_variant(malloc, [_find_mapped_file(entry, mapped) for entry in preloaded])
    for library in result.get("preload", []):
        _check_library(process, library)
    return result


def _check_library(process: Process, library: str) -> None:
    """Raises UsageError unless a library that the running server names may be loaded into ours: it
    must be the same file on this host, which root alone may change.
    """
    remedy = "name a library of your own as preload in an experiment file"
    try:
        on_this_host = os.stat(library)
        same = (on_this_host.st_dev, on_this_host.st_ino) == _identify_file(process, library)
        unsafe = find_unsafe_part(Path(library))
    except OSError as error:
        raise UsageError(
            f"--like {process.pid}: its {library} cannot be used: {error.strerror}; {remedy}"
        ) from None
    if not same:
        raise UsageError(
            f"--like {process.pid}: its {library} is not the same file as this host's; {remedy}"
        )
    if unsafe:
        raise UsageError(
            f"--like {process.pid}: users other than root can change {unsafe}, so {library} is not "
            f"loaded; {remedy}"
        )


def _identify_file(process: Process, library: str) -> tuple[int, int]:
    """Return device and inode of a library as the running server's root has it."""
    status = open_in_process_root.measure_file(process.root, process.strip_root(library))
    return status.st_dev, status.st_ino


def _find_mapped_file(entry: str, paths: list[str]) -> str:
    """Return the file that an entry of LD_PRELOAD, which may be a bare name, was loaded from."""
    real = os.path.realpath(entry) if "/" in entry else entry
    return (
        entry
        if "/" in entry and real in paths
        else next((p for p in paths if Path(p).name.startswith(entry)), entry)
    )


def make_variant(malloc: MallocInUse, preloaded: list[str]) -> dict[str, Any]:
    """Return the variant that runs as that process does: its allocator, preloaded libraries and
    settings.

    Its name is the allocator's if that describes it fully, else ``current``.
    """
    result: dict[str, Any] = {"name": CURRENT}
    if malloc.name != "glibc":
        # A server that is linked against its malloc: preloading the same file changes nothing.
        libraries = preloaded or [malloc.library]
        catalogue = _find_catalogue_files(malloc.name)
        if catalogue and {os.path.realpath(p) for p in libraries} >= catalogue:
            result["allocator"] = malloc.name
            libraries = [p for p in libraries if os.path.realpath(p) not in catalogue]
        else:
            # The malloc first: it gives the variant's allocator its name.
            libraries = sorted(
                libraries, key=lambda p: os.path.realpath(p) != os.path.realpath(malloc.library)
            )
    else:
        libraries = preloaded
        result["allocator"] = "glibc"
    if libraries:
        result["preload"] = libraries
    settings = malloc.effective_settings
    if settings := {k: v for k, v in settings.items() if secret_names.hide_value(k, v) == v}:
        result["env"] = settings
    if set(result) <= {"name", "allocator"} and malloc.name:
        result["name"] = malloc.name
    return result


def _find_catalogue_files(name: str | None) -> set[str]:
    """Return the files that a variant with that allocator would be started with."""
    if name is None:
        return set()
    try:
        return {os.path.realpath(p) for p in find_allocator.find_allocator(name).libraries}
    except UsageError:
        return set()
