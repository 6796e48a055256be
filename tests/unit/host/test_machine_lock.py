"""The machine's lock and the journal of changed settings: who may have it, and what is put back."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dballoc.doctor import examine
from dballoc.experiment.durations_and_sizes import HUGE_PAGE_SIZES
from dballoc.ground.errors import UsageError
from dballoc.host.process.handle import Process
from dballoc.host.settings import machine_lock, settings_journal
from dballoc.host.settings.machine_lock import Hold, LockPlace
from dballoc.host.settings.writable_settings import HOST_SETTINGS, HostSetting, read_setting

VALUES = ("always", "madvise", "never")


@pytest.fixture
def stand_in(tmp_path: Path) -> LockPlace:
    """A machine whose one setting is a file at ``always``."""
    (tmp_path / "enabled").write_text("always")
    return LockPlace(tmp_path / "run", {"thp": HostSetting(str(tmp_path / "enabled"), VALUES)})


@pytest.fixture
def hold(stand_in: LockPlace) -> Iterator[Hold]:
    """Its lock, held alone."""
    held = take(stand_in, exclusive=True)
    yield held
    held.release()


def take(of: LockPlace, exclusive: bool, what: str = "results in /there") -> Hold:
    held = machine_lock.hold(of, exclusive=exclusive, purpose=what)
    assert held
    return held


def value(of: LockPlace) -> str:
    return read_setting(of.settings["thp"].path)


def change(hold: Hold, *values: str) -> None:
    for each in values:
        settings_journal.change_setting(hold.directory, hold.machine.settings, "thp", each)


# -- who has it ----------------------------------------------------------------------------------------------------------------


def test_runs_that_change_nothing_share_it(stand_in: LockPlace) -> None:
    holds = [take(stand_in, exclusive=False) for _ in range(3)]
    with pytest.raises(UsageError, match="under which others are being measured: ") as refused:
        machine_lock.hold(stand_in, exclusive=True, purpose="mine")
    assert "wait until they end, stop them (kill " in str(refused.value)
    assert str(refused.value).endswith(" (tune: --no-thp)")
    for held in holds:
        held.release()
    take(stand_in, exclusive=True).release()


@pytest.mark.parametrize("exclusive", [True, False])
def test_the_second_is_refused_and_told_who_has_it(
    stand_in: LockPlace, hold: Hold, exclusive: bool
) -> None:
    with pytest.raises(machine_lock.HeldByRun) as refused:
        machine_lock.hold(stand_in, exclusive=exclusive, purpose="mine")
    assert f"dballoc (process {os.getpid()}, results in /there)" in str(refused.value)
    assert f"kill {os.getpid()}" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_who_has_patience_gets_it_when_the_other_run_has_ended(
    stand_in: LockPlace, hold: Hold
) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(
            machine_lock.hold, stand_in, exclusive=True, purpose="mine", patience=60.0
        )
        with pytest.raises(TimeoutError):
            waiting.result(0.2)
        hold.release()
        second = waiting.result(60)
    assert second
    second.release()


def test_patience_ends(stand_in: LockPlace, hold: Hold) -> None:
    with pytest.raises(UsageError, match=r"results in /there"):
        machine_lock.hold(stand_in, exclusive=True, purpose="mine", patience=0.1)


def test_it_is_free_when_the_last_that_has_it_is_gone(
    stand_in: LockPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dballoc is killed, and its guardian holds it a while longer: the next waits for that."""
    script = (
        "import os, subprocess, sys\nfrom pathlib import Path\nfrom dballoc.host.settings import machine_lock\n"
        "held = machine_lock.hold(machine_lock.LockPlace(Path(sys.argv[1])), exclusive=True, purpose='x')\n"
        "subprocess.Popen(['/bin/sh', '-c', 'read x'], pass_fds=held.descriptors)\n"
        "print('locked', flush=True)\nos.kill(os.getpid(), 9)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    dead = subprocess.Popen(
        [sys.executable, "-c", script, stand_in.directory],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=env,
    )
    assert dead.stdout is not None
    assert dead.stdin is not None
    assert dead.stdout.readline() == b"locked\n"
    dead.wait()
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            dead.stdin.close()

    monkeypatch.setattr(machine_lock.time, "sleep", sleep)
    take(stand_in, exclusive=True).release()
    assert len(waited) >= 3
    dead.stdout.close()


def test_a_guardian_that_never_ends_is_told_of(
    stand_in: LockPlace, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_lock.Holder, "is_alive", False)
    monkeypatch.setattr(machine_lock, "_PATIENCE", 0.1)
    with pytest.raises(
        machine_lock.HeldByGuardian,
        match=f"still locked by the guardian of dballoc .process {os.getpid()}, .*which has ended",
    ):
        machine_lock.hold(stand_in, exclusive=False, purpose="mine")


def test_a_process_with_the_pid_of_a_dead_one_is_another() -> None:
    us = {
        "pid": os.getpid(),
        "namespace": machine_lock._read_pid_namespace(),
        "exclusive": True,
        "purpose": "",
    }
    assert machine_lock.Holder(**us, started=str(Process.own().started)).is_alive
    assert not machine_lock.Holder(**us, started="1").is_alive
    assert machine_lock.Holder(**us | {"namespace": 1}, started="1").is_alive, "who knows"


def test_notes_of_the_dead_and_things_that_are_none(stand_in: LockPlace, hold: Hold) -> None:
    (stand_in.directory / "holder-0").write_text("{}")
    os.mkfifo(stand_in.directory / "holder-1")
    (stand_in.directory / "holder-2").symlink_to("/etc/passwd")
    assert [h.pid for h in machine_lock.list_holders(hold.directory)] == [os.getpid()]
    assert not (stand_in.directory / "holder-0").exists()
    assert Path("/etc/passwd").exists()


# -- where it is ---------------------------------------------------------------------------------------------------------------


def test_its_directory_is_ours_alone(stand_in: LockPlace, hold: Hold) -> None:
    status = stand_in.directory.stat()
    assert (status.st_uid, status.st_mode & 0o777) == (os.geteuid(), 0o700)


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_link_or_a_file_in_its_place_is_refused(
    stand_in: LockPlace, tmp_path: Path, exclusive: bool
) -> None:
    (tmp_path / "elsewhere").mkdir()
    stand_in.directory.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(
        UsageError, match="not a directory, but dballoc keeps its lock there; remove it"
    ):
        machine_lock.hold(stand_in, exclusive=exclusive, purpose="mine")
    assert not list((tmp_path / "elsewhere").iterdir())
    stand_in.directory.unlink()
    stand_in.directory.write_text("")
    with pytest.raises(UsageError, match="not a directory"):
        machine_lock.hold(stand_in, exclusive=exclusive, purpose="mine")


def test_one_that_others_may_write_is_refused(stand_in: LockPlace) -> None:
    stand_in.directory.mkdir()
    stand_in.directory.chmod(0o777)
    with pytest.raises(
        UsageError,
        match="may be written by others, so a lock in it cannot be trusted; remove it",
    ):
        machine_lock.hold(stand_in, exclusive=False, purpose="mine")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it gives a directory to another user")
def test_another_users_is_refused(stand_in: LockPlace) -> None:
    stand_in.directory.mkdir()
    os.chown(stand_in.directory, 61580, 61580)
    with pytest.raises(UsageError, match="belongs to user 61580"):
        machine_lock.hold(stand_in, exclusive=False, purpose="mine")
    with pytest.raises(UsageError, match="belongs to user 61580"):
        machine_lock.put_back_leftovers(stand_in)


def test_without_a_place_for_it_a_run_that_changes_nothing_goes_on(
    stand_in: LockPlace, tmp_path: Path
) -> None:
    nowhere = LockPlace(tmp_path / "no" / "such" / "run", stand_in.settings)
    assert machine_lock.hold(nowhere, exclusive=False, purpose="mine") is None
    assert machine_lock.put_back_leftovers(nowhere) == []
    with pytest.raises(UsageError, match="dballoc changes host settings only under the lock in it"):
        machine_lock.hold(nowhere, exclusive=True, purpose="mine")


@pytest.mark.parametrize("name", ["lock", "putting-back", "journal.partial"])
def test_a_link_among_its_files_leads_nowhere(
    stand_in: LockPlace, tmp_path: Path, name: str
) -> None:
    stand_in.directory.mkdir(mode=0o700)
    (stand_in.directory / name).symlink_to(tmp_path / "victim")
    try:
        held = take(stand_in, exclusive=True)
    except UsageError:
        assert name != "journal.partial"
    else:
        change(held, "never")
        held.put_back()
        held.release()
    assert not (tmp_path / "victim").exists()


# -- the journal ---------------------------------------------------------------------------------------------------------------


def test_the_journal_is_there_before_the_setting_is_changed(
    hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, settings_journal.Entry]] = []

    def write(path: str, value: str) -> None:
        seen.append(settings_journal.read_journal(hold.directory, hold.machine.settings))
        raise KeyboardInterrupt

    monkeypatch.setattr(settings_journal, "write_setting", write)
    with pytest.raises(KeyboardInterrupt):
        change(hold, "never")
    assert seen == [{"thp": settings_journal.Entry("always", ("never",))}]


def test_the_next_run_puts_back_what_a_dead_one_left(stand_in: LockPlace, hold: Hold) -> None:
    change(hold, "never", "madvise")
    hold.release()  # as the kernel does when all that have it are killed
    assert value(stand_in) == "madvise"
    take(stand_in, exclusive=False).release()
    assert value(stand_in) == "always"
    assert not (stand_in.directory / "journal").exists()


def test_the_doctor_puts_back_what_a_dead_one_left(stand_in: LockPlace, hold: Hold) -> None:
    change(hold, "never")
    hold.release()
    finding = examine.check_host_settings(stand_in)
    assert (finding.state, value(stand_in)) == ("note", "always")
    assert finding.text == (
        f"{stand_in.settings['thp'].path} put back from never to always: a killed run had left it changed"
    )
    assert examine.check_host_settings(stand_in).state == "ok"


def test_the_doctor_leaves_that_of_a_living_one(stand_in: LockPlace, hold: Hold) -> None:
    change(hold, "never")
    finding = examine.check_host_settings(stand_in)
    assert (finding.state, value(stand_in)) == ("ok", "never")
    assert re.search(
        rf"process {os.getpid()}, .* has changed .*enabled \(it was always\); it restores",
        finding.text,
    )


def test_what_somebody_else_has_set_since_is_theirs(stand_in: LockPlace, hold: Hold) -> None:
    change(hold, "never")
    Path(stand_in.settings["thp"].path).write_text("madvise")
    hold.release()
    assert machine_lock.put_back_leftovers(stand_in) == []
    assert value(stand_in) == "madvise"
    assert not (stand_in.directory / "journal").exists()


def test_a_journal_of_an_earlier_boot_says_nothing(stand_in: LockPlace, hold: Hold) -> None:
    change(hold, "never")
    hold.release()
    path = stand_in.directory / "journal"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"boot": "an earlier one"}))
    assert machine_lock.put_back_leftovers(stand_in) == []
    assert value(stand_in) == "never"


@pytest.mark.parametrize(
    "entries",
    [
        {"/etc/passwd": {"before": "x", "written": ["never"]}},
        {"thp": {"before": "root::0:0::/:/bin/sh", "written": ["never"]}},
        {"thp": {"before": "always", "written": ["x"]}},
        {"thp": {"before": "always"}},
        {"thp": 5},
        [],
        "thp",
    ],
)
def test_a_journal_that_dballoc_did_not_write_changes_nothing(
    stand_in: LockPlace, hold: Hold, entries: object
) -> None:
    change(hold, "never")
    hold.release()
    path = stand_in.directory / "journal"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"settings": entries}))
    assert_refused(stand_in)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 60_000, b" " * (1 << 17), b"null"])
def test_a_damaged_journal_is_told_of(stand_in: LockPlace, hold: Hold, data: bytes) -> None:
    change(hold, "never")
    hold.release()
    (stand_in.directory / "journal").write_bytes(data)
    assert_refused(stand_in)


@pytest.mark.parametrize("what", ["fifo", "link", "directory"])
def test_a_journal_that_is_no_file_is_told_of(
    stand_in: LockPlace, tmp_path: Path, hold: Hold, what: str
) -> None:
    change(hold, "never")
    hold.release()
    path = stand_in.directory / "journal"
    path.rename(tmp_path / "kept")
    {
        "fifo": lambda: os.mkfifo(path),
        "link": lambda: path.symlink_to(tmp_path / "kept"),
        "directory": path.mkdir,
    }[what]()
    assert_refused(stand_in)


def assert_refused(of: LockPlace) -> None:
    """By all that would put back; nothing is changed."""
    for exclusive in (True, False):
        with pytest.raises(
            UsageError, match=r"cannot be read: .* restore them, and remove the file"
        ):
            machine_lock.hold(of, exclusive=exclusive, purpose="mine")
    assert examine.check_host_settings(of).state == "warn"
    assert value(of) == "never"


def test_one_that_cannot_be_put_back_stays_in_the_journal(
    stand_in: LockPlace, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(hold, "never")

    def write(path: str, value: str) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(settings_journal, "write_setting", write)
        with pytest.raises(
            OSError, match=r"cannot put .*enabled back to always: Input/output error"
        ):
            hold.put_back()
    hold.release()
    assert [was.before for was in machine_lock.put_back_leftovers(stand_in)] == ["always"]


def test_only_the_kernels_own_files_are_set() -> None:
    directory = "/sys/kernel/mm/transparent_hugepage"
    paths = {name: s.path for name, s in HOST_SETTINGS.items()}
    assert paths["thp"] == f"{directory}/enabled"
    assert paths["thp_defrag"] == f"{directory}/defrag"
    assert paths["thp_16K"] == f"{directory}/hugepages-16kB/enabled"
    assert paths["thp_2M"] == f"{directory}/hugepages-2048kB/enabled"
    assert list(paths) == ["thp", "thp_defrag", *(f"thp_{size}" for size in HUGE_PAGE_SIZES)]
    kernels = re.compile(rf"{directory}/(enabled|defrag|hugepages-[0-9]+kB/enabled)")
    assert all(kernels.fullmatch(path) for path in paths.values())


def test_of_several_settings_all_are_put_back(tmp_path: Path) -> None:
    """Also those behind one that cannot be, and what somebody else has set since stays."""
    files = {name: tmp_path / name for name in ("thp", "thp_defrag", "thp_64K", "thp_2M")}
    for path in files.values():
        path.write_text("always")
    settings = {name: HostSetting(str(path), VALUES) for name, path in files.items()}
    machine = LockPlace(tmp_path / "run", settings)
    held = take(machine, exclusive=True)
    for name in files:
        settings_journal.change_setting(held.directory, settings, name, "never")
    held.release()
    files["thp_2M"].write_text("madvise")
    kept = files["thp"].rename(tmp_path / "kept")
    with pytest.raises(UsageError, match="cannot restore what an earlier run changed: cannot put"):
        machine_lock.put_back_leftovers(machine)
    assert [files[n].read_text().strip() for n in ("thp_defrag", "thp_64K", "thp_2M")] == [
        "always",
        "always",
        "madvise",
    ]
    kept.rename(files["thp"])
    assert [was.path for was in machine_lock.put_back_leftovers(machine)] == [str(files["thp"])]
    assert files["thp"].read_text().strip() == "always"
    assert not (machine.directory / "journal").exists()
