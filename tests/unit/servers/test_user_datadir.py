"""A data directory of the user's: what is refused, and what changes its identity."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dballoc.ground.errors import UsageError
from dballoc.host.abandonable import look_limits
from dballoc.servers import user_datadir
from hostile_files import HostileFiles


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "mysql").mkdir()
    (tmp_path / "mysql/db.frm").write_text("x")
    (tmp_path / "ibdata1").write_text("data")
    return tmp_path


def refused(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        user_datadir.check(path, "data.directory")
    return str(caught.value).removeprefix(f"data.directory {path}: ")


def test_what_is_taken_and_what_is_not(directory: Path, tmp_path: Path) -> None:
    user_datadir.check(directory, "data.directory")
    (directory / "t.isl").write_text("/elsewhere/t.ibd")
    assert refused(directory).startswith("t.isl leads to a table outside of it")
    assert refused(directory / "ibdata1") == "Not a directory"
    assert refused(directory / "mysql") == "not a data directory: no system tables (mysql) in it"


def test_a_server_that_runs_on_it(directory: Path) -> None:
    code = "import fcntl, sys, time; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print('ready', flush=True); time.sleep(60)"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, directory / "ibdata1"], stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout
        holder.stdout.readline()
        assert (
            refused(directory)
            == f"a server (process {holder.pid}) is running on it; stop it, or give a copy"
        )
    finally:
        holder.kill()
        holder.communicate()
    user_datadir.check(directory, "data.directory")
    with (directory / "ibdata1").open("r+") as f:
        fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nothing of ours is in the way


def test_a_backup_that_is_not_prepared(directory: Path) -> None:
    (directory / "xtrabackup_checkpoints").write_text("backup_type = full-backuped\n")
    assert refused(directory).startswith("a backup that is not prepared")
    (directory / "xtrabackup_checkpoints").write_text("backup_type = full-prepared\n")
    user_datadir.check(directory, "data.directory")


def test_identity_changes_with_every_file_that_is_copied(directory: Path) -> None:
    first = user_datadir.identity(directory)
    for name in ("binlog.000001", "host.pid", "ibtmp1", "auto.cnf", "mysqld-auto.cnf"):
        (directory / name).write_text("x")
    assert user_datadir.identity(directory) == first
    assert [p.name for p in user_datadir.parts(directory)] == ["ibdata1", "mysql"]
    os.utime(directory / "mysql/db.frm", ns=(1, 1))
    assert user_datadir.identity(directory) != first


@pytest.mark.parametrize("line", [
    "InnoDB: Starting crash recovery from checkpoint LSN=46590", "[System] [MY-013576] [InnoDB] Starting crash recovery.",
    "InnoDB: Database was not shutdown normally!", "mysqld: Aria engine: starting recovery",
])  # fmt: skip
def test_the_servers_words_for_an_unclean_shutdown(line: str) -> None:
    assert user_datadir.recovered(f"a\n{line}\nb")
    assert not user_datadir.recovered(
        "InnoDB: log sequence number 46590; InnoDB: Initialization completed"
    )


def test_what_its_owner_puts_there_instead_does_not_hang_us(tmp_path: Path) -> None:
    (tmp_path / "mysql").mkdir()
    for name in ("ibdata1", "xtrabackup_checkpoints"):
        os.mkfifo(tmp_path / name)
    assert user_datadir.in_use(tmp_path) is None
    with pytest.raises(UsageError, match="a backup that is not prepared"):
        user_datadir.check(tmp_path, "data.directory")


def test_links_that_lead_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "mysql").mkdir()
    for name in ("a", "b"):
        (tmp_path / name).symlink_to(tmp_path)
    with pytest.raises(
        UsageError, match=r"not a data directory: .* or a link in it leads in a circle"
    ):
        user_datadir.check(tmp_path, "data.directory")


def test_a_servers_current_directory_that_never_answers_is_left_out(
    hostile_files: HostileFiles, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if (file_server := hostile_files.server) is None:
        pytest.skip("needs /dev/fuse")
    monkeypatch.setenv(look_limits.VARIABLE, "3")
    program, directory = tmp_path / "mysqld", tmp_path / "data"
    shutil.copy("/bin/sleep", program)
    directory.mkdir()
    with subprocess.Popen([program, "20"], cwd=hostile_files.mount) as stranger:
        while Path(f"/proc/{stranger.pid}/comm").read_text() != "mysqld\n":
            time.sleep(0.01)
        file_server.send_signal(signal.SIGSTOP)
        # Whoever waits for it goes on then, so that old code ends, too.
        alarm = subprocess.Popen(["sh", "-c", f"sleep 12; kill -CONT {file_server.pid}"])
        began = time.monotonic()
        try:
            assert user_datadir.in_use(directory) is None
            assert time.monotonic() - began < 10
            with subprocess.Popen([program, "20"], cwd=directory) as server:
                while Path(f"/proc/{server.pid}/comm").read_text() != "mysqld\n":
                    time.sleep(0.01)
                assert user_datadir.in_use(directory) == server.pid
                server.kill()
        finally:
            alarm.kill()
            alarm.wait()
            file_server.send_signal(signal.SIGCONT)
            stranger.kill()
