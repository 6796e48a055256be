"""The guardian: what it started ends, what it changed is put back, however dballoc ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dballoc.errors import Failure
from dballoc.host import guardian
from dballoc.host.custody import Child, Custody, Exit

pytestmark = pytest.mark.alone

LAST_PID = Path("/proc/sys/kernel/ns_last_pid")

# Stands in for dballoc: it takes custody, starts things, changes things, and waits to be killed.
PARENT = """
import sys
from pathlib import Path
from dballoc.host.custody import Custody

home = Path(sys.argv[1])
custody = Custody()
scratch = home / "scratch"
custody.scratch(scratch)
(scratch / "deep").mkdir(parents=True)
(scratch / "deep" / "file").write_text("x")
custody.set(str(home / "setting"), "never")
custody.set(str(home / "setting"), "madvise")
stubborn = "trap '' TERM INT HUP; sleep 1000 & wait; sleep 1000"
children = [custody.spawn(["/bin/sh", "-c", stubborn], {"PATH": "/usr/bin:/bin"}, home / "log") for _ in range(2)]
print(custody._process.pid, *(c.pid for c in children), flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Family:
    """dballoc's stand-in with its guardian and two children of that, each a group with a child of its own."""

    parent: "subprocess.Popen[str]"
    guardian: int
    children: list[int]
    home: Path

    @property
    def setting(self) -> str:
        """The host setting, a file here."""
        return (self.home / "setting").read_text()


def alive(pid: int) -> bool:
    """Running, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def group_of(pid: int) -> list[int]:
    """The living processes of a process group."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(words[2]) == pid and words[0] != "Z":
                found.append(int(entry.name))
    return found


def until(what: Callable[[], bool], patience: float = 20) -> bool:
    """Whether it comes true in time."""
    deadline = time.monotonic() + patience
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def family(tmp_path: Path, package_path: Path) -> Iterator[Family]:
    """All of them, running."""
    (tmp_path / "setting").write_text("always")
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, tmp_path], env={**os.environ, "PYTHONPATH": str(package_path)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as parent:  # fmt: skip
        assert parent.stdout is not None
        numbers = [int(word) for word in parent.stdout.readline().split()]
        made = Family(parent, numbers[0], numbers[1:], tmp_path)
        assert until(lambda: all(len(group_of(c)) == 2 for c in made.children))
        assert made.setting == "madvise"
        yield made
        parent.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_when_dballoc_is_killed_nothing_outlives_it(family: Family, number: signal.Signals) -> None:
    family.parent.send_signal(number)
    family.parent.wait(10)
    assert until(lambda: not alive(family.guardian))
    assert not any(group_of(child) for child in family.children), "children that ignore every polite signal, and theirs"
    assert family.setting == "always"
    assert not (family.home / "scratch").exists()


def test_when_the_guardian_is_asked_to_end_it_cleans_up_first(family: Family) -> None:
    os.kill(family.guardian, signal.SIGTERM)
    assert until(lambda: not any(group_of(child) for child in family.children))
    assert until(lambda: family.setting == "always" and not (family.home / "scratch").exists())


def test_what_a_terminal_sends_to_all_does_not_end_the_guardian(family: Family) -> None:
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        os.kill(family.guardian, number)
    assert not until(lambda: not alive(family.guardian), patience=0.3)
    assert all(alive(child) for child in family.children)


def test_when_the_guardian_itself_is_killed_the_kernel_kills_its_children(family: Family) -> None:
    os.kill(family.guardian, signal.SIGKILL)
    assert until(lambda: not any(alive(child) for child in family.children))
    for child in family.children:  # the shells' own sleeps are no server of ours
        for pid in group_of(child):
            os.kill(pid, signal.SIGKILL)


def test_when_the_guardian_is_killed_dballoc_restores_the_host(tmp_path: Path) -> None:
    setting = tmp_path / "setting"
    setting.write_text("always")
    with Custody() as custody:
        custody.set(str(setting), "never")
        os.kill(custody._process.pid, signal.SIGKILL)
        with pytest.raises(Failure, match="dballoc's guardian process was killed; its servers ended with it"):
            custody.scratch(tmp_path / "x")
    assert setting.read_text() == "always"


ENV = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def custody() -> Iterator[Custody]:
    """A guardian of the test's own."""
    with Custody() as made:
        yield made


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [("exit 3", 3, "exit status 3"), ("kill -SEGV $$", -11, "SIGSEGV"), ("true", 0, "exit status 0")],
)
def test_how_a_child_ended(custody: Custody, tmp_path: Path, script: str, status: int, words: str) -> None:
    done = custody.spawn(["/bin/sh", "-c", script], ENV, tmp_path / "log").wait(20)
    assert done is not None
    assert (done.status, done.words) == (status, words)


def test_what_a_child_printed_and_used(custody: Custody, tmp_path: Path) -> None:
    burn = "import time\nprint('hello', flush=True)\nwhile time.process_time() < 0.2: pass"
    done = custody.spawn([sys.executable, "-c", burn], ENV, tmp_path / "log").wait(30)
    assert (tmp_path / "log").read_text() == "hello\n"
    assert done is not None
    assert done.user + done.system == custody.cpu_seconds == pytest.approx(0.25, abs=0.1)


def test_a_child_gets_the_environment_given_and_no_more(custody: Custody, tmp_path: Path) -> None:
    custody.spawn(["/usr/bin/env"], {"ONLY": "this"}, tmp_path / "log").wait(20)
    assert (tmp_path / "log").read_text() == "ONLY=this\n"


def test_a_child_inherits_no_descriptor(custody: Custody, tmp_path: Path) -> None:
    # The guardian's socket in a server's hands would keep it alive; the directory's lock would stay locked.
    custody.spawn(["/bin/ls", "/proc/self/fd"], ENV, tmp_path / "log").wait(20)
    assert (tmp_path / "log").read_text().split() == ["0", "1", "2", "3"]  # 3: ls reads the directory


def test_what_cannot_start_is_said(custody: Custody, tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"cannot spawn /no/such/server: .*No such file or directory"):
        custody.spawn(["/no/such/server"], ENV, tmp_path / "log")


def test_a_stubborn_child_is_killed_after_its_time(custody: Custody, tmp_path: Path) -> None:
    child = custody.spawn(["/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.01; done"], ENV, tmp_path / "log")
    assert until(lambda: (tmp_path / "log").read_text() == "up\n")
    assert child.poll() is None
    assert child.stop(signal.SIGTERM, 0.2).words == "SIGKILL"


def test_a_polite_child_ends_by_itself(custody: Custody, tmp_path: Path) -> None:
    child = custody.spawn(["/bin/sh", "-c", "trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done"], ENV, tmp_path / "log")
    assert until(lambda: (tmp_path / "log").read_text() == "up\n")
    assert child.stop(signal.SIGTERM, 20).status == 7


def test_a_child_that_has_ended_is_never_signalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number may be someone else's by now. Only a child that is not yet reaped is signalled: that number is taken."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "killpg", lambda pid, number: sent.append((pid, number)))
    process = subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True)
    ours = guardian.Guardian(sock=None)
    ours.children[1] = process
    monkeypatch.setattr(ours, "send", lambda message: None)
    ours.do_signal(1, 15)
    assert sent == [(process.pid, 15)]
    process.kill()
    assert until(lambda: not alive(process.pid))
    ours.reap()
    assert ours.children == {}
    ours.do_signal(1, 15)
    ours.end()
    assert sent == [(process.pid, 15)]


def test_stopping_a_child_that_has_ended_tells_how_it_did(custody: Custody, tmp_path: Path) -> None:
    child = custody.spawn(["/bin/true"], ENV, tmp_path / "log")
    assert child.wait(20) == child.stop(signal.SIGKILL, 0)
    child.send(signal.SIGKILL)
    assert isinstance(child.poll(), Exit)


@pytest.mark.skipif(
    not os.access(LAST_PID, os.W_OK), reason="needs to say which PID comes next: root, and a kernel with checkpoint/restore"
)
def test_a_child_with_the_pid_of_an_earlier_one_is_another(custody: Custody, tmp_path: Path) -> None:
    """The kernel gives all PIDs and begins again, after 32,768 processes by default: a night's campaign comes round."""
    first = custody.spawn(["/bin/sh", "-c", "exit 3"], ENV, tmp_path / "log")
    assert (done := first.wait(20)) is not None
    assert done.status == 3

    def again() -> Child | None:
        LAST_PID.write_text(str(first.pid - 1))
        child = custody.spawn(["/bin/sleep", "1000"], ENV, tmp_path / "log")
        if child.pid == first.pid:
            return child
        child.stop(signal.SIGKILL, 0)  # somebody else was first to get it
        return None

    second = next(child for _ in range(100) if (child := again()))
    assert second.poll() is None, "it runs"
    first.send(signal.SIGKILL)
    assert second.wait(0.2) is None, "no signal to the first is its"
    assert second.stop(signal.SIGTERM, 20).words == "SIGTERM"
    assert first.poll() == done


def test_settings_are_restored_on_demand_and_only_once(custody: Custody, tmp_path: Path) -> None:
    setting = tmp_path / "enabled"
    setting.write_text("always")
    custody.set(str(setting), "never")
    custody.restore()
    assert setting.read_text() == "always"
    # What the user changes afterwards is the user's.
    setting.write_text("madvise")
    custody.close()
    assert setting.read_text() == "madvise"


def test_a_setting_in_the_kernels_notation(tmp_path: Path) -> None:
    path = tmp_path / "enabled"
    for text, value in (("always [madvise] never\n", "madvise"), ("[always] madvise never", "always"), ("42\n", "42")):
        path.write_text(text)
        assert guardian.read_setting(str(path)) == value


def test_more_open_files_than_allowed_are_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(guardian.resource, "getrlimit", lambda what: (1024, 4096))
    with pytest.raises(OSError, match=r"it needs 5000 open files, the hard limit is 4096; raise it \(ulimit -Hn"):
        guardian.Guardian(sock=None).do_spawn(["/bin/true"], {}, str(tmp_path / "log"), nofile=5000)


@pytest.mark.usefixtures("needs_root")
def test_a_server_is_an_unprivileged_user_without_groups(custody: Custody, tmp_path: Path) -> None:
    done = custody.spawn(
        ["/bin/cat", "/proc/self/status"], ENV, tmp_path / "log", uid=61580, gid=61580, cpus=[0], nofile=5000,
        oom_score_adj=800, thp_disable=True,
    ).wait(20)  # fmt: skip
    assert done is not None
    assert done.status == 0
    said = dict(line.split(":\t", 1) for line in (tmp_path / "log").read_text().splitlines() if ":\t" in line)
    assert set(said["Uid"].split()) == set(said["Gid"].split()) == {"61580"}
    assert (said["Groups"].strip(), int(said["CapEff"], 16), said["Cpus_allowed_list"]) == ("", 0, "0")
    assert said.get("THP_enabled", "0") == "0"
