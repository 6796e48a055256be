"""Data templates: a data directory made once per server build, engine, data and init options, then copied."""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dballoc.errors import Failure
from dballoc.experiment.model import Data
from dballoc.host.custody import Custody
from dballoc.host.places import cache, fresh_directory
from dballoc.host.user import ServerUser
from dballoc.servers.build import Build, script
from dballoc.servers.options import Address, capacity, command
from dballoc.servers.server import Launch, StartFailed, last_word, spawn, start, stop
from dballoc.servers.sql import DATABASE, USER

# Raise it when the way in which templates are made changes.
FORMAT = 1

# From a server's address and our password in it to the argv and environment of the client that fills it.
Prepare = Callable[[Address, str], tuple[list[str], dict[str, str]]]


@dataclass(frozen=True)
class Recipe:
    """What decides a template's content."""

    build: Build
    engine: str
    data: Data
    init_options: dict[str, str]

    @property
    def key(self) -> str:
        """The template's directory name."""
        parts = [FORMAT, self.build.key, self.engine, self.data.model_dump(), self.init_options]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Template:
    """A finished one: its data directory, its size in bytes, the password of our own account in it."""

    data: Path
    size: int
    password: str

    def copy(self, custody: Custody, target: Path, log: Path) -> None:
        """Copy it to ``target``, owners kept, and write it to disk, so that nothing of it is left to write later.

        By the guardian's children: a copy that outlived us would fill what the guardian removes.
        """
        for argv in (
            ["cp", "-a", "--reflink=auto", os.fspath(self.data), os.fspath(target)],
            ["sync", "-f", os.fspath(target)],
        ):
            done = custody.spawn(argv, {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C"}, log).wait(3600)
            if done is None or done.status != 0:
                raise OSError(last_word(log) if log.stat().st_size else f"{argv[0]}: {done.words if done else 'it hangs'}")
        log.unlink()


def find(recipe: Recipe) -> Template | None:
    """The finished template, if it was made before."""
    return _read(cache() / "templates" / recipe.key)


def estimate_bytes(recipe: Recipe) -> int:
    """About what a template takes on disk before it is made: sysbench's rows with their index, and an empty server."""
    return 250 * 2**20 + recipe.data.tables * recipe.data.rows * 260


def make(custody: Custody, recipe: Recipe, user: ServerUser, prepare: Prepare, run_directory: Path, log: Path) -> Template:
    """Make a template, or return the one that another dballoc made meanwhile.

    ``prepare`` gives the client's command and environment that fill ``sbtest``. Failure, with the last word of
    ``log``, if the server or the client fails.
    """
    place = cache() / "templates" / recipe.key
    place.parent.mkdir(exist_ok=True)
    with _locked(place.with_suffix(".lock")):
        if ready := _read(place):
            return ready
        partial = fresh_directory(place.parent, f"{recipe.key}.partial.", custody.scratch)
        partial.chmod(0o711)
        password = secrets.token_hex(16)
        _initialize(custody, recipe, user, partial, run_directory, log)
        _fill(custody, recipe, user, partial, run_directory, log, password, prepare)
        size = sum(f.stat().st_blocks * 512 for f in partial.rglob("*"))
        document = partial / "template.json"
        document.touch(mode=0o600)
        document.write_text(json.dumps({
            "password": password, "size": size, "server": recipe.build.version, "engine": recipe.engine,
            "data": recipe.data.model_dump(), "init_options": recipe.init_options,
        }, indent=1))  # fmt: skip
        shutil.rmtree(place, ignore_errors=True)
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
    with path.open("w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def _launch(recipe: Recipe, user: ServerUser, home: Path, run: Path, log: Path, more: dict[str, str]) -> Launch:
    engine = recipe.build.entry["engines"][recipe.engine]
    options = {**engine, **recipe.init_options, **more}
    address = Address(run / "mysqld.sock")
    argv = command(recipe.build, home / "data", address, options)
    return Launch(argv, {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}, address, log, "", user)


def _initialize(custody: Custody, recipe: Recipe, user: ServerUser, home: Path, run: Path, log: Path) -> None:
    data = home / "data"
    data.mkdir(mode=0o750)
    user.give(data)
    script_file = None
    if recipe.build.entry["bootstrap"] == "sql":
        launch = _launch(recipe, user, home, run, log, {"bootstrap": "", "skip-grant-tables": ""})
        script_file = home / "bootstrap.sql"
        # `use` must stand on a line of its own: --bootstrap reads a statement a line.
        texts = [script(recipe.build, s).read_text(encoding="utf-8") for s in recipe.build.entry["scripts"]]
        script_file.write_text("create database mysql;\nuse mysql;\n" + "\n".join(texts), encoding="utf-8")
    else:
        data.rmdir()  # mysqld --initialize wants to make it, or finds it empty
        data.mkdir(mode=0o750)
        user.give(data)
        launch = _launch(recipe, user, home, run, log, {"initialize-insecure": ""})
    done = spawn(custody, launch, script_file).wait(600)
    if done is None or done.status != 0:
        raise Failure(f"the server cannot make its system tables ({done.words if done else 'it hangs'}): {last_word(log)}")
    if script_file:
        script_file.unlink()


def _fill(
    custody: Custody, recipe: Recipe, user: ServerUser, home: Path, run: Path, log: Path, password: str, prepare: Prepare
) -> None:
    init = run / "init.sql"
    accounts = [f"'{USER}'@'localhost'", f"'{USER}'@'127.0.0.1'"]
    init.write_text(
        f"CREATE DATABASE {DATABASE};\n"
        + "".join(
            f"CREATE USER {a} IDENTIFIED BY '{password}';\nGRANT ALL ON *.* TO {a} WITH GRANT OPTION;\n" for a in accounts
        )
    )
    init.chmod(0o600)
    user.give(init)
    more = {**recipe.build.entry["once"], **capacity(16, 0, recipe.data.tables), "init-file": str(init)}
    launch = _launch(recipe, user, home, run, log, more)
    launch = Launch(**{**vars(launch), "password": password})
    try:
        running = start(custody, launch, 300, None)
    except StartFailed as error:
        raise Failure(f"while the data template is made, {error}: {last_word(log)}") from None
    init.unlink()
    done = custody.spawn(*prepare(launch.address, password), log).wait(24 * 3600)
    if done is None or done.status != 0:
        raise Failure(f"sysbench cannot fill the tables ({done.words if done else 'it hangs'}): {last_word(log)}")
    ended = stop(running, 600)
    if ended.status != 0:
        raise Failure(f"the server does not stop cleanly after the data was loaded ({ended.words}): {last_word(log)}")
