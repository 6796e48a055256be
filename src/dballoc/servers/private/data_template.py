"""Make data templates: a data directory is made once for each server build, engine, data and init
options, then copied.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dballoc.experiment.model import Data
from dballoc.ground.errors import Failure, UsageError
from dballoc.ground.user_directories import locate_cache, make_in_cache
from dballoc.host.directories import make_server_scratch
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.unprivileged.ownership import (
    hand_over,
    make_writable,
    remove_directory,
    take_back,
)
from dballoc.host.unprivileged.private_file import write_private
from dballoc.host.unprivileged.server_user import ServerUser
from dballoc.servers import user_datadir
from dballoc.servers.build import Build, script
from dballoc.servers.private.admin_connection import DATABASE, USER, Admin
from dballoc.servers.private.command_line import Address, capacity, command
from dballoc.servers.private.private_server import (
    ServerLaunch,
    StartFailed,
    first_error,
    last_word,
    spawn,
    start,
    stop,
    tail,
)

# Increase it when templates are made in another way.
FORMAT = 2

_TEMPLATES = "templates"


@dataclass(frozen=True, kw_only=True)
class Fill:
    """A client that fills a template. ``refused`` turns its log into the user's error, if its
    failure is the user's mistake.
    """

    argv: list[str]
    env: dict[str, str]
    stdin: Path | None = None
    failure: str = "sysbench cannot fill the tables"
    refused: Callable[[Path], UsageError | None] = lambda log: None


# Returns the clients that fill a server, in their order, given its address with our password.
Prepare = Callable[[Address, str], list[Fill]]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that determines a template's content. ``tables``: with sysbench's tables, if its
    data include them.
    """

    build: Build
    engine: str
    data: Data
    init_options: dict[str, str]
    # The identity of the user's own files, which also determines the content.
    content: str = ""
    size: int | None = None
    directory: Path | None = None
    tables: bool = True

    @property
    def key(self) -> str:
        """The name of the template's directory."""
        tables = {"tables": self.data.tables, "rows": self.data.rows}
        parts: list[object] = [
            FORMAT,
            self.build.key,
            self.engine,
            {} if self.data.own else tables,
            self.init_options,
        ]
        if self.content or self.data.database != DATABASE:
            parts += [self.data.database, self.content]
        if not self.tables:
            parts += ["no tables"]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Template:
    """A finished template: its data directory, its size in bytes, and the password of dballoc's
    account in it.
    """

    data: Path
    size: int
    password: str

    def copy(self, custody: Custody, target: Path, log: Path, user: ServerUser) -> None:
        """Copy the template to ``target``, for the server user, and sync it to disk, so that none
        of it is left to be written later. The guardian's children copy, because a copy that
        outlived dballoc would fill a directory that the guardian removes.
        """
        for argv in (
            ["cp", "-a", "--reflink=auto", os.fspath(self.data), os.fspath(target)],
            ["sync", "-f", os.fspath(target)],
        ):
            exit = custody.spawn(
                argv, {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C"}, log
            ).wait(3600)
            if exit is None or exit.status != 0:
                raise OSError(
                    last_word(log)
                    if log.stat().st_size
                    else f"{argv[0]}: {exit.words if exit else 'it hangs'}"
                )
        log.unlink()
        hand_over(target, user)


def find(recipe: Recipe) -> Template | None:
    """Return the finished template, None if it has not been made."""
    return _read(locate_cache() / _TEMPLATES / recipe.key)


def estimate_bytes(recipe: Recipe) -> int:
    """Estimate a template's size on disk before it is made: sysbench's rows with their index, and
    an empty server.
    """
    if recipe.size is not None:
        return 250 * 2**20 + recipe.size
    return 250 * 2**20 + (tables_bytes(recipe.data) if recipe.tables else 0)


def tables_bytes(data: Data) -> int:
    """Estimate the bytes of sysbench's rows with their index."""
    return data.tables * data.rows * 260


def make(
    custody: Custody,
    recipe: Recipe,
    user: ServerUser,
    prepare: Prepare,
    directories: tuple[Path, Path],
    log: Path,
) -> Template:
    """Make a template, or return the one that another dballoc has just made. A finished template
    belongs to us. ``prepare`` returns the client's command and environment that fill ``sbtest``;
    ``directories``: for the server's socket, and for the files that it may read. Failure, with the
    last message in ``log``, if the server or the client fails.
    """
    run, private = directories
    place = make_in_cache(_TEMPLATES) / recipe.key
    with _locked(place.with_suffix(".lock")):
        if ready := _read(place):
            return ready
        partial = make_server_scratch(custody.scratch, user)
        password = f"Aa1-{secrets.token_hex(16)}"  # a data directory may bring rules for passwords
        if recipe.directory is not None:
            _copy(custody, recipe.directory, user, partial, log)
        else:
            _initialize(custody, recipe, user, partial, run, log)
        _fill(
            custody,
            recipe,
            user,
            home=partial,
            run=run,
            private=private,
            log=log,
            password=password,
            prepare=prepare,
        )
        size = take_back(partial / "data", user)
        document = partial / "template.json"
        document.touch(mode=0o600)
        document.write_text(
            json.dumps(
                {
                    "password": password,
                    "size": size,
                    "server": recipe.build.version,
                    "engine": recipe.engine,
                    "data": recipe.data.model_dump(),
                    "init_options": recipe.init_options,
                },
                indent=1,
            )
        )
        remove_directory(place)
        partial.chmod(0o700)
        partial.rename(place)
        os.sync()
    return Template(place / "data", size, password)


def _read(place: Path) -> Template | None:
    try:
        document = json.loads((place / "template.json").read_text())
    except (OSError, ValueError):
        return None
    return Template(place / "data", document["size"], document["password"])


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _launch(
    recipe: Recipe, user: ServerUser, home: Path, run: Path, log: Path, more: dict[str, str]
) -> ServerLaunch:
    engine = recipe.build.entry.engines[recipe.engine]
    options = {**engine, **recipe.init_options, **more}
    address = Address(run / "mysqld.sock")
    argv = command(recipe.build, home / "data", address, options)
    return ServerLaunch(
        argv=argv,
        env={"PATH": os.environ.get("PATH", "/usr/bin:/bin")},
        address=address,
        log=log,
        password="",
        user=user,
    )


def _initialize(
    custody: Custody, recipe: Recipe, user: ServerUser, home: Path, run: Path, log: Path
) -> None:
    data = home / "data"
    data.mkdir(mode=0o750)
    user.give(data)
    script_file = None
    if recipe.build.entry.bootstrap == "sql":
        launch = _launch(recipe, user, home, run, log, {"bootstrap": "", "skip-grant-tables": ""})
        script_file = home / "bootstrap.sql"
        # `use` must be on a line of its own: --bootstrap reads a statement a line.
        texts = [
            script(recipe.build, s).read_text(encoding="utf-8") for s in recipe.build.entry.scripts
        ]
        script_file.write_text(
            "create database mysql;\nuse mysql;\n" + "\n".join(texts), encoding="utf-8"
        )
    else:
        data.rmdir()  # mysqld --initialize wants to make it, or finds it empty
        data.mkdir(mode=0o750)
        user.give(data)
        launch = _launch(recipe, user, home, run, log, {"initialize-insecure": ""})
    exit = spawn(custody, launch, script_file).wait(600)
    if exit is None or exit.status != 0:
        raise Failure(
            f"the server cannot create its system tables ({exit.words if exit else 'it hangs'}): "
            f"{last_word(log)}"
        )
    if script_file:
        script_file.unlink()


def _copy(custody: Custody, source: Path, user: ServerUser, home: Path, log: Path) -> None:
    """Copy the user's data directory. Links are followed, so that nothing in the copy points back
    to it. It is read as its owner, whose links could point to files that only root may read. That
    user cannot enter our cache by its path, so the copying process begins in the new directory.
    """
    data = home / "data"
    data.mkdir(mode=0o750)
    owner = source.stat()
    as_owner = {}
    if os.geteuid() == 0 and owner.st_uid != 0:
        os.chown(data, owner.st_uid, owner.st_gid)
        as_owner = {"uid": owner.st_uid, "gid": owner.st_gid}
    argv = [
        "cp",
        "-aL",
        "--reflink=auto",
        "-t",
        ".",
        "--",
        *map(os.fspath, user_datadir.parts(source)),
    ]
    env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C"}
    exit = custody.spawn(argv, env, log, cwd=data, **as_owner).wait(24 * 3600)
    if exit is None or exit.status != 0:
        raise Failure(f"{source} cannot be copied: {last_word(log)}")
    take_back(data, user)
    make_writable(data)
    hand_over(data, user)


def _fill(
    custody: Custody,
    recipe: Recipe,
    user: ServerUser,
    *,
    home: Path,
    run: Path,
    private: Path,
    log: Path,
    password: str,
    prepare: Prepare,
) -> None:
    init = write_private(private / "init.sql", _accounts(recipe, password), user)
    more = {
        **recipe.build.entry.once,
        **capacity(16, 0, recipe.data.tables),
        "init-file": str(init),
    }
    if recipe.data.own:
        more["event-scheduler"] = "OFF"
    launch = _launch(recipe, user, home, run, log, more)
    launch = ServerLaunch(**{**vars(launch), "password": password})
    try:
        running = start(custody, launch, 300, None)
    except StartFailed as error:
        if recipe.directory is not None:
            # The first error is the cause; the others follow from it.
            raise UsageError(
                f"data.directory {recipe.directory}: {recipe.build.title} does not start on a copy "
                "of it: "
                f"{first_error(log)}; put options that the data need into server.init_options"
            ) from None
        raise Failure(f"while the data template is made, {error}: {last_word(log)}") from None
    init.unlink()
    if recipe.directory is not None and user_datadir.recovered(tail(log, 10_000, 2**20)):
        raise UsageError(
            f"data.directory {recipe.directory}: was not shut down cleanly, and its copy had to be "
            "recovered; start a server on it, shut that server down cleanly, and copy again"
        )
    if recipe.directory is None:
        for fill in prepare(launch.address, password):
            exit = custody.spawn(
                fill.argv, fill.env, log, stdin=fill.stdin, **user.as_spawn()
            ).wait(24 * 3600)
            if exit is None or exit.status != 0:
                raise fill.refused(log) or Failure(
                    f"{fill.failure} ({exit.words if exit else 'it hangs'}): {last_word(log)}"
                )
    if recipe.data.own:
        _check_database(running.admin, recipe)
    ended = stop(running, 600)
    if ended.status != 0:
        raise Failure(
            f"the server did not stop cleanly after the data was loaded ({ended.words}): "
            f"{last_word(log)}"
        )


def _accounts(recipe: Recipe, password: str) -> str:
    """Return the SQL that makes dballoc's account and the load's database; a data directory of the
    user's may have both already.
    """
    accounts = [f"'{USER}'@'localhost'", f"'{USER}'@'127.0.0.1'"]
    first = "" if recipe.directory else f"CREATE DATABASE `{recipe.data.database}`;\n"
    drop = "DROP USER IF EXISTS {0};\n" if recipe.directory else ""
    each = (
        drop + "CREATE USER {0} IDENTIFIED BY '{1}';\nGRANT ALL ON *.* TO {0} WITH GRANT OPTION;\n"
    )
    return first + "".join(each.format(a, password) for a in accounts)


_SYSTEM = ("mysql", "information_schema", "performance_schema", "sys")


def _check_database(admin: Admin, recipe: Recipe) -> None:
    """Check that the load's database exists and has tables. Raises UsageError if not."""
    rows = admin.rows(
        "SELECT table_schema, count(*) FROM information_schema.tables GROUP BY 1 ORDER BY 2 DESC"
    )
    others = [str(name) for name, _ in rows if str(name) not in _SYSTEM]
    if recipe.data.database not in others:
        tables = (
            f"there are tables in {', '.join(others[:10])}"
            if others
            else "there are no tables in any other"
        )
        raise UsageError(
            f'data.database: the data have no table in "{recipe.data.database}"; {tables}'
        )
