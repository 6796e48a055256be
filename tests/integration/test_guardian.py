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

from dballoc.ground.errors import Failure
from dballoc.host.guardian import guardian
from dballoc.host.guardian import guardian_client as our_end
from dballoc.host.guardian.guardian_client import Child, Custody, Exit
from dballoc.host.settings import machine_lock, writable_settings
from dballoc.host.settings.writable_settings import HostSetting
from dballoc.host.unprivileged.server_user import server_user

pytestmark = pytest.mark.alone

LAST_PID = Path("/proc/sys/kernel/ns_last_pid")

# Stands in for dballoc: it takes custody, starts things, changes things, and waits to be killed.
PARENT = """
import sys
from pathlib import Path
from dballoc.host.settings import machine_lock
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.settings.writable_settings import HostSetting

home = Path(sys.argv[1])
stand_in = machine_lock.LockPlace(home / "run", {"thp": HostSetting(str(home / "setting"), ("always", "madvise", "never"))})
hold = machine_lock.hold(stand_in, exclusive=True, purpose="a test")
custody = Custody(hold=hold, adopt=True)
scratch = home / "scratch"
custody.scratch(scratch)
(scratch / "deep").mkdir(parents=True)
(scratch / "deep" / "file").write_text("x")
custody.set("thp", "never")
custody.set("thp", "madvise")
stubborn = "trap '' TERM INT HUP; sleep 1000 & wait; sleep 1000"
children = [custody.spawn(["/bin/sh", "-c", stubborn], {"PATH": "/usr/bin:/bin"}, home / "log") for _ in range(2)]
print(custody._process.pid, *(c.pid for c in children), flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Family:
    """dballoc's stand-in with its guardian and two children of that, each a group with a child of
    its own.
    """

    parent: "subprocess.Popen[str]"
    guardian: int
    children: list[int]
    home: Path

    @property
    def setting(self) -> str:
        """The host setting, a file here."""
        return writable_settings.read_setting(str(self.home / "setting"))


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
        [sys.executable, "-c", PARENT, tmp_path],
        env={**os.environ, "PYTHONPATH": str(package_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
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
    assert not any(group_of(child) for child in family.children), (
        "children that ignore every polite signal, and theirs"
    )
    assert family.setting == "always"
    assert not (family.home / "scratch").exists()


@pytest.mark.parametrize(("age", "ends"), [(0.0, False), (60.0, True)])
def test_a_stamp_that_waited_for_longer_than_the_lease_renews_nothing(
    age: float, ends: bool
) -> None:
    """As where the network went while a block waited for the machine's lock."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    os.write(writer, guardian.STAMP.pack(time.monotonic() - age))
    with Custody(lease=our_end.Lease(reader, 30.0)) as custody:
        assert until(lambda: custody._process.poll() is not None, 20 if ends else 2) is ends
    os.close(reader)
    os.close(writer)


def test_a_directory_that_another_guardian_takes_over_is_that_ones(tmp_path: Path) -> None:
    place = tmp_path / "block"
    with Custody() as second:
        with Custody() as first:
            first.scratch(place)
            first.scratch(tmp_path / "kept")
            place.mkdir()
            second.take_over(place, first)
            (tmp_path / "kept").mkdir()
        assert not (tmp_path / "kept").exists()
        assert place.exists()
    assert not place.exists()


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
    for child in (
        family.children
    ):  # the shells' own sleeps are dballoc's, once it sees that it has no guardian
        for pid in group_of(child):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[machine_lock.Hold]:
    """The lock of a machine with a file for a setting, which is at ``always``."""
    (tmp_path / "enabled").write_text("always")
    stand_in = machine_lock.LockPlace(
        tmp_path / "run",
        {"thp": HostSetting(str(tmp_path / "enabled"), ("always", "madvise", "never"))},
    )
    made = machine_lock.hold(stand_in, exclusive=True, purpose="a test")
    assert made
    yield made
    made.release()


def test_when_the_guardian_is_killed_dballoc_restores_the_host(
    host: machine_lock.Hold, tmp_path: Path
) -> None:
    with Custody(hold=host) as custody:
        custody.set("thp", "never")
        os.kill(custody._process.pid, signal.SIGKILL)
        with pytest.raises(
            Failure, match="dballoc's guardian process was killed; its servers ended with it"
        ):
            custody.scratch(tmp_path / "x")
    assert writable_settings.read_setting(str(tmp_path / "enabled")) == "always"


ENV = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def custody() -> Iterator[Custody]:
    """A guardian of the test's own."""
    with Custody() as made:
        yield made


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [
        ("exit 3", 3, "exit status 3"),
        ("kill -SEGV $$", -11, "SIGSEGV"),
        ("true", 0, "exit status 0"),
    ],
)
def test_how_a_child_ended(
    custody: Custody, tmp_path: Path, script: str, status: int, words: str
) -> None:
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
    # The guardian's socket in a server's hands would keep it alive; the directory's lock would stay
    # locked.
    custody.spawn(["/bin/ls", "/proc/self/fd"], ENV, tmp_path / "log").wait(20)
    assert (tmp_path / "log").read_text().split() == [
        "0",
        "1",
        "2",
        "3",
    ]  # 3: ls reads the directory


def test_what_cannot_start_is_said(custody: Custody, tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"cannot spawn /no/such/server: .*No such file or directory"):
        custody.spawn(["/no/such/server"], ENV, tmp_path / "log")


def test_a_stubborn_child_is_killed_after_its_time(custody: Custody, tmp_path: Path) -> None:
    child = custody.spawn(
        ["/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.01; done"],
        ENV,
        tmp_path / "log",
    )
    assert until(lambda: (tmp_path / "log").read_text() == "up\n")
    assert child.poll() is None
    assert child.stop(signal.SIGTERM, 0.2).words == "SIGKILL"


def test_a_polite_child_ends_by_itself(custody: Custody, tmp_path: Path) -> None:
    child = custody.spawn(
        ["/bin/sh", "-c", "trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done"],
        ENV,
        tmp_path / "log",
    )
    assert until(lambda: (tmp_path / "log").read_text() == "up\n")
    assert child.stop(signal.SIGTERM, 20).status == 7


def test_a_child_that_has_ended_is_never_signalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number may be someone else's by now. Only a child that is not yet reaped is signalled:
    that number is taken.
    """
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
    not os.access(LAST_PID, os.W_OK),
    reason="needs to say which PID comes next: root, and a kernel with checkpoint/restore",
)
def test_a_child_with_the_pid_of_an_earlier_one_is_another(
    custody: Custody, tmp_path: Path
) -> None:
    """The kernel gives all PIDs and begins again, after 32,768 processes by default: a night's
    campaign comes round.
    """
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


def test_settings_are_restored_on_demand_and_only_once(
    host: machine_lock.Hold, tmp_path: Path
) -> None:
    with Custody(hold=host) as custody:
        custody.set("thp", "never")
        custody.restore()
        assert writable_settings.read_setting(str(tmp_path / "enabled")) == "always"
        # What the user changes afterwards is the user's.
        (tmp_path / "enabled").write_text("madvise")
    assert writable_settings.read_setting(str(tmp_path / "enabled")) == "madvise"


def test_a_setting_in_the_kernels_notation(tmp_path: Path) -> None:
    path = tmp_path / "enabled"
    for text, value in (
        ("always [madvise] never\n", "madvise"),
        ("[always] madvise never", "always"),
        ("42\n", "42"),
    ):
        path.write_text(text)
        assert writable_settings.read_setting(str(path)) == value


def test_more_open_files_than_allowed_are_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guardian, "may_raise_limits", lambda: False)
    monkeypatch.setattr(guardian.resource, "getrlimit", lambda what: (1024, 4096))
    with pytest.raises(
        OSError,
        match=r"it needs 5000 open files, but the hard limit is 4096; raise it \(ulimit -Hn",
    ):
        guardian.Guardian(sock=None).do_spawn(["/bin/true"], {}, str(tmp_path / "log"), nofile=5000)


def test_whether_limits_may_be_raised_is_what_the_kernel_says() -> None:
    code = """
import resource
from dballoc.host.guardian import guardian
soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
try:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 4096))
    raised = True
except (OSError, ValueError):
    raised = False
assert guardian.may_raise_limits() == raised, raised
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("needs_root")
def test_a_server_is_an_unprivileged_user_without_groups(custody: Custody, tmp_path: Path) -> None:
    done = custody.spawn(
        ["/bin/cat", "/proc/self/status"],
        ENV,
        tmp_path / "log",
        uid=server_user().uid,
        gid=server_user().uid,
        cpus=[0],
        nofile=5000,
        oom_score_adj=800,
        thp_disable=True,
    ).wait(20)
    assert done is not None
    assert done.status == 0
    said = dict(
        line.split(":\t", 1)
        for line in (tmp_path / "log").read_text().splitlines()
        if ":\t" in line
    )
    assert set(said["Uid"].split()) == set(said["Gid"].split()) == {str(server_user().uid)}
    assert (said["Groups"].strip(), int(said["CapEff"], 16), said["Cpus_allowed_list"]) == (
        "",
        0,
        "0",
    )
    assert said.get("THP_enabled", "0") == "0"
    assert said["NoNewPrivs"].strip() == "1"


# -- what is asked of it -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "env", "said"),
    [
        (["/bin/echo", "a\0b"], ENV, "its argument 1 has a NUL character in it"),
        (["/bin/echo"], {"A\0B": "x"}, "its environment variable A.B has a NUL character in it"),
        (["/bin/echo"], {"A": "x\0y"}, "its environment variable A has a NUL character in it"),
        (["/bin/echo"], {"A=B": "x"}, "illegal environment variable name"),
        (["/bin/echo", "\ud800"], ENV, "surrogates not allowed"),
        (["/bin/echo", "x" * (1 << 18)], ENV, "Argument list too long"),
        (["/bin/echo"], {str(n): "x" * 100_000 for n in range(100)}, "Argument list too long"),
    ],
)
def test_what_no_program_can_be_given_is_one_line_and_ends_nothing(
    custody: Custody, tmp_path: Path, argv: list[str], env: dict[str, str], said: str
) -> None:
    other = custody.spawn(["/bin/sleep", "1000"], ENV, tmp_path / "log")
    with pytest.raises(Failure, match=said) as refused:
        custody.spawn(argv, env, tmp_path / "log")
    assert len(str(refused.value).splitlines()) == 1
    assert len(str(refused.value)) < 600
    assert other.poll() is None
    done = custody.spawn(["/bin/sh", "-c", "exit 3"], ENV, tmp_path / "log").wait(20)
    assert done is not None
    assert done.status == 3


def test_an_environment_as_large_as_the_kernel_takes(custody: Custody, tmp_path: Path) -> None:
    """A datagram between the two is refused from about 200 kB on; the kernel takes 2 MB, and 128 kB
    of each.
    """
    large = {f"V{number:02}": "x" * 120_000 for number in range(15)}
    done = custody.spawn(["/usr/bin/env"], large, tmp_path / "log").wait(20)
    assert done is not None
    assert done.status == 0
    assert (tmp_path / "log").stat().st_size == sum(len(f"{k}={v}\n") for k, v in large.items())


@pytest.mark.parametrize(
    "request_",
    [
        b"not JSON", b"null", b"[]", b"{}", b'{"id": 1000}', b'{"id": 1000, "do": "spawn"}', b'{"id": 1000, "do": "no such", "with": {}}',
        b'{"id": 1000, "do": "spawn", "with": {"argv": 3, "env": [], "stdout": null}}', b'{"id": 1000, "do": "spawn", "with": 4}',
        b'{"id": 1000, "do": 5, "with": {}}', b'{"id": 1000, "do": "signal", "with": {"child": [], "number": 15}}', b"\xff\xfe",
        b"[" * 50_000, b'{"id": 1000, "do": "spawn", "with": {"argv": ["/bin/true"], "env": {}, "stdout": "/a\\u0000b"}}',
    ],
)  # fmt: skip
def test_a_request_that_is_none_does_not_end_it(
    custody: Custody, tmp_path: Path, request_: bytes
) -> None:
    custody._sock.send(request_)
    done = custody.spawn(["/bin/sh", "-c", "exit 3"], ENV, tmp_path / "log").wait(20)
    assert done is not None
    assert done.status == 3


def test_it_writes_no_setting_that_is_not_known(host: machine_lock.Hold, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("x")
    with Custody(hold=host) as custody:
        for name, value in (
            (str(tmp_path / "other"), "never"),
            ("../other", "never"),
            ("thp", "no such mode"),
        ):
            with pytest.raises(Failure, match="dballoc never sets "):
                custody.set(name, value)
    assert (tmp_path / "other").read_text() == "x"
    assert writable_settings.read_setting(str(tmp_path / "enabled")) == "always"


def test_without_the_lock_to_itself_it_changes_nothing(
    custody: Custody, tmp_path: Path, host: machine_lock.Hold
) -> None:
    with pytest.raises(Failure, match="cannot set thp to never: the machine's lock is not held"):
        custody.set("thp", "never")
    host.release()
    shared = machine_lock.hold(host.machine, exclusive=False, purpose="a test")
    with (
        Custody(hold=shared) as another,
        pytest.raises(Failure, match="the machine's lock is not held"),
    ):
        another.set("thp", "never")
    assert shared
    shared.release()
    assert writable_settings.read_setting(str(tmp_path / "enabled")) == "always"


# -- children of children ------------------------------------------------------------------------------------------------------

# A shell whose grandchild has a session of its own and ignores what is polite; the shell goes on
# until it is told to end.
DAEMON = """
import os, signal, sys, time
for n in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(n, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        with open(sys.argv[1] + ".partial", "w") as f:
            f.write(str(os.getpid()))
        os.rename(sys.argv[1] + ".partial", sys.argv[1])
        time.sleep(1000)
    os._exit(0)
os.wait()
# Whoever ends takes its daemon along, perhaps before that has written.
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
if sys.argv[2] == "stay":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(1000)
"""


def daemon_of(custody: Custody, home: Path, name: str, then: str) -> tuple[Child, int]:
    """A child with a daemon, and that one's PID."""
    child = custody.spawn([sys.executable, "-c", DAEMON, str(home / name), then], ENV, home / "log")
    assert until((home / name).exists)
    return child, int((home / name).read_text())


def test_what_a_child_leaves_behind_ends_with_it(custody: Custody, tmp_path: Path) -> None:
    child, daemon = daemon_of(custody, tmp_path, "first", "stay")
    other, others = daemon_of(custody, tmp_path, "second", "stay")
    assert alive(daemon)
    assert os.getsid(daemon) not in (os.getsid(child.pid), os.getsid(0))
    child.stop(signal.SIGTERM, 20)
    assert not alive(daemon), "it is gone before its parent's end is told"
    assert alive(others), "another child's is left alone"
    assert other.poll() is None


def test_what_a_child_that_ends_by_itself_leaves_behind(custody: Custody, tmp_path: Path) -> None:
    child, daemon = daemon_of(custody, tmp_path, "first", "end")
    assert child.wait(20)
    assert not alive(daemon)


def test_what_dies_behind_a_living_child_is_no_zombie_of_the_guardian(
    custody: Custody, tmp_path: Path
) -> None:
    child, daemon = daemon_of(custody, tmp_path, "first", "stay")
    os.kill(daemon, signal.SIGKILL)
    assert until(lambda: not alive(daemon))
    assert child.poll() is None
    child.stop(signal.SIGTERM, 20)
    assert until(lambda: not Path(f"/proc/{daemon}").exists()), "reaped"


def test_what_runs_away_from_its_child_by_forking_again_and_again(
    custody: Custody, tmp_path: Path
) -> None:
    """Each is another process in another session, and its parent is gone at once."""
    runaway = (
        "import os, sys, time\nif os.fork() == 0:\n  while True:\n    os.setsid()\n"
        "    with open(sys.argv[1], 'a') as f: f.write('x')\n    if os.fork(): os._exit(0)\ntime.sleep(0.3)"
    )
    assert custody.spawn(
        [sys.executable, "-c", runaway, str(tmp_path / "beats")], ENV, tmp_path / "log"
    ).wait(20)
    beats = (tmp_path / "beats").stat().st_size
    assert beats > 10
    assert not until(lambda: (tmp_path / "beats").stat().st_size > beats, patience=0.3)


def test_at_the_end_nothing_of_any_child_is_left(tmp_path: Path) -> None:
    with Custody() as custody:
        daemons = [daemon_of(custody, tmp_path, name, "stay")[1] for name in ("first", "second")]
    assert not any(map(alive, daemons))


def test_when_dballoc_is_killed_no_grandchild_outlives_it(
    tmp_path: Path, package_path: Path
) -> None:
    parent, _, daemon = orphanage(tmp_path, package_path)
    parent.kill()
    parent.wait(20)
    assert until(lambda: not alive(daemon))


def test_when_the_guardian_is_killed_dballoc_ends_its_grandchildren(
    tmp_path: Path, package_path: Path
) -> None:
    parent, guardian_, daemon = orphanage(tmp_path, package_path)
    os.kill(guardian_, signal.SIGKILL)
    assert parent.stdin is not None
    parent.stdin.close()  # now it asks its guardian for something
    assert parent.wait(20) == 0
    assert not alive(daemon)


# Has a child with a daemon, and a process of its own, which is none of the guardian's.
ORPHANAGE = """
import subprocess, sys, time
from pathlib import Path
from dballoc.ground.errors import Failure
from dballoc.host.guardian.guardian_client import Custody

home, daemon = Path(sys.argv[1]), sys.argv[2]
own = subprocess.Popen(["/bin/sleep", "1000"])
custody = Custody(adopt=True)
custody.spawn([sys.executable, "-c", daemon, str(home / "daemon"), "stay"], {"PATH": "/usr/bin:/bin"}, home / "log")
while not (home / "daemon").exists():
    time.sleep(0.01)
print(custody._process.pid, (home / "daemon").read_text(), flush=True)
sys.stdin.read()
try:
    custody.scratch(home / "x")
except Failure:
    sys.exit(1 if own.poll() is not None else own.kill() or 0)
"""


def orphanage(home: Path, package_path: Path) -> "tuple[subprocess.Popen[str], int, int]":
    """dballoc's stand-in, its guardian, and a daemon of a child's."""
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHANAGE, home, DAEMON],
        env={**os.environ, "PYTHONPATH": str(package_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    guardian_, daemon = (int(word) for word in parent.stdout.readline().split())
    assert alive(daemon)
    return parent, guardian_, daemon


# -- one that hangs ------------------------------------------------------------------------------------------------------------


def test_a_guardian_that_hangs_at_its_end_does_not_hang_dballoc(
    host: machine_lock.Hold,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("_END", "_ANSWER"):
        monkeypatch.setattr(our_end, name, 0.3)
    monkeypatch.setattr(our_end.guardian, "END_PATIENCE", 0.3)
    custody = Custody(hold=host)
    monkeypatch.setattr(our_end, "_ANSWER", 20.0)
    custody.set("thp", "never")
    (tmp_path / "scratch").mkdir()
    custody.scratch(tmp_path / "scratch")
    child = custody.spawn(["/bin/sleep", "1000"], ENV, tmp_path / "log")
    os.kill(custody._process.pid, signal.SIGSTOP)
    custody.close()
    assert "dballoc: its guardian process hangs, and is killed" in capsys.readouterr().err
    assert writable_settings.read_setting(str(tmp_path / "enabled")) == "always"
    assert not (tmp_path / "scratch").exists()
    assert until(lambda: not alive(child.pid))


def test_a_guardian_that_does_not_answer_is_a_failure(
    host: machine_lock.Hold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Custody(hold=host) as custody:
        custody.set("thp", "never")
        os.kill(custody._process.pid, signal.SIGSTOP)
        monkeypatch.setattr(our_end, "_ANSWER", 0.2)
        with pytest.raises(
            Failure, match="guardian process did not answer for 0 s; run the same command to resume"
        ):
            custody.restore()
        assert writable_settings.read_setting(str(tmp_path / "enabled")) == "always"


def test_host_state_is_restored_before_anyone_is_waited_for(
    host: machine_lock.Hold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that is stuck in the kernel does not die of SIGKILL: here it is one that is never
    found dead.
    """
    process = subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True)
    ours = guardian.Guardian(None, host.directory, dict(host.machine.settings))
    monkeypatch.setattr(ours, "send", lambda message: None)
    ours.children[1] = process
    ours.do_set("thp", "never")
    at_the_wait: list[str] = []
    monkeypatch.setattr(guardian, "END_PATIENCE", 0.2)
    monkeypatch.setattr(
        guardian.reaping,
        "reap_if_ended",
        lambda pid: at_the_wait.append(writable_settings.read_setting(str(tmp_path / "enabled"))),
    )
    said: list[str] = []
    monkeypatch.setattr(guardian, "complain", said.append)
    (tmp_path / "scratch").mkdir()
    ours.do_scratch(str(tmp_path / "scratch"))
    ours.end()
    process.wait()
    assert set(at_the_wait) == {"always"}
    assert said == [
        f"process {process.pid} does not die even of SIGKILL; it is stuck in the kernel"
    ]
    assert not (tmp_path / "scratch").exists()


def test_a_users_loader_variables_do_not_reach_its_interpreter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LD_PRELOAD", "libc.so.6")
    monkeypatch.setenv("GUARDIAN_TEST", "kept")
    with Custody() as custody:
        given = Path(f"/proc/{custody._process.pid}/environ").read_bytes()
    assert b"GUARDIAN_TEST=kept" in given
    assert b"LD_PRELOAD" not in given
