"""An experiment on a server like a running one: what it runs, with which options, CPUs, memory and
malloc. Reads only.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dballoc.allocators import find_library as find_allocator
from dballoc.errors import UsageError
from dballoc.experiment import secret_names
from dballoc.experiment.durations_and_sizes import format_size
from dballoc.host import process_root, target_files
from dballoc.host.resources import cgroup, process_limits
from dballoc.process_memory import identify_malloc
from dballoc.process_memory.identify_malloc import InUse
from dballoc.process_memory.malloc_bindings import Unreadable
from dballoc.process_memory.malloc_bindings import mapped as mapped_files
from dballoc.servers import build as find_build
from dballoc.servers.build import Build
from dballoc.servers.running import running_server as running
from dballoc.servers.running.adopted_options import take, with_own_word
from dballoc.servers.running.credentials import Credentials
from dballoc.servers.running.same_build import find_same_build, find_unsafe_part

# The baseline's name where an allocator's own name does not say all.
CURRENT = "current"


@dataclass(frozen=True, kw_only=True)
class Likeness:
    """What a running server gives an experiment, and in ``notes`` a line for each thing that it
    does not.
    """

    pid: int
    server: dict[str, Any]
    cpu: dict[str, Any]
    memory: str | None
    variant: dict[str, Any]
    notes: list[str] = field(default_factory=list)

    def lay(self, table: dict[str, Any]) -> dict[str, Any]:
        """The experiment's table with this in place of its own. Pure.

        The server's build, engine and options are replaced, not merged: what the running server
        does not say is its default. Its malloc becomes the baseline; the other variants stay,
        unless they are the same.
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


def read(pid: int, who: Credentials, other: tuple[str, str | None] | None) -> Likeness:
    """Look at a running server. ``other``: the build to run in its place (``server.use``,
    ``server.basedir``).

    UsageError in one line if it is no server, is not there, is not ours to read, or cannot be run
    here.
    """
    process = running.look(pid)
    notes: list[str] = []
    if other is None:
        use, basedir, build = find_same_build(process)
    else:
        use, basedir = other
        build = find_build.find(use, basedir)
    server: dict[str, Any] = {"use": use} | ({"basedir": basedir} if basedir else {})
    server |= _options(process, who, build, notes)
    cpu, memory = _limits(pid, notes)
    return Likeness(
        pid=pid, server=server, cpu=cpu, memory=memory, variant=_variant(pid), notes=notes
    )


def _options(
    process: running.Process, who: Credentials, build: Build, notes: list[str]
) -> dict[str, Any]:
    started_with = running.read_options(process)
    given = started_with.options
    notes += [f"options: {note}" for note in started_with.notes]
    try:
        given = with_own_word(given, running.own_word(process, given, who))
    except running.NoWord as error:
        notes.append(f"options changed while it runs are not known: {error}")
    taken = take(given, build.plugins)
    notes += taken.notes()
    found: dict[str, Any] = {"engine": taken.engine or "innodb"}
    if found["engine"] not in build.entry["engines"]:
        notes.append(
            f"engine {found['engine']} is none of {build.title}'s that dballoc can load; innodb "
            "taken"
        )
        found["engine"] = "innodb"
    if taken.options:
        found["options"] = taken.options
    if taken.init_options:
        found["init_options"] = taken.init_options
    return found


def _limits(pid: int, notes: list[str]) -> tuple[dict[str, Any], str | None]:
    try:
        theirs = process_limits.read(pid)
    except OSError as error:
        notes.append(f"CPU and memory limits are not known: {error.strerror}")
        return {}, None
    have = len(os.sched_getaffinity(0))
    cpu = {"count": theirs.cpu_count} if theirs.cpu_count < have else {}
    if theirs.quota is not None and theirs.quota != theirs.cpu_count:
        notes.append(
            f"its quota of {theirs.quota:g} CPUs is taken as {theirs.cpu_count} whole ones"
        )
    if theirs.memory is None or theirs.memory >= _machine_memory():
        return cpu, None
    size = format_size(theirs.memory)
    try:
        cgroup.check()
    except UsageError as error:
        notes.append(f"its memory limit of {size} is not taken: {error}")
        return cpu, None
    return cpu, size


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _variant(pid: int) -> dict[str, Any]:
    try:
        found = identify_malloc.identify(pid)
        mapped = sorted(mapped_files(pid))
        preloaded = identify_malloc.preloaded(pid)
    except (Unreadable, OSError) as error:
        raise UsageError(f"--like {pid}: its malloc cannot be read: {error}; run as root") from None
    if found.library == found.executable:
        raise UsageError(
            f"--like {pid}: its malloc is built into {found.executable}; no other can take its "
            "place"
        )
    result = variant(found, [_mapped(entry, mapped) for entry in preloaded])
    for library in result.get("preload", []):
        _check_library(pid, library)
    return result


def _check_library(pid: int, library: str) -> None:
    """UsageError unless a library that a running server names may be loaded into ours: it is this
    host's, and root's.
    """
    remedy = "name a library of your own as preload in an experiment file"
    try:
        ours = os.stat(library)
        same = (ours.st_dev, ours.st_ino) == _identity(pid, library)
        unsafe = find_unsafe_part(Path(library))
    except OSError as error:
        raise UsageError(
            f"--like {pid}: its {library} is not taken: {error.strerror}; {remedy}"
        ) from None
    if not same:
        raise UsageError(f"--like {pid}: its {library} is another file than this host's; {remedy}")
    if unsafe:
        raise UsageError(
            f"--like {pid}: {unsafe} may be changed by others than root, so {library} is not "
            f"loaded; {remedy}"
        )


def _identity(pid: int, library: str) -> tuple[int, int]:
    status = target_files.measure_file(target_files.root_of(pid), process_root.own(pid, library))
    return status.st_dev, status.st_ino


def _mapped(entry: str, paths: list[str]) -> str:
    """The file that an entry of LD_PRELOAD has led to; it may be a bare name."""
    real = os.path.realpath(entry) if "/" in entry else entry
    return (
        entry
        if "/" in entry and real in paths
        else next((p for p in paths if Path(p).name.startswith(entry)), entry)
    )


def variant(found: InUse, preloaded: list[str]) -> dict[str, Any]:
    """The variant that runs as that process does: its allocator, its preloaded libraries, its
    settings.

    Called by the allocator's name if that says all, else ``current``.
    """
    result: dict[str, Any] = {"name": CURRENT}
    if found.name != "glibc":
        libraries = preloaded or [
            found.library
        ]  # linked against: preloading the same file changes nothing
        ours = _catalogue_files(found.name)
        if ours and {os.path.realpath(p) for p in libraries} >= ours:
            result["allocator"] = found.name
            libraries = [p for p in libraries if os.path.realpath(p) not in ours]
        else:
            # The malloc first: it gives the variant's allocator its name.
            libraries = sorted(
                libraries, key=lambda p: os.path.realpath(p) != os.path.realpath(found.library)
            )
    else:
        libraries = preloaded
        if libraries:
            result["allocator"] = "glibc"
    if libraries:
        result["preload"] = libraries
    if settings := {k: v for k, v in found.settings.items() if secret_names.hide(k, v) == v}:
        result["env"] = settings
    if set(result) <= {"name", "allocator"} and found.name:
        result["name"] = found.name
    return result


def _catalogue_files(name: str | None) -> set[str]:
    """The files that a variant of that allocator would be started with."""
    if name is None:
        return set()
    try:
        return {os.path.realpath(p) for p in find_allocator.find(name).libraries}
    except UsageError:
        return set()
