"""What parses foreign files does so without rights, and its end is an error of one line."""

import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dballoc.host.unprivileged import sandbox
from dballoc.host.unprivileged.give_up_rights import choose_parser
from dballoc.host.unprivileged.sandbox import Sandbox, SandboxError
from dballoc.profile.contention import perf_record
from dballoc.profile.contention.mapped_copies import MappedCopies
from hostile_files import HostileFile, HostileFiles

pytestmark = pytest.mark.unprivileged

HERE = os.fspath(Path(__file__).parents[1])
START = f"import sys; sys.path.insert(0, {HERE!r})\n{sandbox._START}"
# In a process of its own: what a sandbox that is started there can do.
ASK = f"""
import json, sys
from dballoc.host.unprivileged import sandbox
sandbox._START = {START!r}
child = sandbox.Sandbox("hostile_sandbox_parser")
with open(sys.argv[1], "rb") as file:
    text = child.call("read_all", [file.fileno()])
names = ("tell_who", "list_capabilities", "try_everything")
print(json.dumps([text, *(child.call(name, []) for name in names)]))
child.close()
"""
# What a container may have: one user alone, and root without what a change of user takes.
ONE_USER = ("unshare", "--user", "--map-root-user")
POD = ("setpriv", "--bounding-set=-all,+sys_ptrace,+dac_override", "--inh-caps=-all")


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """A sandbox that runs tests/unit/hostile_sandbox_parser.py."""
    monkeypatch.setattr(sandbox, "_START", START)
    made = Sandbox("hostile_sandbox_parser")
    yield made
    made.close()


def test_it_reads_what_it_was_handed(child: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "private"
    path.write_text("text")
    path.chmod(0o400)
    with path.open("rb") as file:
        assert child.call("read_all", [file.fileno()]) == "text"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose rights are given up")
def test_it_is_nobody_and_sees_nothing(child: Sandbox) -> None:
    who = child.call("tell_who", [])
    assert 0 not in who
    assert len(who) == 3, "it kept a group"
    outcomes = child.call("try_everything", [])
    assert "done" not in outcomes.values(), outcomes


def test_without_root_it_starts_nothing(child: Sandbox) -> None:
    assert child.call("try_everything", [])["fork"] != "done"


def ask_under(prefix: Sequence[str], path: Path) -> tuple[str, list[int], list[int], dict]:
    """Read a file in a sandbox that a process started so makes: its text, who the sandbox is, which
    capabilities it has, and what its attempts came to.
    """
    if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        pytest.skip(f"this host does not allow: {prefix[0]}")
    words = [*prefix, sys.executable, "-c", ASK, os.fspath(path)]
    text, who, capabilities, outcomes = json.loads(subprocess.check_output(words))
    return text, who, capabilities, outcomes


def test_where_there_is_one_user_it_has_no_capability_and_no_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    text, _, capabilities, outcomes = ask_under(ONE_USER, tmp_path / "file")
    assert (text, capabilities) == ("text", [])
    # It is this namespace's root, without rights. The kernel counts no processes of the host's root,
    # who it also is where that runs the tests.
    harmless = {"become root", "signal its parent", *({"fork"} if os.geteuid() == 0 else ())}
    assert "done" not in [what for name, what in outcomes.items() if name not in harmless], outcomes


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, of which a pod's has a part")
def test_a_pods_root_that_may_not_change_user_has_no_capability(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    text, who, capabilities, outcomes = ask_under(POD, tmp_path / "file")
    assert (text, who[0], capabilities) == ("text", 0, [])
    assert outcomes["look at its parent"] != "done"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, which gives the capability")
def test_a_users_capability_does_not_reach_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "file").chmod(0o644)
    given = ("setpriv", "--inh-caps=+sys_ptrace", "--ambient-caps=+sys_ptrace")
    _, _, capabilities, _ = ask_under(given, tmp_path / "file")
    assert capabilities == []


def test_it_says_why_it_cannot_begin() -> None:
    child = Sandbox("no_such_parser")
    for attempt in (lambda: child.call("anything", []), child.prepare_children):
        with pytest.raises(SandboxError, match=r"cannot begin: No module named 'no_such_parser'"):
            attempt()
    child.close()


def test_without_an_interpreter_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python3")
    with pytest.raises(SandboxError, match=r"cannot be started: .*No such file"):
        Sandbox("hostile_sandbox_parser").call("tell_who", [])


def test_one_prepared_needs_no_interpreter_any_more(
    child: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    child.prepare_children()
    monkeypatch.setattr(sys, "executable", "/nowhere/python3")
    who = child.call("tell_who", [])
    assert 0 not in who
    assert child.call("list_capabilities", []) == []
    outcomes = child.call("try_everything", [])
    assert outcomes["fork"] != "done"
    assert outcomes["look at its parent"] != "done"
    with pytest.raises(SandboxError, match="ended"):
        child.call("crash", [])
    assert child.call("tell_who", []) == who


def test_one_that_was_prepared_ends_though_nobody_may_end_it(child: Sandbox) -> None:
    child.prepare_children()
    pid = child.call("tell_pid", [])
    with pytest.raises(SandboxError, match="too long"):
        child.call("sleep", [], 600, seconds=0.2)
    deadline = time.monotonic() + 60
    while os.path.exists(f"/proc/{pid}"):
        assert time.monotonic() < deadline, "it goes on"
        time.sleep(0.05)


def test_one_whose_cpu_is_used_up_is_replaced(child: Sandbox) -> None:
    child.call("use_up_cpu_limit", [])
    assert child.call("burn", [], 1.5) == 1.5


def test_its_cpu_is_counted(child: Sandbox) -> None:
    child.call("tell_who", [])
    before = child.cpu_seconds
    assert 0 < before < 60
    child.call("burn", [], 0.3)
    assert 0.3 <= child.cpu_seconds - before < 60
    before = child.cpu_seconds
    child.call("tell_who", [])
    assert child.cpu_seconds - before < 0.1


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("crash", "ended"),
        ("shout", "too large"),
        ("take_memory", "memory"),
        ("fail", "^first line$"),
        ("nothing", "nothing"),
    ],
)
def test_its_end_is_one_line_and_the_next_call_is_answered(
    child: Sandbox, function: str, words: str
) -> None:
    with pytest.raises(SandboxError, match=words):
        child.call(function, [])
    assert child.call("tell_who", [])


def test_one_that_hangs_is_ended(child: Sandbox) -> None:
    child.call("tell_who", [])  # started
    began = time.monotonic()
    with pytest.raises(SandboxError, match="too long"):
        child.call("sleep", [], 600, seconds=0.2)
    assert time.monotonic() - began < 60
    assert child.call("tell_who", [])


def test_nothing_of_it_is_left(child: Sandbox) -> None:
    child.call("tell_who", [])
    assert child._child is not None
    process = child._child.process
    assert process is not None
    child.close()
    assert process.returncode is not None


# In the place of perf: its words, its user, and what it can read. It may start no process.
PERF = """#!/bin/sh
echo "$0 $*"
while read -r name _ uid _; do [ "$name" != Uid: ] || echo "$uid"; done </proc/self/status
exec cat "$3" files/lib/x
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose rights perf is not to have")
def test_perf_reads_a_recording_without_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        place = Path(name)
        place.chmod(0o755)
        (place / "perf").write_text(PERF)
        (place / "perf").chmod(0o755)
        monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
        # As in the cache: only root can enter it by its path.
        (place / "cache").mkdir(mode=0o700)
        scratch = place / "cache/scratch"
        scratch.mkdir(mode=0o700)
        file = scratch / "switches.data"
        file.write_text("recorded ")
        copies = MappedCopies(scratch / "files", choose_parser())
        copies.add("/lib/x", lambda _: os.open("/proc/self/comm", os.O_RDONLY))
        with perf_record.run_perf_script(file, scratch / "files") as lines:
            words, who, content = (line.split() for line in lines)
        modes = {
            path.name: stat.S_IMODE(path.stat().st_mode)
            for path in (scratch, *scratch.rglob("*"))
            if not path.name.endswith(".log")
        }
    assert content == ["recorded", Path("/proc/self/comm").read_text().strip()]
    assert not [name for name, mode in modes.items() if mode & 0o027], modes
    assert int(who[0]) not in (0, os.geteuid())
    fields = words[words.index("--fields") + 1].split(",")
    assert "sym" not in fields, "perf is to print addresses alone"


def test_one_whose_file_never_answers_is_left(hostile_files: HostileFiles) -> None:
    """Its parser is in state D: SIGKILL does not end it, so its end is not waited for."""
    if hostile_files.server is None:
        pytest.skip("needs /dev/fuse: a pipe answers SIGKILL")
    path = hostile_files.put("library.so", HostileFile(content=bytes(9999)))
    parser = Sandbox("dballoc.host.elf.elf_parser")
    descriptor = os.open(path, os.O_RDONLY)
    # A read can be killed; what stat waits for cannot.
    hostile_files.put("library.so", HostileFile(content=bytes(9999), waits=("getattr", "read")))
    began = time.monotonic()
    try:
        with pytest.raises(SandboxError, match="it took too long"):
            parser.call("read_build_id", [descriptor], seconds=1.0)
        parser.close()
    finally:
        os.close(descriptor)
    assert time.monotonic() - began < 5
