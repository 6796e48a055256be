"""Servers × allocators: each started, proved in use, asked one query, stopped. What a moved source
no longer gives is skipped, and said.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from harness import Cli, Experiment, rows

from dballoc.fetch import fetch_sources

MATRIX = Path(__file__).parents[2] / "benchmarks/matrix.py"

SIX = ["glibc", "jemalloc", "tcmalloc", "mimalloc", "tbbmalloc", "jemalloc@5.2.1"]
# Fetching everything and building what comes as sources takes a quarter of an hour the first time.
ALL_PATIENCE = 3000


@pytest.fixture(scope="session")
def store() -> dict[str, str]:
    """Kept between runs, so that the same files are not downloaded each time; where a server's user
    may read it.
    """
    path = Path(tempfile.gettempdir()) / f"dballoc-test-store-{os.getuid()}"
    path.mkdir(mode=0o755, exist_ok=True)
    return {"DBALLOC_STORE": str(path)}


def fetch(run_cli: Cli, store: dict[str, str], name: str) -> str | None:
    """None when it is there, else why not."""
    done = run_cli.end(run_cli.start("fetch", name, env=store), ALL_PATIENCE)
    return None if done.status == 0 else done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("server", "engine"),
    [
        pytest.param("mariadb", "innodb", marks=pytest.mark.slow),
        pytest.param("mysql@9.7", "innodb", marks=pytest.mark.slow),
        pytest.param("mariadb@11.8", "rocksdb", marks=pytest.mark.slow),
    ],
    ids=lambda v: v,
)
def test_six_allocators_under_a_server(
    run_cli: Cli, store: dict[str, str], server: str, engine: str
) -> None:
    lacking = {
        name: why
        for name in (server, SIX[-1])
        if "@" in name and (why := fetch(run_cli, store, name))
    }
    if server in lacking:
        pytest.skip(lacking[server])
    names = [name for name in SIX if name not in lacking]
    words = (
        "list",
        "allocators",
        *names,
        "--prove",
        "--server",
        server,
        "--engine",
        engine,
        "--json",
    )
    done = run_cli(*words, env=store)
    assert done.status == 0, done.text
    proofs = {row["name"]: row for row in json.loads(done.stdout)}
    assert list(proofs) == names
    assert {name: row["proof"] for name, row in proofs.items() if not row["proved"]} == {}
    assert proofs["glibc"]["proof"].removeprefix("malloc leads to ").endswith("/libc.so.6")
    if lacking:
        pytest.skip(f"all else is proved; {lacking[SIX[-1]]}")


def test_a_server_as_it_was_built(run_cli: Cli, store: dict[str, str]) -> None:
    """Debian links MySQL 9.7 against tcmalloc: naming no allocator is that, and not glibc."""
    if why := fetch(run_cli, store, "mysql@9.7"):
        pytest.skip(why)
    done = run_cli("list", "servers", "mysql@9.7", "--prove", "--json", env=store)
    assert done.status == 0, done.text
    (row,) = json.loads(done.stdout)
    assert row["proved"], row["proof"]
    assert row["proof"].endswith("/libtcmalloc.so.4")


def test_a_servers_own_malloc_is_not_called_glibc(
    run_cli: Cli, store: dict[str, str], tiny_experiment: Experiment, tmp_path: Path
) -> None:
    """What was run as "glibc" on this build was tcmalloc; and its check of options ended before it
    had looked at them.
    """
    if why := fetch(run_cli, store, "mysql@9.7"):
        pytest.skip(why)
    dry = ("bench", "--server", "mysql@9.7", "--dry-run")
    done = run_cli(*dry, "--allocators", "glibc,builtin", env=store)
    assert done.status == 0, done.text
    assert re.search(r"variant: glibc: MySQL 9\.7\S* innodb, glibc 2\.", done.stdout)
    assert re.search(r"variant: builtin: MySQL 9\.7\S* innodb, tcmalloc-full 2\.", done.stdout)
    file = tiny_experiment(variant=[{"name": "glibc"}], server={"use": "mysql@9.7"})
    done = run_cli("bench", file, "--dry-run", env=store)
    assert (done.status, done.stderr.count("\n")) == (2, 1), done.text
    assert "it is called after glibc, but names no allocator" in done.stderr
    (tmp_path / "my.cnf").write_text("[mysqld]\nquery_cache_size = 16M\n")
    done = run_cli(*dry, "--defaults-file", tmp_path / "my.cnf", env=store)
    assert (done.status, done.stderr.count("\n")) == (2, 1), done.text
    assert "refuses its options: unknown variable 'query-cache-size=16M'" in done.stderr


@pytest.mark.slow
def test_a_campaign_tells_the_linked_malloc_from_glibc(
    run_cli: Cli, store: dict[str, str], tiny_experiment: Experiment, out: Path
) -> None:
    if why := fetch(run_cli, store, "mysql@9.7"):
        pytest.skip(why)
    variants = [{"name": "plain"}, {"name": "glibc", "allocator": "glibc"}]
    file = tiny_experiment(variant=variants, baseline="plain", server={"use": "mysql@9.7"})
    done = run_cli("bench", file, "--out", out, env=store)
    assert done.status == 0, done.text
    found = {
        r["name"]: r
        for r in rows(out, "SELECT name, allocator, allocator_version, server FROM variant")
    }
    assert (found["plain"]["allocator"], found["glibc"]["allocator"]) == ("tcmalloc-full", "glibc")
    assert found["plain"]["allocator_version"].startswith("2.")
    proofs = {
        r["variant"]: json.loads(r["proof"])["running"]
        for r in rows(out, "SELECT variant, proof FROM trial")
    }
    # libstdc++'s operator new calls malloc.
    libraries = {
        name: {Path(lib).name.split(".")[0] for lib in of.values()} - {"libstdc++"}
        for name, of in proofs.items()
    }
    assert libraries == {"plain": {"libtcmalloc"}, "glibc": {"libc"}}


@pytest.mark.slow
@pytest.mark.parametrize("server", ["mysql@9.7", "mysql@8.0.33"])
def test_a_mysql_replica_applies(
    run_cli: Cli, store: dict[str, str], tiny_experiment: Experiment, out: Path, server: str
) -> None:
    """Of each way in which MySQL's replicas are made that can be fetched."""
    if why := fetch(run_cli, store, server):
        pytest.skip(why)
    variants = [{"name": "glibc", "allocator": "glibc"}]
    file = tiny_experiment(
        workloads=["replica"], server={"use": server}, variant=variants, blocks=1
    )
    done = run_cli("bench", file, "--out", out, env=store)
    assert done.status == 0, done.text
    levels = rows(out, "SELECT * FROM step JOIN replica USING (trial, step) WHERE kind = 'level'")
    assert len(levels) == 2, "the baseline twice"
    for level in levels:
        assert level["events"] > 0
        assert level["left_behind"] == 0


def test_one_that_needs_a_newer_glibc_is_refused_with_the_remedy(
    run_cli: Cli, store: dict[str, str], tiny_experiment: Experiment, tmp_path: Path
) -> None:
    if why := fetch(run_cli, store, "glibc@2.31"):
        pytest.skip(why)
    file = tiny_experiment(variant=[{"name": "old", "allocator": "glibc@2.31"}], baseline="old")
    done = run_cli("bench", file, "--out", tmp_path / "r", env=store)
    assert done.status == 2, done.text
    assert len(done.stderr.strip().splitlines()) == 1
    assert "needs glibc 2." in done.stderr
    assert not (tmp_path / "r").exists()


@pytest.mark.slow
@pytest.mark.timeout(ALL_PATIENCE)
def test_the_whole_matrix(run_cli: Cli, store: dict[str, str], tmp_path: Path) -> None:
    """Everything that can be fetched, under every server. Prints the table."""
    lacking = {
        s.reference: why
        for s in fetch_sources.list_all_sources()
        if (why := fetch(run_cli, store, s.reference))
    }
    out = tmp_path / "matrix.json"
    done = subprocess.run(
        [sys.executable, MATRIX, "--json", out],
        env={**run_cli.env, **store},
        cwd=run_cli.home,
        text=True,
        stdout=subprocess.PIPE,
        timeout=ALL_PATIENCE,
        check=False,
    )
    print(done.stdout)
    for name, why in lacking.items():
        print(f"SKIPPED {name}: {why}")
    assert done.returncode == 0
    proofs = json.loads(out.read_text())
    # Every allocator that is here runs under this machine's own server, on a newer C library where
    # it needs one …
    refused = {
        p["name"]: p["proof"] for p in proofs if p["server"] == "mariadb" and not p["proved"]
    }
    assert {n: why for n, why in refused.items() if n != "glibc@2.31"} == {}
    # … and every server that is here as it was built, and with jemalloc.
    assert {
        p["server"]: p["proof"]
        for p in proofs
        if p["name"] in ("builtin", "jemalloc@5.2.1") and not p["proved"]
    } == {}
