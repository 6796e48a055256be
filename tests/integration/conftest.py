"""Real servers: one place for all that a session makes, the command as users run it, and what it
must leave behind.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from harness import (
    A_USER,
    BIN,
    Cli,
    Experiment,
    Launch,
    Server,
    StartServer,
    give,
    leftovers,
    run_as,
    thp_mode,
    wait_until,
)

from dballoc.evidence.sql.loadable_function import LIBRARY


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where the real parts are missing, say so and skip; `make test` installs them."""
    missing = [p for p in ("mariadbd", "sysbench") if not shutil.which(p, path=BIN)]
    if missing:
        mark = pytest.mark.skip(reason=f"needs {' and '.join(missing)}: run make setup")
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(mark)


@pytest.fixture(scope="session")
def needs_root() -> None:
    """For what only root may do."""
    if os.geteuid() != 0:
        pytest.skip(
            "needs root: it mounts a small file system, limits memory, switches THP or changes users"
        )


@pytest.fixture(scope="session")
def home() -> Iterator[Path]:
    """A short path that the server's user may pass: sockets lie below it."""
    path = Path(tempfile.mkdtemp(prefix="dbt-", dir="/tmp"))
    path.chmod(0o755)
    (path / "tmp").mkdir()
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def run_cli(home: Path, package_path: Path) -> Iterator[Cli]:
    """``run_cli("bench", …)``, or ``run_cli.start`` and ``run_cli.end``."""
    cli = Cli(home, package_path)
    yield cli
    cli.kill_what_is_left()


@pytest.fixture(scope="session")
def fresh_directory(home: Path) -> Callable[[], Path]:
    """Makes a new directory, for what outlives a test. Everybody may read it, as the user that own
    scripts run as must.
    """

    def make() -> Path:
        path = Path(tempfile.mkdtemp(prefix="out-", dir=home))
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def out(fresh_directory: Callable[[], Path]) -> Iterator[Path]:
    """A results directory to be."""
    path = fresh_directory()
    yield path / "r"
    shutil.rmtree(path)


@pytest.fixture
def small_disk(home: Path) -> Iterator[Callable[[str], Path]]:
    """``small_disk("24M")``: an empty file system of that size. For root."""
    mounted: list[Path] = []

    def mount(size: str) -> Path:
        path = Path(tempfile.mkdtemp(prefix="disk-", dir=home))
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "dballoc-test", path],
            check=True,
        )
        mounted.append(path)
        return path

    yield mount
    for path in mounted:
        wait_until(
            lambda path=path: (
                subprocess.run(["umount", path], capture_output=True, check=False).returncode == 0
            )
        )
        path.rmdir()


@pytest.fixture(scope="session")
def tiny_experiment(fresh_directory: Callable[[], Path]) -> Experiment:
    """``tiny_experiment(threads=[1], time={"idle": "0s"})``: a file of the smallest campaign, with
    these keys changed.

    The data are the same for all, so that the template is made once a session.
    """

    def write(**changes: Any) -> Path:
        table: dict[str, Any] = {
            "name": "tiny",
            "design": "solo",
            "baseline": "glibc",
            "workloads": ["oltp_read_only"],
            "threads": [2],
            "blocks": 1,
            "server": {"options": {"innodb_buffer_pool_size": "32M"}},
            "data": {"tables": 1, "rows": 1000},
            "time": {"warmup": "0s", "level": "2s", "idle": "1s"},
            # Tests run on busy machines, where every block is disturbed; none is repeated.
            "noise": {"repeats": 0},
            "variant": [{"name": "glibc"}, {"name": "jemalloc", "allocator": "jemalloc"}],
        }
        if "load" not in changes and changes.get("design", "solo") == "solo":
            # 100 transactions a second give figures and leave the CPUs to the other tests. A duet
            # wants them busy.
            table["load"] = {"options": {"rate": 100}}
        for key, value in changes.items():
            table[key] = (
                {**table[key], **value} if isinstance(value, dict) and key in table else value
            )
        path = fresh_directory() / "tiny.toml"
        path.write_text(tomli_w.dumps(table))
        return path

    return write


@pytest.fixture(scope="session", autouse=True)
def thp_at_first() -> str:
    """What the host has before any test."""
    return thp_mode()


@pytest.fixture(autouse=True)
def nothing_is_left(home: Path, run_cli: Cli, thp_at_first: str) -> Iterator[None]:
    """After every test: no process, no scratch data, no socket directory of ours; the host as it
    was.
    """
    yield
    run_cli.kill_what_is_left()
    deadline = time.monotonic() + 15
    while (left := leftovers(home) or thp_mode() != thp_at_first) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, thp_mode()


@pytest.fixture(scope="module")
def launch() -> Iterator[Launch]:
    """``launch(command, place, env, user=…)``: a server that logs to ``place / "log"``; it listens
    on ``place / "s"``, or is ``ready()``.

    It outlives tests until the module's end: a module whose servers lie below the session's home
    has a ``nothing_is_left`` of its own, which looks for nothing.
    """
    started: list[subprocess.Popen[bytes]] = []

    def start(
        command: list[str | Path],
        place: Path,
        env: dict[str, str],
        ready: Callable[[], bool] | None = None,
        **user: Any,
    ) -> "subprocess.Popen[bytes]":
        with (place / "log").open("wb") as log:
            process = subprocess.Popen(
                command,
                # It must not look like one of dballoc's own to the other tests' check for
                # leftovers.
                env={"PATH": os.environ["PATH"], **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                **user,
            )
        started.append(process)
        wait_until(lambda: process.poll() is not None or (ready or (place / "s").exists)())
        assert process.poll() is None, (place / "log").read_text()
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(30)


def _list_stock_options(place: Path) -> list[str | Path]:
    """The command of a stock MariaDB on ``place / "data"``."""
    return [
        shutil.which("mariadbd", path=BIN) or "mariadbd",
        "--no-defaults",
        f"--datadir={place / 'data'}",
        f"--socket={place / 's'}",
        f"--pid-file={place / 'p'}",
        "--skip-networking",
        "--innodb-buffer-pool-size=16M",
        "--innodb-log-file-size=4M",
    ]


@pytest.fixture(scope="module")
def stock_server(home: Path, launch: Launch) -> StartServer:
    """``stock_server("--key=value", LD_PRELOAD="…")``: a stock MariaDB on a data directory of its
    own; its PID and socket.
    """

    def start(*options: str, **variables: str) -> tuple[int, Path]:
        place = Path(tempfile.mkdtemp(prefix="stock-", dir=home))
        (place / "data").mkdir()
        user = ["--user=root"] if os.geteuid() == 0 else []
        command = [*_list_stock_options(place), *user, "--skip-log-bin", "--skip-grant-tables"]
        return launch([*command, *options], place, variables).pid, place / "s"

    return start


@pytest.fixture(scope="session")
def data_with_accounts(home: Path) -> Path:
    """A data directory with accounts: root without password, and one that may do nothing."""
    place = home / "data-with-accounts"
    place.mkdir()
    give(A_USER, place)
    installed = subprocess.run(
        [
            "mariadb-install-db",
            "--no-defaults",
            f"--datadir={place}",
            # A server that starts removes the temporary tables of all others in its directory.
            f"--tmpdir={place}",
            "--skip-test-db",
            "--skip-name-resolve",
            "--auth-root-authentication-method=normal",
            "--innodb-log-file-size=4M",
            "--innodb-buffer-pool-size=8M",
        ],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd="/",
        **run_as(A_USER),
    )
    assert installed.returncode == 0, installed.stdout
    return place


@pytest.fixture(scope="module")
def server_with_accounts(
    home: Path, data_with_accounts: Path, launch: Launch
) -> Callable[..., Server]:
    """``server_with_accounts("--key=value", LD_PRELOAD="…")``: a stock MariaDB without privileges,
    with accounts and a plugin directory of its own.
    """
    path = Path(str(files("dballoc") / "_native" / f"lib{LIBRARY}"))
    assert path.exists(), (
        f"{path} is not there: the tests run on the installed package (make setup)"
    )

    def start(*options: str, before: tuple[str, ...] = (), **variables: str) -> Server:
        place = Path(tempfile.mkdtemp(prefix="udf-", dir=home))
        place.chmod(0o755)
        (place / "plugins").mkdir()
        subprocess.run(["cp", "-a", data_with_accounts, place / "data"], check=True)
        give(A_USER, place)
        command = [
            *before,
            *_list_stock_options(place),
            f"--plugin-dir={place / 'plugins'}",
            *options,
        ]
        process = launch(command, place, variables, **run_as(A_USER))
        return Server(process.pid, place / "s", place / "plugins")

    return start


@pytest.fixture(scope="module")
def server_home() -> Iterator[Path]:
    """Where a user's own server lives: not below the session's home, as it is none of dballoc's
    leftovers.
    """
    path = Path(tempfile.mkdtemp(prefix="dbo-", dir="/tmp"))
    path.chmod(0o755)
    (path / "data").mkdir()
    yield path
    shutil.rmtree(path)
