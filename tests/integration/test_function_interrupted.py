"""What --trim and --install-function leave behind when they are interrupted, time out, or are
killed: nothing that is not said.
"""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from harness import A_USER, Cli, Done, Server, give, wait_until

from dballoc.evidence.sql import loadable_function
from dballoc.evidence.sql.loadable_function import STATS, TRIM
from dballoc.ground.errors import Failure
from dballoc.host.process.handle import Process
from dballoc.servers.running import connection
from dballoc.servers.running.credentials import Credentials

SLOW_STATISTICS = Path(__file__).parents[1] / "native" / "slow_statistics.c"


@pytest.fixture(autouse=True)
def nothing_is_left() -> None:
    """The server ends with this module."""


class Slow:
    """A MariaDB whose malloc_trim ends when it is let."""

    def __init__(self, server: Server, file: Path) -> None:
        self.server, self._file = server, file

    @property
    def begun(self) -> bool:
        return self._file.with_name(f"{self._file.name}.begun").exists()

    def let(self) -> None:
        self._file.write_text("")

    def again(self) -> None:
        """The next one takes long, too."""
        self._file.unlink(missing_ok=True)
        self._file.with_name(f"{self._file.name}.begun").unlink(missing_ok=True)

    @property
    def busy(self) -> bool:
        return any(TRIM in str(row[0]) and "SELECT" in str(row[0]) for row in self._running())

    def _running(self) -> list[tuple[Any, ...]]:
        return self.server.ask(
            "SELECT INFO FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID()"
        )


@pytest.fixture(scope="module")
def preload(home: Path) -> Path:
    """A malloc whose malloc_trim takes long."""
    library = home / "libslow_statistics.so"
    flags = [
        "-std=c17",
        "-D_GNU_SOURCE",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fno-builtin",
        "-fPIC",
        "-shared",
    ]
    subprocess.run(["cc", *flags, "-o", library, SLOW_STATISTICS, "-ldl"], check=True)
    library.chmod(0o755)
    return library


@pytest.fixture(scope="module")
def running(home: Path, server_with_accounts: Callable[..., Server], preload: Path) -> Slow:
    place = home / "slow"
    place.mkdir()
    give(A_USER, place)
    server = server_with_accounts(
        "--log-bin", "--server-id=1", LD_PRELOAD=str(preload), SLOW_TRIM=str(place / "go")
    )
    return Slow(server, place / "go")


@pytest.fixture
def slow(
    running: Slow, command: Callable[..., "subprocess.Popen[str]"], run_cli: Cli
) -> Iterator[Slow]:
    """With the function installed, and every trim waiting to be let."""
    running.again()
    installed = run_cli.end(command(running, "--install-function"))
    assert installed.status == 0, installed.stderr
    yield running
    running.let()
    wait_until(lambda: not running.busy)


@pytest.fixture
def command(run_cli: Cli) -> Callable[..., "subprocess.Popen[str]"]:
    """``command(slow, "--trim")``: started as root of the server, agreed to."""

    def start(slow: Slow, *words: str) -> "subprocess.Popen[str]":
        (run_cli.home / ".my.cnf").write_text("[client]\nuser=root\n")
        agreed = [] if "--json" in words else ["--yes"]
        return run_cli.start(
            "explain",
            "--pid",
            str(slow.server.pid),
            *words,
            *agreed,
            env={"HOME": str(run_cli.home)},
        )

    return start


def log_of(server: Server) -> list[tuple[Any, ...]]:
    return server.ask("SHOW MASTER STATUS")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_trim_that_is_interrupted_drops_its_function(
    slow: Slow,
    command: Callable[..., "subprocess.Popen[str]"],
    run_cli: Cli,
    number: signal.Signals,
) -> None:
    at_first = log_of(slow.server)
    trim = command(slow, "--trim")
    wait_until(lambda: slow.begun)
    assert TRIM in slow.server.functions
    trim.send_signal(number)
    done = run_cli.end(trim)
    # The server's malloc is still at it.
    assert slow.busy
    assert (done.status, done.stderr) == (130, "")
    assert slow.server.functions == [STATS]
    with pytest.raises(pymysql.Error, match="does not exist"):
        slow.server.ask(f"SELECT {TRIM}()")
    assert log_of(slow.server) == at_first


def test_a_second_interruption_does_not_stop_the_first_ones_work(
    slow: Slow, command: Callable[..., "subprocess.Popen[str]"], run_cli: Cli
) -> None:
    trim = command(slow, "--trim")
    wait_until(lambda: slow.begun)
    for _ in range(20):
        trim.send_signal(signal.SIGINT)
    assert run_cli.end(trim).status == 130
    assert slow.server.functions == [STATS]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that wait for an answer for two seconds, not for thirty."""
    monkeypatch.setattr(connection, "_READ_SECONDS", 2)


def test_a_trim_that_takes_longer_than_we_wait_drops_its_function(
    slow: Slow, impatient: None
) -> None:
    at_first = log_of(slow.server)
    with pytest.raises(Failure, match=r"did not finish within \d+ s and goes on"):
        loadable_function.trim_malloc(Process.open(slow.server.pid), Credentials(user="root"))
    assert slow.busy
    assert slow.server.functions == [STATS]
    assert log_of(slow.server) == at_first


def test_what_cannot_be_dropped_is_said(
    slow: Slow, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that takes no more connections: in one line what stands, and the SQL that removes
    it.
    """
    monkeypatch.setattr(loadable_function, "_PAUSE", 0.01)
    real, connections = pymysql.Connection.connect, 0

    def connect_once(self: pymysql.Connection, sock: Any = None) -> None:
        nonlocal connections
        connections += 1
        if connections > 1:
            raise pymysql.OperationalError(1040, "Too many connections")
        real(self, sock)

    monkeypatch.setattr(pymysql.Connection, "connect", connect_once)
    with pytest.raises(Failure) as failure:
        loadable_function.trim_malloc(Process.open(slow.server.pid), Credentials(user="root"))
    said = str(failure.value)
    monkeypatch.undo()
    assert "Too many connections" in said
    assert "\n" not in said
    assert slow.server.functions == [STATS, TRIM]
    sql = re.search(r"by SQL: (.*?;) (DROP FUNCTION \w+);", said)
    assert sql
    slow.server.ask(*sql.groups())
    assert slow.server.functions == [STATS]


def test_what_a_killed_trim_leaves_is_said_by_the_next_look(
    slow: Slow, command: Callable[..., "subprocess.Popen[str]"], run_cli: Cli
) -> None:
    trim = command(slow, "--trim")
    wait_until(lambda: slow.begun)
    trim.kill()
    run_cli.end(trim)
    assert slow.server.functions == [STATS, TRIM]
    done: Done = run_cli.end(command(slow, "--json"))
    assert done.status == 0, done.stderr
    assert f"the function {TRIM} is still in the server" in done.stdout
    assert "--remove-function" in done.stdout
    slow.let()
    assert run_cli.end(command(slow, "--remove-function")).status == 0
    assert slow.server.functions == []
    assert list(slow.server.plugins.iterdir()) == []
    assert "is still in the server" not in run_cli.end(command(slow, "--json")).stdout


def test_an_interrupted_installation_leaves_nothing(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between CREATE FUNCTION and the end, and with the connection lost."""
    who = Credentials(user="root")
    loadable_function.remove_function(Process.open(slow.server.pid), who)
    real = pymysql.cursors.Cursor.execute

    def interrupted(self: Any, sql: str, values: Any = None) -> int:
        done = real(self, sql, values)
        if sql.startswith("CREATE FUNCTION"):
            self.connection._force_close()
            os.kill(os.getpid(), signal.SIGINT)
        return int(done)

    monkeypatch.setattr(pymysql.cursors.Cursor, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loadable_function.install_function(Process.open(slow.server.pid), who)
    assert slow.server.functions == []
    assert list(slow.server.plugins.iterdir()) == []
    assert not slow.server.mapped
