"""`bench --like` and `--defaults-file`: a MariaDB of the test's own is started as users start
theirs, and read.
"""

import os
import re
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness import (
    A_USER,
    SMALL_CAMPAIGN,
    Cli,
    Experiment,
    Launch,
    answers,
    give,
    rows,
    run_as,
    wait_until,
)

from dballoc.allocators import find_library as find_allocator
from dballoc.ground.errors import UsageError
from dballoc.servers import build as find_build


@dataclass(frozen=True)
class Running:
    pid: int
    home: Path

    def stop(self) -> None:
        os.kill(self.pid, 15)
        wait_until(
            lambda: (
                not Path(f"/proc/{self.pid}/stat").exists()
                or b" Z " in Path(f"/proc/{self.pid}/stat").read_bytes()
            )
        )


@pytest.fixture(scope="module")
def theirs(server_home: Path, launch: Launch) -> Running:
    """A server with an option file, arguments, a password, settings changed since, and jemalloc if
    there is one.
    """
    home, build = server_home, find_build.find("mariadb", None)
    (home / "more.cnf").write_text("[mysqld]\nsort_buffer_size=1M\nsql_mode=\n")
    (home / "my.cnf").write_text(
        f"[mysqld]\n!include {home}/more.cnf\n[mysqld]\ndatadir={home}/data\nsocket={home}/s.sock\npid-file={home}/s.pid\n"
        "skip-networking\nserver-id=7\ninnodb_buffer_pool_size=32M\nskip-name-resolve\nslow_query_log=1\nssl=0\n"
    )
    (home / "init.sql").write_text(
        "CREATE DATABASE shop;\nCREATE TABLE shop.item (id INT PRIMARY KEY, name VARCHAR(20));\n"
        "INSERT INTO shop.item SELECT seq, 'x' FROM shop.seq_1_to_100;\n"
        "CREATE USER app@localhost IDENTIFIED BY 'pass';\nGRANT ALL ON *.* TO app@localhost;\n"
        "CREATE USER dballoc@localhost IDENTIFIED BY 'theirs';\n"
        "CREATE EVENT shop.e ON SCHEDULE EVERY 1 SECOND DO DELETE FROM shop.item;\n"
    )
    give(A_USER, home, *home.iterdir())
    scripts = [find_build.script(build, s).read_text() for s in build.entry.scripts]
    subprocess.run(
        [
            build.executable,
            "--no-defaults",
            "--bootstrap",
            f"--datadir={home}/data",
            f"--lc-messages-dir={build.share}",
        ],
        input="create database mysql;\nuse mysql;\n" + "\n".join(scripts),
        text=True,
        check=True,
        capture_output=True,
        **run_as(A_USER),
    )
    try:
        env = {
            "LD_PRELOAD": str(find_allocator.find_allocator("jemalloc").libraries[0]),
            "MALLOC_CONF": "narenas:2",
        }
    except UsageError:
        env = {"MALLOC_ARENA_MAX": "2"}
    command = [
        build.executable,
        f"--defaults-file={home}/my.cnf",
        "--key-buffer-size=16M",
        f"--init-file={home}/init.sql",
    ]
    change = "SET GLOBAL max_heap_table_size = 1048576"
    process = launch(
        command,
        home,
        env,
        ready=lambda: answers(home / "s.sock", change, user="app", password="pass"),
        **run_as(A_USER),
    )
    return Running(process.pid, home)


def printed(run_cli: Cli, *args: str | Path, **how: object) -> tuple[dict, str]:
    done = run_cli("bench", *args, "--print", **how)
    assert done.status == 0, done.text
    return tomllib.loads(done.stdout), done.stderr


def test_like_a_running_server(run_cli: Cli, theirs: Running, home: Path) -> None:
    client = theirs.home / "client"
    client.mkdir()
    (client / ".my.cnf").write_text(
        f"[client]\nuser=app\npassword=pass\nsocket={theirs.home}/s.sock\n"
    )
    table, said = printed(
        run_cli, "--like", str(theirs.pid), "--allocators", "glibc", env={"HOME": str(client)}
    )
    options = table["server"]["options"]
    assert options.pop("max_heap_table_size") == "1048576", "what was set since its start"
    assert options == {
        "sort_buffer_size": "1M",
        "sql_mode": "''",
        "innodb_buffer_pool_size": "32M",
        "skip_name_resolve": "",
        "key_buffer_size": "16M",
    }
    assert table["baseline"] == "current"
    assert [v["name"] for v in table["variant"]] == ["current", "glibc"]
    assert table["variant"][0]["env"] in ({"MALLOC_CONF": "narenas:2"}, {"MALLOC_ARENA_MAX": "2"})
    assert re.search(r"left out \(paths\): .*datadir", said)
    assert "left out (logs): slow_query_log" in said
    assert "pass" not in said.replace("password", "")


def test_like_without_credentials(run_cli: Cli, theirs: Running) -> None:
    (theirs.home / "nobody").mkdir()
    env = {"HOME": str(theirs.home / "nobody"), "MYSQL_PWD": "wrong"}
    (theirs.home / "nobody/.my.cnf").write_text("[client]\nuser=nobody\n")
    table, said = printed(run_cli, "--like", str(theirs.pid), env=env)
    assert table["server"]["options"]["innodb_buffer_pool_size"] == "32M"
    assert "max_heap_table_size" not in table["server"]["options"]
    assert "options changed at run time are unknown: Access denied" in said


def test_explain_with_a_wrong_password(run_cli: Cli, theirs: Running) -> None:
    """It explains what it can from outside, says why it asked nothing, and keeps the password to
    itself.
    """
    client = theirs.home / "wrong"
    client.mkdir()
    (client / ".my.cnf").write_text(
        f"[client]\nuser=app\npassword=notthisone\nsocket={theirs.home}/s.sock\n"
    )
    done = run_cli("explain", "--pid", str(theirs.pid), env={"HOME": str(client)})
    assert done.status == 0, done.text
    [line] = [line for line in done.stdout.splitlines() if "not queried by SQL" in line]
    assert "Access denied for user 'app'" in line
    assert "notthisone" not in done.text + (theirs.home / "log").read_text()
    (client / ".my.cnf").write_text(
        f"[client]\nuser=app\npassword=pass\nsocket={theirs.home}/s.sock\n"
    )
    right = run_cli("explain", "--pid", str(theirs.pid), "--json", env={"HOME": str(client)})
    assert '"SQL"' in right.stdout


def test_what_is_printed_stands_alone(run_cli: Cli, theirs: Running, out: Path) -> None:
    done = run_cli("bench", "--like", str(theirs.pid), "--allocators", "glibc", "--print")
    (out.parent / "mine.toml").write_text(done.stdout)
    done = run_cli("bench", out.parent / "mine.toml", *SMALL_CAMPAIGN, "--out", out)
    assert done.status == 0, done.text
    assert {
        (r["variant"], r["outcome"]) for r in rows(out, "SELECT variant, outcome FROM trial")
    } == {
        ("current", "ok"),
        ("glibc", "ok"),
    }
    variables = (next((out / "trials").iterdir()) / "variables.tsv").read_text().splitlines()
    assert {"sql_mode\t", "sort_buffer_size\t1048576", "key_buffer_size\t16777216"} <= set(
        variables
    )


@pytest.mark.parametrize("pid", [os.getpid(), 2**22 - 1], ids=["no-server", "not-there"])
def test_what_is_no_server(run_cli: Cli, pid: int) -> None:
    done = run_cli("bench", "--like", str(pid), "--print")
    assert (done.status, done.stdout) == (2, "")
    assert re.fullmatch(
        rf"dballoc: (--like {pid}: \S+ \(\S+\) is not a MySQL-family server|process {pid}: No such process)\n",
        done.stderr,
    )


def test_a_my_cnf(run_cli: Cli, theirs: Running) -> None:
    table, said = printed(
        run_cli, "--defaults-file", theirs.home / "my.cnf", "--option", "sort_buffer_size=2M"
    )
    assert table["server"]["options"] == {
        "sort_buffer_size": "2M",
        "sql_mode": "''",
        "innodb_buffer_pool_size": "32M",
        "skip_name_resolve": "",
    }
    assert "left out (network and identity): socket, skip_networking, server_id" in said


def test_a_my_cnf_that_is_bad(run_cli: Cli, out: Path) -> None:
    bad = out.parent / "bad.cnf"
    bad.write_text("sort_buffer_size=1M\n")
    done = run_cli("bench", "--defaults-file", bad)
    assert done.status == 2
    assert re.fullmatch(
        rf"dballoc: --defaults-file {bad}: MariaDB [\d.]+ cannot read it: .* at line: 1\n",
        done.stderr,
    ), done.stderr
    bad.write_text("[mysqld]\nsort_bufer_siz=1M\ninnodb_bufer_pool_size=1G\n")
    done = run_cli("bench", "--defaults-file", bad, "--dry-run")
    assert (done.status, done.stdout) == (2, "")
    assert re.search(
        r"MariaDB [\d.]+ refuses its options: unknown variable 'innodb-bufer-pool-size=1G'",
        done.stderr,
    ), done.stderr
    assert "left out (not known to matter for memory or speed): sort_bufer_siz\n" in done.stderr


def test_its_data_directory(
    run_cli: Cli, tiny_experiment: Experiment, theirs: Running, out: Path
) -> None:
    """Last: the server is stopped. In use, killed, then at rest; its accounts and events are none
    of ours.
    """
    data = theirs.home / "data"
    sql = out.parent / "item.sql"
    sql.write_text(
        "SELECT name FROM item WHERE id = {int:1:100};\nUPDATE item SET name = '{string:8}' WHERE id = {int:1:100};\n"
    )
    file = tiny_experiment(
        variant=[{"name": "glibc"}],
        workloads=[str(sql)],
        data={"directory": str(data), "database": "shop"},
        time={"idle": "0s"},
    )
    done = run_cli("bench", file, "--out", out)
    assert (
        done.stderr
        == f"dballoc: data.directory {data}: a server (process {theirs.pid}) is running on it; stop it, or give a copy\n"
    )
    shutil.copytree(data, out.parent / "torn")
    done = run_cli(
        "bench", file, "--data-directory", out.parent / "torn", "--out", out.parent / "r2"
    )
    assert done.status == 2
    assert "was not shut down cleanly" in done.stderr
    theirs.stop()
    before = {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in data.rglob("*")}
    done = run_cli("bench", file, "--out", out)
    assert done.status == 0, done.text
    assert [r["outcome"] for r in rows(out, "SELECT outcome FROM trial")] == ["ok", "ok"]
    assert rows(out, "SELECT DISTINCT kind FROM step") == [{"kind": "level"}], (
        "no scan of tables that nobody knows"
    )
    assert {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in data.rglob("*")} == before
    done = run_cli("bench", file, "--database", "shopp", "--out", out.parent / "r3")
    assert done.stderr.endswith(
        'data.database: the data have no table in "shopp"; there are tables in shop\n'
    )
