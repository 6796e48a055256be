"""Private servers: started on a copy of an empty data directory, and ended with their case."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql

from dballoc.ground.errors import Failure
from dballoc.servers import build as server_builds
from dballoc.servers.build import Build

# Seconds: to make system tables, to start, for an answer of dballoc or of the server.
INSTALL, PATIENCE, ANSWER = 120.0, 60.0, 60.0
_DEFAULTS = (
    "--skip-networking",
    "--skip-log-bin",
    "--secure-file-priv=",
    "--innodb-buffer-pool-size=32M",
    "--innodb-flush-log-at-trx-commit=0",
)
_LOG_SIZE = {"mariadb": "--innodb-log-file-size=16M", "mysql": "--innodb-redo-log-capacity=32M"}


@dataclass(frozen=True, kw_only=True)
class PrivateServer:
    """A running server: its build, PID, directory (``place``, with the socket ``s``)."""

    build: Build
    pid: int
    place: Path

    @property
    def socket(self) -> str:
        """The path of its socket."""
        return f"{self.place}/s"

    @property
    def is_mariadb(self) -> bool:
        """Whether it is MariaDB; otherwise MySQL."""
        return self.build.family.startswith("mariadb")

    def connect(self, **settings: Any) -> "pymysql.Connection[Any]":
        """Connect as root, who has no password."""
        return pymysql.connect(
            unix_socket=self.socket,
            user="root",
            autocommit=True,
            **{"read_timeout": ANSWER, **settings},
        )

    def query(self, *statements: str) -> list[tuple]:
        """Send statements over a connection of their own; return the last one's rows."""
        rows: list[tuple] = []
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = list(cursor.fetchall())
        return rows

    def measure_rss(self) -> int:
        """Return its resident bytes, as the kernel counts them."""
        for line in Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10
        raise Failure(f"process {self.pid} has no VmRSS")

    def run_dballoc(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a verb of dballoc, with an option file for this server's root."""
        return subprocess.run(
            [sys.executable, "-I", "-m", "dballoc", *arguments],
            env={**os.environ, "HOME": str(self.place), "COLUMNS": "100", "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ANSWER,
            check=False,
        )

    def explain(self) -> dict[str, Any]:
        """Return the document of ``dballoc explain --json``. Failure if it has none."""
        ended = self.run_dballoc("explain", "--socket", self.socket, "--json")
        if ended.returncode:
            raise Failure(f"dballoc explain: {ended.stderr.strip()}")
        return json.loads(ended.stdout)

    def explain_text(self, *arguments: str) -> str:
        """Return what ``dballoc explain`` prints."""
        ended = self.run_dballoc("explain", "--socket", self.socket, *arguments)
        return ended.stdout + ended.stderr


@dataclass(frozen=True)
class Workshop:
    """A directory in which cases start their servers; data directories are made once for each build
    (``templates``).
    """

    place: Path
    templates: dict[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """End the servers of a benchmark that is told to end."""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

    @contextmanager
    def start(
        self,
        use: str,
        *options: str,
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        executable: Path | None = None,
    ) -> Iterator[PrivateServer]:
        """Run a server (``mariadb``, ``mysql@9.7``) with these options; it ends with the block.

        ``prefix``: a command that runs it, such as setpriv; ``executable``: another
        file than the build's own. UsageError if there is no such server, Failure if it does not
        start.
        """
        build = server_builds.find(use, None)
        place = self.place / f"{time.monotonic_ns()}"
        shutil.copytree(self._make_template(build), place / "data")
        (place / ".my.cnf").write_text(f"[client]\nuser=root\nsocket={place}/s\n")
        words = [*prefix, *_make_command(build, place / "data", executable)]
        words += [f"--socket={place}/s", f"--pid-file={place}/p"]
        words += ["--mysqlx=OFF"] if build.family.startswith("mysql") else []
        words += [*_DEFAULTS, *options]
        with (place / "log").open("wb") as log:
            process = subprocess.Popen(
                words,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            yield _wait_until_ready(build, process, place)
        finally:
            _end(process, place)
            shutil.rmtree(place, ignore_errors=True)

    def _make_template(self, build: Build) -> Path:
        """Return a data directory with system tables and a root without password."""
        if build.key in self.templates:
            return self.templates[build.key]
        place = self.place / f"template-{len(self.templates)}"
        place.mkdir()
        words = _make_command(build, place, None)
        script = b""
        if build.entry.bootstrap == "sql":
            words += ["--bootstrap", "--skip-grant-tables"]
            texts = [
                server_builds.script(build, names).read_text(encoding="utf-8")
                for names in build.entry.scripts
            ]
            script = ("create database mysql;\nuse mysql;\n" + "\n".join(texts)).encode()
        else:
            words.append("--initialize-insecure")
        ended = subprocess.run(
            words, input=script, capture_output=True, timeout=INSTALL, check=False
        )
        if ended.returncode:
            raise Failure(f"{build.title} makes no system tables: {ended.stderr[-300:]!r}")
        self.templates[build.key] = place
        return place


def _make_command(build: Build, data: Path, executable: Path | None) -> list[str]:
    words = [str(executable or build.executable), "--no-defaults", f"--datadir={data}"]
    # A server that starts removes the temporary tables of all others in its directory.
    words += [f"--tmpdir={data.parent}"]
    words += [f"--basedir={build.basedir}", f"--lc-messages-dir={build.share}"]
    words += [f"--plugin-dir={build.plugins}"] if build.plugins else []
    words.append(_LOG_SIZE["mysql" if build.entry.bootstrap == "initialize" else "mariadb"])
    return [*words, "--user=root"] if os.geteuid() == 0 else words


def _wait_until_ready(
    build: Build, process: "subprocess.Popen[bytes]", place: Path
) -> PrivateServer:
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        if (place / "p").exists() and (place / "s").exists():
            server = PrivateServer(build=build, pid=int((place / "p").read_text()), place=place)
            try:
                server.query("SELECT 1")
            except pymysql.Error:
                pass
            else:
                return server
        time.sleep(0.05)
    log = (place / "log").read_text(errors="replace")
    raise Failure(f"{build.title} does not start: {log[-300:]}")


def _end(process: "subprocess.Popen[bytes]", place: Path) -> None:
    """End the server; one behind a prefix that forks is ended by its PID file."""
    if (place / "p").exists():
        try:
            os.kill(int((place / "p").read_text()), signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.kill()
    process.wait()
