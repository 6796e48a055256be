"""Commands that others made, run only to be asked: as whom, with what, and for how long."""

import os
import re
import sys
import time
from pathlib import Path

import pytest

import dballoc
from dballoc.host.guardian import reaping
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.process.handle import Process
from dballoc.host.unprivileged.run_unprivileged import Unanswered, run_unprivileged
from dballoc.host.unprivileged.server_user import (
    ServerUser,
    read_owner_and_parent,
    server_user,
)
from hostile_files import HostileFile, HostileFiles

STATUS = ("/bin/cat", "/proc/self/status")


def status_fields() -> dict[str, str]:
    answer = run_unprivileged(STATUS)
    assert answer.status == 0
    return {
        name: value.strip()
        for name, _, value in (line.partition(":") for line in answer.stdout.splitlines())
    }


def test_it_runs_without_rights() -> None:
    fields = status_fields()
    assert fields["NoNewPrivs"] == "1"
    if os.geteuid() == 0:
        uid = str(server_user().uid)
        assert set(fields["Uid"].split()) == set(fields["Gid"].split()) == {uid}
        assert uid != "0"
        assert fields["Groups"] == ""
        assert int(fields["CapEff"], 16) == int(fields["CapPrm"], 16) == 0


def test_it_sees_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "42")
    answer = run_unprivileged(["/usr/bin/env"], {"GIVEN": "1"})
    assert sorted(line.partition("=")[0] for line in answer.stdout.splitlines()) == [
        "GIVEN",
        "PATH",
    ]


def test_it_has_no_input_and_our_directory_is_not_its_own() -> None:
    answer = run_unprivileged(["/bin/sh", "-c", "pwd; cat; ulimit -c"])
    assert answer.stdout.split() == ["/", "0"]


def test_what_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(Unanswered, match="no answer in"):
        run_unprivileged(["/bin/sh", "-c", "sleep 1000 & sleep 1000"], patience=0.5)
    assert time.monotonic() - began < 30


def test_a_child_that_leaves_its_session_is_ended_too() -> None:
    began = time.monotonic()
    answer = run_unprivileged(["/bin/sh", "-c", "setsid sleep 1000 & echo $!"], patience=600)
    assert time.monotonic() - began < 300
    if os.geteuid() == 0:
        assert read_owner_and_parent(Process.at(int(answer.stdout))) is None


def test_who_adopts_orphans_is_left_as_it_was() -> None:
    assert not reaping.is_subreaper(), (
        "an earlier test has left this process the adopter of orphans"
    )
    with Custody(adopt=True):
        assert reaping.is_subreaper()
        assert run_unprivileged(["/bin/true"]).status == 0
        assert reaping.is_subreaper(), "a campaign whose guardian is killed would lose its orphans"
    assert not reaping.is_subreaper()
    run_unprivileged(["/bin/true"])
    assert not reaping.is_subreaper()


def test_what_prints_without_end_is_ended() -> None:
    with pytest.raises(Unanswered, match="prints more than"):
        run_unprivileged(
            [sys.executable, "-I", "-S", "-c", "import os\nwhile True: os.write(1, b'x' * 65536)"]
        )


def test_what_cannot_be_started_is_said() -> None:
    with pytest.raises(Unanswered, match="No such file or directory"):
        run_unprivileged(["/nowhere/server", "--version"])


def test_its_end_and_both_streams_come_back() -> None:
    answer = run_unprivileged(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (answer.status, answer.stdout, answer.stderr) == (3, "out\n", "err\n")


# What starts processes in another way than by run_unprivileged or a guardian, and what.
OTHER_WAYS = {
    "allocators/find_library.py": "ldconfig",
    "campaign/elsewhere/ray_node.py": "dballoc itself",
    "fetch/clients/debian_apt.py": "apt-config",
    "load/hammerdb_driver.py": "HammerDB; it runs as the server user itself",
    "fetch/unpack/archive_members.py": "dpkg-deb and zstd, as the parser user",
}


def test_nothing_of_others_is_run_past_it() -> None:
    root = Path(dballoc.__file__).parent
    rooms = ("allocators", "campaign", "experiment", "fetch", "load", "servers")
    files = [path for room in rooms for path in (root / room).rglob("*.py")]
    found = {
        str(path.relative_to(root))
        for path in files
        if re.search(r"^import subprocess$", path.read_text(), re.MULTILINE)
    }
    assert found <= set(OTHER_WAYS)
    loads = {str(path.relative_to(root)) for path in files if "CDLL(" in path.read_text()}
    # In the texts that a throwaway process gets, and prctl.
    assert loads <= {
        "allocators/reported_tunables.py",
        "allocators/find_library.py",
        "load/hammerdb_driver.py",
    }


def test_one_that_sigkill_does_not_end_is_left(hostile_files: HostileFiles) -> None:
    if hostile_files.server is None:
        pytest.skip("needs /dev/fuse: who waits for a pipe ends by SIGKILL")
    silent = hostile_files.put("silent", HostileFile(content=b"x", waits=("getattr",)))
    began = time.monotonic()
    with pytest.raises(Unanswered, match="no answer in 1 s"):
        run_unprivileged(["/usr/bin/stat", silent], patience=1, user=ServerUser(None))
    assert time.monotonic() - began < 15
