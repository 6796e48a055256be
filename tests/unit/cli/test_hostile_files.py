"""Files that are damaged or made to do harm, given to the real command: one line, exit status 1 or
2, and little memory.
"""

import copy
import gzip
import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from example_explanations import look
from example_profiles import heap

from captured_run import run_captured
from dballoc.cli import main
from dballoc.explain.output import saved_snapshots
from dballoc.profile.formats import profile_file

pytestmark = pytest.mark.long


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Done]
MIB = 1 << 20
GOOD = saved_snapshots.make_document(look())


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """``command("report", DIR)``: the real command in this process. What it does not expect comes
    out as an exception.
    """
    environment = {
        "HOME": tmp_path / "home",
        "TMPDIR": tmp_path,
        "DBALLOC_CACHE": tmp_path,
        "DBALLOC_TRACEBACK": "1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, str(value))

    def run(*words: object) -> Done:
        arguments = [os.fsdecode(w) if isinstance(w, bytes | Path) else str(w) for w in words]
        monkeypatch.setattr(sys, "argv", ["dballoc", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main.main()
        said = capsys.readouterr()
        said.out.encode(errors="strict" if words[0] != "report" else "backslashreplace")
        return Done(int(ended.value.code or 0), said.out, said.err)

    return run


@pytest.fixture
def limited(package_path: Path, tmp_path: Path) -> Command:
    """``limited(BYTES, "explain", …)``: the same in a process of its own, with no more address
    space than that.
    """
    env = {**os.environ, "PYTHONPATH": str(package_path), "TMPDIR": str(tmp_path)}

    def run(most: int, *words: object) -> Done:
        ended = run_captured(
            [sys.executable, "-m", "dballoc", *map(str, words)],
            env=env,
            timeout=300,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
        )
        return Done(ended.returncode, ended.stdout, ended.stderr)

    return run


def refused(done: Done, *says: str, status: tuple[int, ...] = (1, 2)) -> str:
    assert done.returncode in status, done.stderr + done.stdout[-500:]
    assert done.stderr.startswith("dballoc: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert "internal error" not in done.stderr, done.stderr
    for words in says:
        assert words in done.stderr
    return done.stderr


def changed(*path: object, to: Any) -> dict[str, Any]:
    document = copy.deepcopy(GOOD)
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return document


LOOKS: list[tuple[str, bytes, str]] = [
    ("no memory", json.dumps(changed("rss", to=0)).encode(), "rss: 0"),
    ("10^400", json.dumps(changed("rss", to=10**400)).encode(), "is too large"),
    (
        "5000 digits",
        json.dumps(GOOD).encode().replace(b'"rss": ', b'"rss": ' + b"9" * 5000),
        "is too large",
    ),
    ("2^63", json.dumps(changed("rss", to=2**63)).encode(), "larger than any memory"),
    (
        "float overflow",
        json.dumps(GOOD).encode().replace(b'"seconds": ', b'"seconds": 1e999, "s": '),
        "is not a finite number",
    ),
    ("infinity", json.dumps(changed("taken", to=float("inf"))).encode(), "is not a finite number"),
    ("a date beyond all", json.dumps(changed("taken", to=1e300)).encode(), "is not a time"),
    ("deep", b"[" * 100_000, "nests too deeply"),
    (
        "deep within",
        json.dumps(GOOD)
        .encode()
        .replace(b'"answer": ', b'"x": ' + b"[" * 900 + b"]" * 900 + b', "answer": '),
        "nests too deeply",
    ),
    ("another kind", json.dumps(changed("lines", to={"a": 1})).encode(), "lines: "),
    ("no list of bounds", json.dumps(changed("bounds", to=[1])).encode(), "bounds"),
    ("a page of zeros", bytes(4096), "not a snapshot"),
    ("not UTF-8", json.dumps(GOOD, ensure_ascii=False).encode("utf-16"), "not UTF-8"),
]


@pytest.mark.parametrize("gzipped", [False, True])
@pytest.mark.parametrize(("content", "says"), [pytest.param(c, s, id=i) for i, c, s in LOOKS])
def test_a_saved_look(
    command: Command, tmp_path: Path, content: bytes, says: str, gzipped: bool
) -> None:
    path = tmp_path / ("a.json.gz" if gzipped else "a.json")
    path.write_bytes(gzip.compress(content) if gzipped else content)
    refused(command("explain", "--from", path), str(path), says, status=(2,))


def test_the_look_that_the_refusals_change_is_shown(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(json.dumps(GOOD))
    assert command("explain", "--from", tmp_path / "a").returncode == 0


def test_half_a_character_in_a_look_is_printed_as_what_it_is_not(
    command: Command, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text(
        json.dumps(changed("executable", to="/usr/\ud800/mariadbd") | {"answer": "\udfff!"})
    )
    for more in (
        [],
        ["--json"],
        ["--openmetrics"],
        ["--html", tmp_path / "a.html"],
        ["--save", tmp_path / "b"],
    ):
        done = command("explain", "--from", tmp_path / "a", *more)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_difference_from_a_broken_look(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(json.dumps(GOOD))
    (tmp_path / "b").write_text(json.dumps(changed("rss", to="much")))
    refused(command("explain", "--diff", tmp_path / "a", tmp_path / "b"), "rss: ", status=(2,))


BOMBS = {
    "one line": b"[" * (300 * MIB),
    "lines": b"\n" * (300 * MIB),
    "blanks": b'{"a": ' + b" " * (300 * MIB),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_bomb_takes_little_memory(limited: Command, tmp_path: Path, kind: str) -> None:
    """300 KB that unpack to 300 MB: read under a limit of address space that the command by itself
    nearly fills.
    """
    packed = gzip.compress(BOMBS[kind], 9, mtime=0)
    assert len(packed) < 400_000
    look_, profile = tmp_path / "a.json.gz", tmp_path / "a.profile.json.gz"
    look_.write_bytes(packed)
    profile.write_bytes(packed)
    most = 1400 * MIB
    refused(limited(most, "explain", "--from", look_), str(look_), status=(2,))
    refused(
        limited(most, "profile", "diff", profile, profile),
        str(profile),
        "unpacks to more than",
        status=(2,),
    )


def profile_cases() -> list[tuple[str, bytes, str]]:
    def packed(document: dict[str, Any]) -> bytes:
        return gzip.compress(json.dumps(document).encode())

    whole: dict[str, Any] = {
        "format": "dballoc profile 1",
        "title": "t",
        "values": [["live", "bytes", "live bytes"]],
        "taken": 0,
        "seconds": 0,
        "facts": {},
        "frames": [["main", "m", True, "", 0]],
        "samples": [[[0], [1.0], False, {}]],
    }
    good = packed(whole)
    return [
        ("corrupt gzip", good[:30] + b"\xff" * 20 + good[50:], "gzip"),
        ("cut gzip", good[:-9], "cut short"),
        ("gzip with garbage", good + b"garbage", "gzip"),
        ("no gzip", b"plain", "gzip"),
        ("nothing", b"", "not a profile"),
        ("deep", gzip.compress(b"[" * 100_000), "not a profile"),
        ("10^400", packed(whole | {"seconds": 10**400}), "seconds"),
        ("2^63", packed(whole | {"frames": [["main", "m", True, "", 2**63]]}), "frames.0.4"),
        ("a huge value", packed(whole | {"samples": [[[0], [1e308], False, {}]]}), "samples.0.1.0"),
        (
            "a variance below 0",
            packed(
                whole
                | {
                    "values": [["live", "bytes", "live"], ["live.variance", "bytes²", "variance"]],
                    "samples": [[[0], [1.0, -1.0], False, {}]],
                }
            ),
            "variance below 0",
        ),
        (
            "a surrogate",
            gzip.compress(json.dumps(whole | {"title": "\ud800"}).encode()),
            "not a profile",
        ),
    ]


@pytest.mark.parametrize(
    ("content", "says"), [pytest.param(c, s, id=i) for i, c, s in profile_cases()]
)
def test_a_profile(command: Command, tmp_path: Path, content: bytes, says: str) -> None:
    path, good = tmp_path / "bad.profile.json.gz", tmp_path / "good.profile.json.gz"
    path.write_bytes(content)
    profile_file.save_profile(heap(), good)
    refused(command("profile", "diff", good, path), str(path), says, status=(2,))
    refused(command("profile", "export", path, "--format", "collapsed"), str(path), status=(2,))


EXPERIMENT = 'name = "x"\nbaseline = "glibc"\nworkloads = ["oltp_read_only"]\nthreads = [1]\n%s\n[[variant]]\nname = "glibc"\n'
EXPERIMENTS = [
    ("NUL", 'server.options = { a = "x\\u0000y" }', "NUL"),
    ("2^63", "blocks = 9223372036854775808", "blocks: a number that is too large"),
    ("10^400", f"seed = 1{'0' * 400}", "seed: a number that is too large"),
    ("5000 digits", f"seed = {'9' * 5000}", "not TOML"),
    ("too many blocks", "blocks = 1000000000", "blocks"),
    ("a duration beyond all", f'budget = "{"9" * 400}s"', "budget"),
    ("a duration too long", 'budget = "999999999h"', "ten years"),
    ("a size beyond all", f'limits.memory = "{"9" * 400}G"', "limits.memory"),
    ("a size too large", 'limits.memory = "99999999T"', "more than any machine has"),
    ("infinity", "noise.steal = inf", "noise.steal"),
    ("not a number", "noise.steal = nan", "noise.steal"),
    ("deep", "a = " + "[" * 50_000, "nests too deeply"),
    ("deep tables", "a = " + "{a=" * 5_000, "nests too deeply"),
    ("a long key", "a" + ".a" * 100_000 + " = 1", "a key of more than 50 parts"),
    ("CPUs beyond all", 'cpu.server = "0-99999999999"', "cpu.server"),
    ("a long wrong value", f'levels = "{"x" * 100_000}"', "levels"),
    ("a huge file", "#" * (5 * MIB), "larger than 4 MiB"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "says"), [pytest.param(c, s, id=i) for i, c, s in EXPERIMENTS])
def test_an_experiment_file(command: Command, tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(EXPERIMENT % line)
    said = refused(command("bench", path, "--print"), str(path), says, status=(2,))
    assert len(said) < 1500


@pytest.mark.parametrize(
    "flags",
    [
        ["--option", b"a=\xff"],
        ["--basedir", b"/opt/\xff"],
        ["--allocators", b"gl\xffibc"],
        ["--threads", "9" * 5000],
        ["--threads", str(2**63)],
        ["--blocks", str(2**63)],
        ["--seed", "1" + "0" * 400],
        ["--budget", "9" * 400 + "h"],
        ["--memory", "9" * 400 + "G"],
        ["--data-sql", b"/tmp/\xff.sql"],
        ["--load-option", b"\xff=1"],
        ["--server-cpus", "0-99999999999"],
        [b"/tmp/\xff.toml"],
        ["--experiment", b"\xff"],
    ],
    ids=lambda flags: ascii(flags)[:40],
)
def test_flags(command: Command, flags: list[object]) -> None:
    refused(command("bench", *flags, "--print"))


def test_a_bound_beyond_all_numbers(command: Command) -> None:
    said = refused(command("bench", "--prefer", "p99<=" + "9" * 400, "--dry-run"), status=(2,))
    assert "--prefer: p99 <= a number that is too large" in said


def test_a_directory_whose_name_is_no_utf_8(
    command: Command, tmp_path: Path, make: Callable[..., Path]
) -> None:
    directory = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    make("whole", blocks=2, threads=[1]).rename(directory)
    for words in (
        ["report", directory],
        ["report", directory, "--json"],
        ["compare", directory, directory],
        ["deploy", directory, "glibc"],
    ):
        done = command(*words)
        assert (done.returncode, done.stderr) == (0, ""), words
    look_ = directory / "a.json"
    saved_snapshots.save_snapshot(look(), look_)
    assert command("explain", "--from", look_, "--html", directory / "a.html").returncode == 0
    refused(command("explain", "--from", directory / "none"), "No such file")


CSV = "workload,threads,variant,tps,rss_gib\n%s\n"
FIGURES = [
    ("10^400", f"a,1,b,1{'0' * 400},1", "tps"),
    ("5000 digits", f"a,{'9' * 5000},b,1,1", "threads"),
    ("2^63 bytes", "a,1,b,1,9223372036854775808", "rss_gib"),
    ("infinity", "a,1,b,inf,1", "tps"),
    ("almost nothing", "a,1,b,5e-324,1", "tps"),
    ("NUL", "a\0,1,b,1,1", "NUL"),
    ("a cell beyond all", f"{'a' * 200_000},1,b,1,1", "f.csv:2: "),
]  # fmt: skip


@pytest.mark.parametrize(("line", "says"), [pytest.param(c, s, id=i) for i, c, s in FIGURES])
def test_figures_to_import(command: Command, tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "f.csv"
    path.write_text(CSV % line)
    refused(command("import", path, "--out", tmp_path / "out"), str(path), status=(2,))
    assert not (tmp_path / "out").exists()
    assert says


def test_outputs_to_import(command: Command, tmp_path: Path) -> None:
    there = tmp_path / "outputs"
    there.mkdir()
    (there / "import.toml").write_text(
        "files = '{variant}-{threads}.txt'\nworkload = 'x'\na = " + "[" * 50_000
    )
    refused(command("import", there, "--out", tmp_path / "out"), "nests too deeply", status=(2,))
    (there / "import.toml").write_text("files = '{variant}-{threads}.txt'\nworkload = 'x'\n")
    (there / f"a-{'9' * 200}.txt").write_text("sysbench")
    refused(command("import", there, "--out", tmp_path / "out"), "no file matches", status=(2,))


@pytest.mark.parametrize(
    "text",
    [
        "[client]\npassword=a\0b\n", "[client]\nport=99999\n", f"[client]\nport={'9' * 5000}\n", "[client]\nport=٣\n",
        "!include .my.cnf\n!include .my.cnf\n[client]\nport=x\n", "!includedir .\n!includedir .\n[client]\nport=x\n",
    ],
)  # fmt: skip
def test_option_files(command: Command, tmp_path: Path, text: str) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".my.cnf").write_text(text)
    refused(command("explain", "--pid", str(os.getpid())), "client settings", status=(2,))


def test_an_option_file_that_is_a_fifo_is_passed_over(tmp_path: Path) -> None:
    from dballoc.servers.running import credentials

    os.mkfifo(tmp_path / ".my.cnf")
    assert credentials.find(None, {"HOME": str(tmp_path)}, tmp_path).password is None
