"""A kit: made here, unpacked where nothing of this machine's is to be found, and measured with."""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import BIN, Cli, leftovers, processes_of, rows, wait_until

from dballoc.allocators import find_library
from dballoc.experiment import experiment_file
from dballoc.servers import build as find_build

EXPERIMENT = """
name = "carried"
baseline = "glibc"
workloads = ["oltp_point_select"]
threads = [2]
design = "solo"
blocks = 1
noise = { repeats = 0 }
[server]
options = { innodb_buffer_pool_size = "64M" }
[data]
tables = 1
rows = 1000
[time]
warmup = "1s"
level = "2s"
idle = "0s"
[[variant]]
name = "glibc"
allocator = "glibc"
[[variant]]
name = "jemalloc"
allocator = "jemalloc"
[[variant]]
name = "mine"
preload = ["libmine.so"]
"""
# The stand-in of the portable file's tree.
PYTHON = '#!/bin/sh\nexec {python} -m dballoc "$@"\n'
# Behind it, the command. What only servers and sysbench need is gone, and so is the network.
HIDE = """
for file in $HIDDEN; do mount --bind /dev/null "$file"; done
for directory in $EMPTY; do mount -t tmpfs none "$directory"; done
exec "$@"
"""


def make(run_cli: Cli, place: Path, out: str) -> Path:
    """Make the kit of the experiment in ``place``."""
    made = run_cli(
        "kit", "make", place / "carried.toml", "--portable", place / "python", "--out", place / out,
        env={"SOURCE_DATE_EPOCH": "1000000000"},
    )  # fmt: skip
    assert made.status == 0, made.stderr
    assert "server: mariadb" in made.stdout
    assert "MiB  store/libraries" in made.stdout
    return place / out


@pytest.fixture(scope="module")
def kit(run_cli: Cli, home: Path) -> Path:
    """The archive."""
    place = home / "made"
    (place / "python/bin").mkdir(parents=True)
    program = place / "python/bin/dballoc"
    program.write_text(PYTHON.format(python=sys.executable))
    program.chmod(0o755)
    shutil.copy(find_library.find_allocator("jemalloc").libraries[0], place / "libmine.so")
    (place / "carried.toml").write_text(EXPERIMENT)
    return make(run_cli, place, "kit.tar.gz")


@pytest.fixture
def unpacked(kit: Path, home: Path) -> Iterator[Path]:
    """The kit, unpacked by tar where nothing else is."""
    place = Path(tempfile.mkdtemp(prefix="far-", dir=home))
    place.chmod(0o755)
    subprocess.run(["tar", "xzf", kit, "-C", place], check=True)
    yield place / "dballoc-kit"
    shutil.rmtree(place)


def start(kit: Path, run_cli: Cli, *words: str) -> "subprocess.Popen[str]":
    """Start it with this user's rights; as root where the host has neither network nor parts."""
    hidden = [shutil.which(name, path=BIN) for name in ("mariadbd", "sysbench")]
    names = ("libjemalloc.so.2", "libmariadb.so.3", "libluajit-5.1.so.2", "libaio.so.1")
    hidden += [
        os.fspath(path) for name in names if (path := find_library.find_shared_library(name))
    ]
    env = {
        **{name: value for name, value in run_cli.env.items() if not name.startswith("DBALLOC_")},
        "HIDDEN": " ".join(os.path.realpath(path) for path in hidden if path),
        "EMPTY": " ".join(
            map(str, [find_build.find("mariadb", None).share, "/usr/share/sysbench"])
        ),
    }
    prefix = ["unshare", "--mount", "--net", "sh", "-euc", HIDE, "sh"] if os.geteuid() == 0 else []
    return subprocess.Popen(
        [*prefix, kit / "run", *words],
        env=env, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip


def finish(process: "subprocess.Popen[str]") -> str:
    text, _ = process.communicate(timeout=180)
    assert process.returncode == 0, text
    return text


@pytest.mark.unprivileged
def test_a_kit_measures_with_what_it_carries_alone(unpacked: Path, run_cli: Cli, kit: Path) -> None:
    finish(start(unpacked, run_cli))
    results = unpacked / "results"
    trials = rows(results, "SELECT * FROM trial")
    assert len(trials) == 4
    mapped = {
        word
        for maps in results.glob("trials/*/maps.txt")
        for line in maps.read_text().splitlines()
        if (word := line.split()[-1]).startswith("/")
    }
    assert any(path.endswith("libjemalloc.so.2") for path in mapped)
    assert any(path.endswith("libmine.so") for path in mapped)
    assert not [
        path
        for path in mapped
        if not path.startswith(f"{unpacked}/") and not path.startswith(("/memfd", "/[aio]"))
    ]
    made_of = experiment_file.load_experiment(kit.parent / "carried.toml")
    assert (
        experiment_file.load_experiment(results / "experiment.toml").variant[:2]
        == made_of.variant[:2]
    )
    assert set(os.listdir(unpacked)) == {
        "README.md", "cache", "experiment.toml", "kit.json", "licences", "python", "results", "run", "store", "tmp",
    }  # fmt: skip
    assert leftovers(unpacked) == []
    judged = run_cli("report", results)
    assert judged.status == 0, judged.stderr
    assert "jemalloc" in judged.stdout


@pytest.mark.unprivileged
def test_a_kit_that_was_killed_and_moved_goes_on(unpacked: Path, run_cli: Cli) -> None:
    first = start(unpacked, run_cli)
    wait_until(lambda: len([*unpacked.glob("results/trials/*")]) > 1)  # the first is stored
    first.kill()
    first.communicate()
    wait_until(lambda: not processes_of(unpacked))
    assert leftovers(unpacked) == []
    moved = unpacked.with_name("moved")
    unpacked.rename(moved)
    text = finish(start(moved, run_cli))
    # A block that was cut is repeated whole.
    attempts = [row["attempt"] for row in rows(moved / "results", "SELECT attempt FROM trial")]
    assert attempts.count(max(attempts)) == 4, text
    assert not processes_of(moved)
    assert leftovers(moved) == []


def test_the_same_parts_make_the_same_kit(kit: Path, run_cli: Cli) -> None:
    again = make(run_cli, kit.parent, "again.tar.gz")
    assert again.read_bytes() == kit.read_bytes()


def test_what_is_in_the_archive_is_safe_to_unpack(kit: Path) -> None:
    with tarfile.open(kit) as archive:
        for member in archive:
            assert member.name.split("/")[0] == "dballoc-kit"
            assert member.isreg() or member.isdir() or member.issym()
            assert not {"..", "."} & set(member.name.split("/"))
            assert member.mode in (0o644, 0o755)
