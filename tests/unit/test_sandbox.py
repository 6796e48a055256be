"""What parses foreign files does so without rights, and its end is an error of one line."""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dballoc.host.unprivileged import sandbox
from dballoc.host.unprivileged.sandbox import Sandbox, SandboxError
from dballoc.profile.contention import perf_record

pytestmark = pytest.mark.unprivileged


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """A sandbox that runs tests/unit/hostile_sandbox_parser.py."""
    here = os.fspath(Path(__file__).parent)
    monkeypatch.setattr(
        sandbox, "_START", f"import sys; sys.path.insert(0, {here!r})\n{sandbox._START}"
    )
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
    process = child._process
    assert process is not None
    child.close()
    assert process.returncode is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose rights perf is not to have")
def test_perf_reads_a_recording_without_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        place = Path(name)
        place.chmod(0o755)
        (place / "perf").write_text('#!/bin/sh\necho "$0 $*"\nexec id -u\n')
        (place / "perf").chmod(0o755)
        monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
        (place / "scratch").mkdir()
        file = place / "scratch/switches.data"
        file.write_bytes(b"")
        with perf_record.run_perf_script(file) as lines:
            words, who = (line.split() for line in lines)
    assert int(who[0]) not in (0, os.geteuid())
    fields = words[words.index("--fields") + 1].split(",")
    assert "sym" not in fields, "perf is to print addresses alone"
