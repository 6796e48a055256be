"""``dballoc profile contention`` and ``bench --profile contention``: a real MariaDB whose malloc
has one lock, under sysbench.
"""

import json
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from harness import Cli, Experiment, StartServer, leftovers, wait_until

from dballoc.catalogue import waits
from dballoc.profile.contention.wait_rules import Rules
from dballoc.profile.formats.profile_file import load_profile

pytestmark = pytest.mark.alone

CLIENTS = 24
RULES = Rules(waits())


@pytest.fixture(autouse=True)
def nothing_is_left(home: Path) -> Iterator[None]:
    """Here a server and its client outlive a test on purpose; the rest must be gone."""
    yield
    wait_until(
        lambda: not [x for x in leftovers(home) if "sysbench" not in x and "mariadbd" not in x], 20
    )


@pytest.fixture(scope="module")
def server(stock_server: StartServer) -> Iterator[int]:
    """The PID of a MariaDB with one arena, under read-only load."""
    pid, path = stock_server(
        "--innodb-buffer-pool-size=32M", "--max-connections=400", MALLOC_ARENA_MAX="1"
    )
    client: subprocess.Popen[bytes] | None = None
    try:
        with (
            pymysql.connect(unix_socket=str(path), autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("CREATE DATABASE sbtest")
        sysbench = [
            "sysbench",
            "oltp_read_only",
            f"--mysql-socket={path}",
            "--mysql-user=root",
            "--tables=1",
            "--table-size=1000",
            f"--threads={CLIENTS}",
            "--time=300",
            "--rate=100",  # it leaves CPU for those who look
        ]
        subprocess.run([*sysbench, "prepare"], check=True, stdout=subprocess.DEVNULL)
        client = subprocess.Popen(
            [*sysbench, "run"], stdout=subprocess.DEVNULL, start_new_session=True
        )
        tasks = Path(f"/proc/{pid}/task")
        wait_until(lambda: len(list(tasks.iterdir())) > CLIENTS)
        yield pid
    finally:
        if client:
            client.kill()
            client.wait()


def seen(run_cli: Cli, *arguments: str, **how: Any) -> dict[str, Any]:
    done = run_cli("profile", "contention", *arguments, "--json", **how)
    assert done.status == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_what_a_servers_threads_wait_for(run_cli: Cli, server: int, out: Path) -> None:
    asked = ("--pid", str(server), "--seconds", "2", "--stacks", "500", "--out", str(out))
    found = seen(run_cli, *asked, env={"HOME": str(out.parent)})
    assert not (
        out.parent / ".debug"
    ).exists()  # perf keeps copies of what it has seen there, unless it is told not to
    if not found["method"].startswith("perf: "):
        pytest.skip(f"needs perf and its permission: {found['method']}")
    assert found["malloc"]["share"] == pytest.approx(
        sum(g["share"] for g in found["malloc"]["groups"].values())
    )
    assert found["elsewhere"]["client"]["waits"] > 0
    assert found["elsewhere"]["client"]["share"] > 0.1
    assert found["frames"]
    facts = found["facts"]
    assert 100 <= int(facts["stacks"]) <= 2_000
    assert int(facts["switches"]) >= int(facts["stacks"])
    # All waits together last as long as the threads did not run, at most; what is scaled from some
    # hundred stacks may be more, as few waits are long.
    assert 0 < float(facts["seconds waited"]) < 1.1 * found["seconds"] * int(facts["threads"])
    assert found["waits"]["waited"] > 0
    names = {Path(file).name for file in found["files"]}
    assert {"contention.html", "contention.profile.json.gz"} <= names
    kept = load_profile(out / "contention.profile.json.gz")
    assert any("do_command" in frame.function for sample in kept.samples for frame in sample.stack)
    cut = [
        " < ".join(frame.function for frame in sample.stack)
        for sample in kept.samples
        if RULES.cut(sample.stack)
    ]
    assert int(facts["stacks cut off"]) < 0.1 * int(facts["stacks"]), "\n".join(cut)
    assert kept.total("waits") == pytest.approx(found["waits"]["waits"])
    assert "do_command" in (out / "contention.html").read_text()
    if facts.get("wake-ups"):
        assert load_profile(out / "contention-wakeups.profile.json.gz").samples


def test_without_perf_threads_are_read_from_proc(run_cli: Cli, server: int) -> None:
    found = seen(run_cli, "--pid", str(server), "--seconds", "2", "--method", "proc")
    assert found["method"].startswith("/proc: ")
    assert "--method proc was given" in found["method"]
    assert found["facts"]["arenas"] == "1"
    assert found["elsewhere"]["client"]["share"] > 0.01
    assert 0 <= found["malloc"]["share"] < 1


def test_perf_that_is_not_there_is_said(run_cli: Cli, server: int, tmp_path: Path) -> None:
    nowhere = {"PATH": str(tmp_path)}
    done = run_cli("profile", "contention", "--pid", str(server), "--seconds", "0.5", env=nowhere)
    assert done.status == 0, done.stderr
    assert "no call stacks, because perf is not installed" in done.stdout
    done = run_cli(
        "profile",
        "contention",
        "--pid",
        str(server),
        "--seconds",
        "0.5",
        "--method",
        "perf",
        env=nowhere,
    )
    assert (done.status, done.stdout) == (1, "")
    assert (
        done.stderr
        == "dballoc: perf is not installed (Debian: linux-perf); --method proc works without perf\n"
    )


def test_who_is_meant(run_cli: Cli) -> None:
    done = run_cli("profile", "contention", "--pid", str(2**22 - 1))
    assert (done.status, done.stderr) == (
        2,
        f"dballoc: process {2**22 - 1}: No such process\n",
    )


def test_an_interruption_leaves_nothing(run_cli: Cli, server: int, home: Path) -> None:
    running = run_cli.start("profile", "contention", "--pid", str(server), "--seconds", "60")
    wait_until(
        lambda: (
            any((home / "cache" / "scratch").glob("*/switches-*.data"))
            or running.poll() is not None
        )
    )
    time.sleep(0.3)
    running.kill()
    running.wait()
    wait_until(lambda: not list((home / "cache" / "scratch").iterdir()), 20)
    wait_until(lambda: not [x for x in leftovers(home) if "perf" in x], 20)


@pytest.mark.slow
def test_a_campaign_with_profiles(run_cli: Cli, tiny_experiment: Experiment, out: Path) -> None:
    experiment = tiny_experiment(
        profile="contention",
        threads=[16],
        time={"idle": "0s"},
        variant=[
            {"name": "one", "allocator": "glibc", "tunables": {"arena_max": "1"}},
            {"name": "jemalloc", "allocator": "jemalloc"},
        ],
        baseline="one",
    )
    done = run_cli("bench", experiment, "--out", out, "--report")
    assert done.status == 0, done.text
    files = sorted(
        p.relative_to(out / "trials").as_posix()
        for p in (out / "trials").glob("*/contention-*.profile.json.gz")
    )
    assert len([f for f in files if "wakeups" not in f]) == 2, files
    assert not any("A2" in f for f in files)
    page, text = (out / "report.html").read_text(), (out / "report.md").read_text()
    assert 'id="contention"' in page
    assert page.count('class="flame-chart"') >= 1
    assert "What the threads wait for" in text
    assert "Dominant inclusive frames" in text
    assert "](charts/contention-waits-oltp_read_only.html)" in text
    assert (out / "charts" / "contention-waits-oltp_read_only.html").exists()
    # What was profiled is none of what was measured.
    with sqlite3.connect(out / "results.sqlite") as db:
        assert {row[0] for row in db.execute("SELECT DISTINCT kind FROM step")} == {"sql", "level"}
