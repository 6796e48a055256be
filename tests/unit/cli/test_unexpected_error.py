"""The last resort: what nobody expected is one line and a file of details that only we can read,
and never a traceback.
"""

import errno
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from captured_run import run_captured
from dballoc.cli import unexpected_error
from dballoc.ground.errors import Failure, UsageError

pytestmark = pytest.mark.long

Ends = Callable[..., subprocess.CompletedProcess[str]]

# A verb that ends as the test wants it to.
VERB = """
import sys
from dballoc.cli import main, verb_list
import dballoc.cli.verbs.doctor as somewhere
def verb(word: str = "") -> None:
    password = "hunter2"
    {body}
somewhere.doctor = verb
verb_list.VERBS["break"] = verb_list.Verb(module="doctor", summary="")
sys.argv = ["dballoc", "break", "--word", "correct-horse"]
main.main()
"""


@pytest.fixture
def ends(package_path: Path, tmp_path: Path) -> Ends:
    """``ends("raise X", VARIABLE="1")``: how the command ends whose verb does that."""

    def run(body: str, **environment: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "tmp").mkdir(exist_ok=True)
        known = {k: v for k, v in os.environ.items() if k != unexpected_error.VARIABLE}
        env = {
            **known,
            "PYTHONPATH": str(package_path),
            "TMPDIR": str(tmp_path / "tmp"),
            **environment,
        }
        return run_captured([sys.executable, "-c", VERB.format(body=body)], env=env, timeout=60)

    return run


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("dballoc: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_what_nobody_expected_is_one_line_and_a_private_file(ends: Ends, tmp_path: Path) -> None:
    said = one_line(ends("raise ZeroDivisionError('by\\n0')"))
    match = re.fullmatch(
        r"dballoc: internal error: ZeroDivisionError: by 0; details are in (\S+); please report it\n",
        said,
    )
    assert match, said
    path = Path(match[1])
    assert path.parent.parent == tmp_path / "tmp"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    details = path.read_text()
    assert "in verb" in details
    assert "ZeroDivisionError" in details
    assert "hunter2" not in details
    assert "correct-horse" not in details


def test_it_is_a_file_of_its_own_each_time(ends: Ends, tmp_path: Path) -> None:
    for _ in range(2):
        one_line(ends("raise KeyError('x')"))
    assert len(list((tmp_path / "tmp").glob("dballoc-error-*/details.txt"))) == 2


def test_nowhere_to_write_the_details(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(unexpected_error.tempfile, "mkdtemp", full)
    assert unexpected_error.words(KeyError("x")) == (
        "internal error: KeyError: 'x'; set DBALLOC_TRACEBACK=1 and run it again for details; please report it"
    )


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("raise MemoryError", "out of memory"),
        (
            "raise OSError(28, 'No space left on device', '/a/b')",
            "/a/b: no space is left there; make room",
        ),
        ("verb()", "the input nests too deeply"),
        (
            "raise ExceptionGroup('two', [ValueError(1), KeyError(2)])",
            "internal error: ExceptionGroup: two",
        ),
        (r"raise OSError(5, 'Input/output error', b'/a/\xff')", "internal error: OSError: "),
        (r"raise ValueError('a name: \udcff')", r"internal error: ValueError: a name: \udcff"),
        ("raise ValueError('x' * 10**6)", "internal error: ValueError: xxx"),
    ],
)
def test_kinds_of_mishaps(ends: Ends, body: str, says: str) -> None:
    said = one_line(ends(body))
    assert says in said
    assert len(said) < 800


def test_the_traceback_can_be_had(ends: Ends) -> None:
    done = ends("raise ZeroDivisionError", DBALLOC_TRACEBACK="1")
    assert "Traceback (most recent call last)" in done.stderr


def test_ctrl_c_has_no_line(ends: Ends) -> None:
    done = ends("raise KeyboardInterrupt")
    assert (done.returncode, done.stderr) == (130, "")


def test_a_name_that_is_no_utf_8_is_printed_with_escapes(ends: Ends) -> None:
    done = ends(r"print('caf\udce9')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "caf\\udce9\n", "")


@pytest.mark.parametrize("verb", [["list", "experiments"], ["--help"]])
def test_a_full_disk_for_its_output(package_path: Path, verb: list[str], tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(package_path), "TMPDIR": str(tmp_path)}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "dballoc", *verb],
            env=env,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert "no space is left there" in one_line(done)
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_goes_away(package_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(package_path)}
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as gone:
        done = subprocess.run(
            [sys.executable, "-m", "dballoc", "list", "experiments"],
            env=env,
            stdout=gone,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("kind", [UsageError, Failure])
def test_an_error_about_a_file_with_line_breaks_is_one_line(kind: type[Exception]) -> None:
    assert str(kind("f.csv:3: column 'a\nb' appears twice")) == (
        "f.csv:3: column 'a b' appears twice"
    )


def test_an_error_of_a_child_has_its_frames(ends: Ends) -> None:
    said = one_line(
        ends(
            "from dballoc.host.abandonable.answers import ChildError\n"
            "    raise ChildError('KeyError: 7', '  File \"reader.py\", line 5, in read_page\\n')"
        )
    )
    match = re.search(r"internal error: ChildError: KeyError: 7; details are in (\S+);", said)
    assert match, said
    assert "line 5, in read_page" in Path(match[1]).read_text()
