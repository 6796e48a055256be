"""The loadable function in real servers: installed when asked, used by the ledger, gone without a
trace.
"""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymysql
import pytest
from harness import A_USER, Cli, Done, Launch, Server, give, run_as
from typer.testing import CliRunner

from dballoc.cli import verb_list
from dballoc.evidence.sql.loadable_function import LIBRARY, STATS, TRIM
from dballoc.explain.ledger.ledger_line import UNACCOUNTED
from dballoc.ground.errors import UsageError

MIB = 1 << 20

Start = Callable[..., Server]


@pytest.fixture(autouse=True)
def nothing_is_left() -> None:
    """Here servers outlive a test on purpose; the module's own fixture ends them."""


@pytest.fixture(scope="module")
def logging(server_with_accounts: Start) -> Server:
    """On glibc, with a binary log."""
    return server_with_accounts("--log-bin", "--server-id=1")


@pytest.fixture
def changed(run_cli: Cli) -> Callable[..., Done]:
    """``changed(server, "--install-function")``: asked as root of the server, agreed to."""

    def change(server: Server, *words: str, yes: bool = True, user: str = "root") -> Done:
        (run_cli.home / ".my.cnf").write_text(f"[client]\nuser={user}\n")
        agreed = ["--yes"] if yes else []
        return run_cli(
            "explain", "--pid", str(server.pid), *words, *agreed, env={"HOME": str(run_cli.home)}
        )

    return change


def explained(changed: Callable[..., Done], server: Server) -> dict[str, Any]:
    done = changed(server, "--json", yes=False)
    assert done.status == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert sum(line["resident"] for line in found["lines"]) + found["rest"] == found["rss"]
    return found


def test_installed_used_trimmed_and_removed_without_a_trace(
    changed: Callable[..., Done], logging: Server
) -> None:
    at_first = logging.ask("SHOW MASTER STATUS")
    done = changed(logging, "--install-function")
    assert done.status == 0, done.stderr
    assert "This changes the server:" in done.stdout
    assert f"copy {LIBRARY} into {logging.plugins}" in done.stdout
    assert logging.functions == [STATS]
    assert [path.name for path in logging.plugins.iterdir()] == [LIBRARY]

    found = explained(changed, logging)
    assert found["tiers"] == ["outside", "SQL", "function"]
    # glibc's heap is walked from outside; its own word agrees to a per cent, or a note would say
    # otherwise.
    assert [note for note in found["notes"] if "itself says" in note] == []
    assert "already installed" in changed(logging, "--install-function").stdout

    done = changed(logging, "--trim")
    assert done.status == 0, done.stderr
    assert re.search(
        r"malloc_trim\(0\) took \d+ ms: RSS [\d.]+ MiB before, [\d.]+ MiB after: [\d.]+ MiB (less|more)",
        done.stdout,
    )
    assert logging.functions == [STATS]

    done = changed(logging, "--remove-function")
    assert done.status == 0, done.stderr
    assert logging.functions == []
    assert list(logging.plugins.iterdir()) == []
    assert not logging.mapped
    assert logging.ask("SHOW MASTER STATUS") == at_first
    assert "nothing to remove" in changed(logging, "--remove-function").stdout
    assert explained(changed, logging)["tiers"] == ["outside", "SQL"]


def test_nothing_is_done_unasked(changed: Callable[..., Done], logging: Server) -> None:
    done = changed(logging, "--install-function", yes=False)
    assert done.status == 2
    assert done.stderr.splitlines() == [
        "dballoc: --install-function asks before it changes the server, but standard input is not a terminal; give --yes"
    ]
    assert (logging.functions, list(logging.plugins.iterdir())) == ([], [])


def test_who_may_not_is_told_so(changed: Callable[..., Done], logging: Server) -> None:
    logging.ask("CREATE OR REPLACE USER plain@localhost")
    done = changed(logging, "--install-function", user="plain")
    assert done.status == 1
    assert len(done.stderr.splitlines()) == 1
    assert "log in as an account that has them" in done.stderr
    # One that sees what is there, and may not add to it: what was copied is taken back.
    logging.ask(
        "GRANT SELECT ON mysql.* TO plain@localhost", "GRANT BINLOG ADMIN ON *.* TO plain@localhost"
    )
    done = changed(logging, "--install-function", user="plain")
    assert done.status == 1
    assert "denied" in done.stderr
    assert list(logging.plugins.iterdir()) == []


def test_trim_takes_the_function(changed: Callable[..., Done], logging: Server) -> None:
    done = changed(logging, "--trim")
    assert done.status == 2
    assert "dballoc explain --install-function" in done.stderr
    assert TRIM not in logging.functions


@pytest.mark.parametrize(
    ("library", "name"),
    [
        ("libjemalloc.so.2", "jemalloc"),
        pytest.param("libtcmalloc_minimal.so.4", "gperftools", marks=pytest.mark.slow),
    ],
)
def test_another_mallocs_books_are_lines(
    changed: Callable[..., Done], server_with_accounts: Start, library: str, name: str
) -> None:
    one = server_with_accounts("--max-allowed-packet=256M", LD_PRELOAD=library)
    assert changed(one, "--install-function").status == 0

    def live(found: dict[str, Any]) -> int:
        return sum(line["size"] for line in found["lines"] if line["owner"].startswith("live heap"))

    with pymysql.connect(
        unix_socket=str(one.socket), user="root", max_allowed_packet=256 * MIB
    ) as connection:
        before = explained(changed, one)
        with connection.cursor() as cursor:
            cursor.execute("SET @kept = REPEAT('x', 128 * 1024 * 1024)")
        after = explained(changed, one)
    assert after["tiers"] == ["outside", "SQL", "function"]
    assert any(line["source"] == f"{name}'s books" for line in after["lines"])
    # What a session has kept is live, and is in memory: the server's own labels take a part of it.
    # Sizes are rounded up.
    named = {
        o["owner"]: o["size"]
        for o in after["lines"]
        if o["confidence"] == "labelled" and "books" not in o["source"]
    }
    more = live(after) - live(before) + named.get("sessions", 0)
    assert 128 * MIB <= more <= 1.3 * 128 * MIB
    assert after["rss"] - before["rss"] >= 127 * MIB
    # The rest of its pages: what the server maps itself, and what it never accounts for.
    left = sum(line["resident"] for line in after["lines"] if line["owner"] == UNACCOUNTED)
    assert left < 0.1 * after["rss"]
    assert abs(after["rest"]) <= 0.01 * after["rss"]
    done = changed(one, "--trim")
    assert done.status == 0, done.stderr
    before_trim, after_trim = (
        float(x) for x in re.findall(r"([\d.]+) MiB (?:before|after)", done.stdout)
    )
    # The session has ended, and its block is free: the malloc gives it back, if it had not done so
    # by itself.
    assert after_trim <= before_trim + 1
    assert after_trim * MIB < after["rss"] - 100 * MIB


@pytest.mark.slow
def test_a_malloc_that_does_not_count_says_so(
    changed: Callable[..., Done], server_with_accounts: Start
) -> None:
    one = server_with_accounts(LD_PRELOAD="libmimalloc.so.2")
    assert changed(one, "--install-function").status == 0
    found = explained(changed, one)
    assert found["tiers"][-1] == "function"
    assert any("does not count what is live" in note for note in found["notes"])


def test_a_server_that_loads_no_functions(
    changed: Callable[..., Done], server_with_accounts: Start
) -> None:
    one = server_with_accounts("--skip-grant-tables")
    done = changed(one, "--install-function")
    assert done.status == 1
    assert len(done.stderr.splitlines()) == 1
    assert "skip-grant-tables" in done.stderr
    assert list(one.plugins.iterdir()) == []


def test_a_server_that_was_started_through_the_loader(
    changed: Callable[..., Done], server_with_accounts: Start
) -> None:
    [loader] = sorted(map(str, Path("/").glob("lib*/ld-linux-*.so.*")))[:1]
    one = server_with_accounts(before=(loader, "--inhibit-cache"))
    found = explained(changed, one)
    assert found["executable"].endswith("/mariadbd")
    assert found["tiers"] == ["outside", "SQL"]
    assert abs(found["rest"]) <= 0.01 * found["rss"]


def test_words_that_do_not_go_together() -> None:
    for words in (
        ["--install-function", "--remove-function"],
        ["--trim", "--json"],
        ["--install-function", "--no-sql"],
    ):
        done = CliRunner().invoke(verb_list.application(), ["explain", "--pid", "1", *words])
        assert isinstance(done.exception, UsageError)
        assert "give only one of" in str(done.exception)


@pytest.mark.slow
def test_mysql_too(run_cli: Cli, changed: Callable[..., Done], home: Path, launch: Launch) -> None:
    """Debian's MySQL 9.7, which is linked against gperftools, with its binary log."""
    store = Path(tempfile.gettempdir()) / f"dballoc-test-store-{os.getuid()}"
    store.mkdir(mode=0o755, exist_ok=True)
    fetched = run_cli("fetch", "mysql@9.7", env={"DBALLOC_STORE": str(store)})
    if fetched.status:
        pytest.skip(fetched.stderr)
    root = store / "mysql@9.7/root"
    executable = next(path for path in root.rglob("mysqld") if path.is_file())
    place = home / "udf-mysql"
    (place / "plugins").mkdir(parents=True)
    give(A_USER, place)
    common = [
        executable,
        "--no-defaults",
        f"--basedir={root / 'usr'}",
        f"--datadir={place / 'data'}",
        "--mysqlx=OFF",
        "--secure-file-priv=NULL",
        "--innodb-buffer-pool-size=64M",
        f"--plugin-dir={place / 'plugins'}",
    ]
    subprocess.run(
        [*common, "--initialize-insecure"],
        check=True,
        capture_output=True,
        cwd="/",
        **run_as(A_USER),
    )
    command = [
        *common,
        f"--socket={place / 's'}",
        f"--pid-file={place / 'p'}",
        "--skip-networking",
        "--performance-schema=OFF",
    ]
    process = launch(command, place, {}, **run_as(A_USER))
    one = Server(process.pid, place / "s", place / "plugins")
    at_first = one.ask("SHOW BINARY LOG STATUS")
    done = changed(one, "--install-function")
    assert done.status == 0, done.stderr
    found = explained(changed, one)
    assert found["tiers"] == ["outside", "SQL", "function"]
    assert any(line["source"] == "gperftools's books" for line in found["lines"])
    done = changed(one, "--trim")
    assert done.status == 0, done.stderr
    assert "MallocExtension_ReleaseFreeMemory() took" in done.stdout
    assert changed(one, "--remove-function").status == 0
    assert (one.functions, list(one.plugins.iterdir()), one.mapped) == ([], [], False)
    assert one.ask("SHOW BINARY LOG STATUS") == at_first
