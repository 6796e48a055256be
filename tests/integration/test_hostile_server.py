"""A server that plants links, pipes and set-user-ID programs wherever it may write: what is root's
stays as it was.

The server is a script in front of the real one. It runs as the server user, once for each start.
"""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness import A_USER, Cli, Experiment, rows

from dballoc.host.unprivileged.ownership import hand_over, remove_directory, take_back, take_files
from dballoc.host.unprivileged.server_user import ServerUser, server_user
from dballoc.servers import build as find_build

# What dballoc writes, or has written, beside a server's socket and its data.
NAMES = "client.cnf sysbench.cnf init.sql rehearsal.txt printed.txt workload-own.lua copy.log server.log mysqld.log bootstrap.sql"
HOSTILE = """#!/bin/sh
case " $* " in *" --version "*|*" --help "*|*" --validate-config "*) exec {real} "$@";; esac
for word; do
  case $word in
    --datadir=*) data=${{word#*=}};;
    --socket=*) run=${{word#*=}}; run=${{run%/*}};;
  esac
done
{{
  for place in "$run" "$data" "$data/mysql" "$data/sbtest"; do
    for name in {names}; do ln -s {canary} "$place/$name"; done
    ln -s {directory} "$place/linked"
    mkfifo "$place/pipe"
    cp /bin/true "$place/program" && chmod 6755 "$place/program"
  done
  deep=$data/deep
  for level in $(seq 1 40); do deep=$deep/d; done
  mkdir -p "$deep"
  # To have the whole directory lead elsewhere.
  for place in "$run" "$data" "${{data%/*}}"; do mv "$place" "$place.moved" && ln -s {directory} "$place"; done
}} 2>/dev/null
exec {real} "$@"
"""


@dataclass(frozen=True)
class Canary:
    """What root has, beside which others are: a file, and a directory with one."""

    file: Path
    directory: Path

    def state(self) -> list[tuple[str, int, int, int, float, bytes]]:
        found = []
        for path in (self.file, self.directory, *sorted(self.directory.iterdir())):
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            found.append(
                (str(path), status.st_uid, status.st_gid, status.st_mode, status.st_mtime, content)
            )
        return found


@pytest.fixture
def canary(needs_root: None, home: Path) -> Iterator[Canary]:
    place = home / "canary"
    (place / "directory").mkdir(parents=True)
    place.chmod(0o755)
    made = Canary(place / "file", place / "directory")
    for path in (made.file, made.directory / "inner"):
        path.write_text("root's\n")
        path.chmod(0o600)
    yield made
    shutil.rmtree(place)


@pytest.fixture
def hostile(home: Path, canary: Canary) -> Iterator[Path]:
    """The base directory of such a server."""
    real = find_build.find("mariadb", None)
    place = home / "hostile"
    (place / "bin").mkdir(parents=True)
    (place / "share").symlink_to(real.share)
    script = place / "bin" / "mariadbd"
    script.write_text(
        HOSTILE.format(
            real=real.executable, names=NAMES, canary=canary.file, directory=canary.directory
        )
    )
    script.chmod(0o755)
    yield place
    shutil.rmtree(place)


def others(place: Path) -> list[str]:
    """All below a directory that is not root's, and all that is neither file nor directory."""
    uid, found = os.geteuid(), []
    for directory, directories, files in os.walk(place):
        for path in (Path(directory) / name for name in (*directories, *files)):
            status = path.lstat()
            plain = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
            if status.st_uid != uid or not plain or status.st_mode & (stat.S_ISUID | stat.S_ISGID):
                found.append(f"{path} {status.st_uid} {oct(status.st_mode)}")
    return found


def test_a_campaign_under_it(
    run_cli: Cli,
    tiny_experiment: Experiment,
    fresh_directory: Callable[[], Path],
    canary: Canary,
    hostile: Path,
    out: Path,
) -> None:
    place = fresh_directory()
    (place / "own.sql").write_text("SELECT c FROM sbtest1 WHERE id = {int:1:1000};\n")
    file_ = tiny_experiment(
        workloads=["oltp_read_only", "own"],
        workload={"own": {"sql": str(place / "own.sql")}},
        variant=[{"name": "glibc"}],
        server={"basedir": str(hostile)},
    )
    before = canary.state()
    cache = place / "cache"
    cache.mkdir()
    place.chmod(0o755)
    done = run_cli("bench", file_, "--out", out, env={"DBALLOC_CACHE": str(cache)})
    assert canary.state() == before
    assert done.status == 0, done.text
    assert [row["fault_text"] for row in rows(out, "SELECT fault_text FROM trial")] == [None, None]
    assert others(cache) == []
    assert others(out) == []


def test_a_campaign_leaves_nothing_to_a_later_owner(
    needs_root: None,
    run_cli: Cli,
    tiny_experiment: Experiment,
    fresh_directory: Callable[[], Path],
    out: Path,
) -> None:
    cache = fresh_directory()
    cache.chmod(0o755)
    file_ = tiny_experiment(
        profile="heap", design="both", duet={"warmup": "1s", "slice": "1s", "pairs": 1}, threads=[1]
    )
    done = run_cli("bench", file_, "--out", out, env={"DBALLOC_CACHE": str(cache)})
    assert done.status == 0, done.text
    assert list(cache.glob("templates/*/data/ibdata1"))
    assert list(out.glob("trials/*/server.log"))
    assert others(cache) == []
    assert others(out) == []


def test_a_data_directory_is_read_as_its_owner(
    run_cli: Cli,
    tiny_experiment: Experiment,
    fresh_directory: Callable[[], Path],
    canary: Canary,
    out: Path,
) -> None:
    """One that its owner has put a link into, to a file that only root may read."""
    data = fresh_directory()
    (data / "mysql").mkdir()
    (data / "mysql" / "secret.frm").symlink_to(canary.file)
    for path in (data, data / "mysql"):
        os.chown(path, A_USER, A_USER)
    cache = fresh_directory()
    cache.chmod(0o755)
    changes = {
        "data": {"directory": str(data), "database": "mysql"},
        "variant": [{"name": "glibc"}],
    }
    done = run_cli(
        "bench", tiny_experiment(**changes), "--out", out, env={"DBALLOC_CACHE": str(cache)}
    )
    assert done.status == 1, done.text
    assert f"{data} cannot be copied" in done.stderr
    assert "Permission denied" in done.stderr
    assert not any(path.is_file() and b"root's" in path.read_bytes() for path in cache.rglob("*"))


@pytest.fixture
def planted(canary: Canary, home: Path) -> Iterator[Path]:
    """A directory of the server user's with all that it may have planted in it."""
    place, uid = home / "planted", server_user().uid
    assert uid is not None
    (place / "below").mkdir(parents=True)
    for directory in (place, place / "below"):
        (directory / "plain").write_text("data\n")
        (directory / "program").write_text("#!/bin/sh\n")
        (directory / "link").symlink_to(canary.file)
        (directory / "linked").symlink_to(canary.directory)
        os.link(canary.file, directory / "hard")
        os.mkfifo(directory / "pipe")
        for name in ("plain", "program", "link", "linked", "pipe", ""):
            os.chown(directory / name, uid, uid, follow_symlinks=False)
        (directory / "program").chmod(0o6777)
    yield place
    remove_directory(place)


def test_what_is_taken_back_are_files_and_directories(planted: Path, canary: Canary) -> None:
    before = canary.state()
    assert take_back(planted, server_user()) > 0
    assert {str(path.relative_to(planted)) for path in planted.rglob("*")} == {
        "plain", "program", "below", "below/plain", "below/program",
    }  # fmt: skip
    assert others(planted) == []
    assert (planted / "below/program").stat().st_mode & 0o7002 == 0
    assert canary.state() == before


def test_what_is_handed_over_follows_no_link(planted: Path, canary: Canary) -> None:
    (planted / "hard").unlink()
    (planted / "below/hard").unlink()
    before = canary.state()
    hand_over(planted, ServerUser(12345))
    assert {path.lstat().st_uid for path in (planted, *planted.rglob("*"))} == {12345}
    assert canary.state() == before


def test_only_regular_files_are_taken_out(planted: Path, canary: Canary, home: Path) -> None:
    target = home / "taken"
    target.mkdir()
    try:
        os.unlink(planted / "hard")
        assert take_files(planted, target, "*") == ["plain", "program"]
        assert others(target) == []
    finally:
        shutil.rmtree(target)


def test_a_removal_takes_the_links_alone(planted: Path, canary: Canary) -> None:
    (planted / "hard").unlink()
    (planted / "below/hard").unlink()
    before = canary.state()
    deep = planted
    for _ in range(1200):
        deep = deep / "d"
        os.mkdir(deep) if len(str(deep)) < 4000 else None
    remove_directory(planted)
    assert not planted.exists()
    assert canary.state() == before
