"""Take server options from a running server or a my.cnf. Stderr lists what is left out."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from dballoc.campaign.preparation import like_running_server as likeness
from dballoc.cli.shared.flags import ExperimentSource
from dballoc.cli.shared.safe_output import Console, safe
from dballoc.ground import readers
from dballoc.host.process.read_rights import open_process
from dballoc.process.malloc import identify_malloc
from dballoc.servers import build as find_build
from dballoc.servers import print_defaults
from dballoc.servers.running import adopted_options, credentials

Table = dict[str, Any]


def layers(source: ExperimentSource, flags: Table) -> list[Callable[[Table], Table]]:
    """Return the layers between an experiment's file and the flags of its fields. Raises UsageError
    in one line for a source that cannot be read.
    """
    changes: list[Callable[[Table], Table]] = []
    use, basedir = flags.get("server.use"), flags.get("server.basedir")
    build = (use or "mariadb", basedir) if use or basedir else None
    if source.like is not None:
        login = credentials.find(source.login_path)
        read = likeness.read_running_server(open_process(source.like), login, build)
        say(f"--like {source.like}", read.notes)
        changes.append(read.lay)
    if source.defaults_file is not None:
        changes.append(partial(_lay_defaults, source.defaults_file, build, source.like is not None))
    return changes


def _lay_defaults(
    path: Path, build: tuple[str, str | None] | None, merge: bool, table: Table
) -> Table:
    """Return the layer of a my.cnf: its options replace the experiment's, and override a running
    server's.
    """
    server = table.get("server", {})
    use, basedir = build or (server.get("use", "mariadb"), server.get("basedir"))
    server_build = find_build.find(use, basedir)
    file = print_defaults.read_option_file(server_build, path)
    adopted = adopted_options.take(adopted_options.parse(file.arguments), server_build.plugins)
    allocators = {v.get("allocator") for v in table.get("variant", []) if isinstance(v, dict)}
    notes = [*adopted.notes(), *describe_wrapper(file.wrapper, allocators)]
    say(f"--defaults-file {path}", notes)
    kept = (
        server
        if merge
        else {k: v for k, v in server.items() if k not in ("options", "init_options")}
    )
    new: Table = {
        "options": kept.get("options", {}) | adopted.options,
        "init_options": kept.get("init_options", {}) | adopted.init_options,
    }
    if adopted.engine:
        new["engine"] = adopted.engine
    return {**table, "server": kept | new}


def describe_wrapper(settings: dict[str, str], allocators: set[Any]) -> list[str]:
    """Return a line for each of mysqld_safe's settings, which change the malloc or THP of the
    server that an option file is of. ``allocators``: those of the experiment. Pure.
    """
    notes = []
    if library := settings.get("malloc-lib"):
        # mysqld_safe takes a name, too: jemalloc, tcmalloc.
        name = identify_malloc.find_catalogue_name(
            library if "/" in library else f"lib{library.removeprefix('lib')}.so"
        )
        if name is None or name not in allocators:
            remedy = f"add {name} to --allocators" if name else f'add preload = ["{library}"]'
            notes.append(
                f"[mysqld_safe] malloc-lib: this server is started on {name or library}; it is not "
                f"taken over: {remedy} to compare it"
            )
    if mode := settings.get("thp-setting"):
        notes.append(
            f'[mysqld_safe] thp-setting = {mode}: not taken over; give variants thp = "{mode}"'
        )
    return [readers.one_line(note) for note in notes]


def say(where: str, notes: list[str]) -> None:
    """Print each note on stderr; standard output may be an experiment file."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    for note in notes:
        console.print(safe(f"{where}: {note}"), style="dim")
