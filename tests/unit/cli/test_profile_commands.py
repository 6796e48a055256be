"""dballoc profile diff and export: what they print and write, and how they refuse."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from example_profiles import MIB, heap

from dballoc.cli.profile_verbs import diff, export
from dballoc.ground.errors import UsageError
from dballoc.profile.formats import export as formats
from dballoc.profile.formats.profile_file import save_profile
from dballoc.profile.model import Frame, Profile, Sample, Value

Make = Callable[..., Path]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "a.profile.json.gz", tmp_path / "b.profile.json.gz"
    save_profile(heap(), paths[0])
    save_profile(heap(leak=3), paths[1])
    return paths


def test_the_command_line_knows_every_format() -> None:
    assert get_args(export.Format) == formats.FORMATS


def test_what_grew_is_said_first(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    diff.diff(*files)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "live bytes: 7.5 MiB → 11.5 MiB (+4 MiB)"
    at = lines.index("grew, by call stack, innermost first") + 2
    assert lines[at].split(maxsplit=8)[:8] == ["+4", "MiB", "1.41", "MiB", "2", "MiB", "6", "MiB"]
    assert lines[at].endswith("mariadbd+0x1a2b ← parse_sql ← parse_sql ← main")
    assert not any(line.startswith("shrank") for line in lines)


def test_json_has_everything_in_the_values_own_unit(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    diff.diff(*files, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["value"] == {"key": "live", "unit": "bytes", "title": "live bytes"}
    assert (found["before"]["total"], found["after"]["total"]) == (7.5 * MIB, 11.5 * MIB)
    assert len(found["stacks"]) == 4
    assert found["stacks"][0]["grown"] == 4 * MIB
    assert next(row for row in found["functions"] if row["function"] == "main")["before"] == 7 * MIB


def test_profiles_of_different_times_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, seconds in (("a", 10.0), ("b", 30.0)):
        save_profile(
            Profile(
                title="waits",
                values=(Value("waited", "seconds", "waits"),),
                samples=[Sample((Frame("f"),), (seconds,))],
                seconds=seconds,
            ),
            tmp_path / name,
        )
    diff.diff(tmp_path / "a", tmp_path / "b")
    assert "cover 10 s before and 30 s after" in " ".join(capsys.readouterr().out.split())


def test_a_flame_graph_beside(files: tuple[Path, Path], tmp_path: Path) -> None:
    diff.diff(*files, html=tmp_path / "d.html")
    assert (tmp_path / "d.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("name", formats.FORMATS)
def test_a_format_has_its_file_beside_the_profile(
    name: export.Format, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before = files[0].read_bytes()
    export.export([files[0]], name)
    written = Path(capsys.readouterr().out.strip())
    assert written == files[0].with_name("a" + formats.get_suffix(name))
    assert written.read_bytes() == formats.export_profiles(heap(), "live", name)
    assert files[0].read_bytes() == before


def refusals(a: Path, b: Path) -> dict[str, Callable[[], None]]:
    nowhere = a.parent / "none" / "x"
    return {
        "cannot be read": lambda: diff.diff(a, nowhere),
        "not a whole profile": lambda: diff.diff(a, Path(__file__)),
        "--value waited: .* has no such value; it has live, objects, spent": lambda: diff.diff(
            a, b, value="waited"
        ),
        "--value live.variance: ": lambda: diff.diff(a, b, value="live.variance"),
        "none/x: cannot be written": lambda: diff.diff(a, b, html=nowhere),
        "holds one profile, but 2 are given; only massif and html take several": lambda: (
            export.export([a, b], "pprof")
        ),
        "--format massif: it holds bytes, and objects is in objects": lambda: export.export(
            [a], "massif", "objects"
        ),
        "x: cannot be written": lambda: export.export([a], "pprof", output=nowhere),
    }


@pytest.mark.parametrize("said", list(refusals(Path("a"), Path("b"))))
def test_a_refusal_is_one_line(said: str, files: tuple[Path, Path]) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        refusals(*files)[said]()
    assert "\n" not in str(caught.value)


def test_profiles_of_other_kinds_are_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    other = tmp_path / "waits"
    save_profile(
        Profile(title="waits", values=(Value("waited", "seconds", "waits"),), samples=[]), other
    )
    with pytest.raises(UsageError, match="give profiles of the same kind"):
        diff.diff(files[0], other)
    save_profile(
        Profile(title="live, in seconds", values=(Value("live", "seconds", "?"),), samples=[]),
        other,
    )
    with pytest.raises(UsageError, match="has live in seconds"):
        diff.diff(files[0], other)


def test_the_command_itself(files: tuple[Path, Path], package_path: Path, tmp_path: Path) -> None:
    """Through the shell: standard output as bytes, the exit status of a refusal."""

    def run(*words: str | Path) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "dballoc", "profile", *words],
            cwd=tmp_path,
            env={"PYTHONPATH": str(package_path), "PATH": "/usr/bin"},
            capture_output=True,
            timeout=60,
            check=False,
        )

    done = run("export", files[0], "--format", "collapsed", "--output", "-")
    assert (done.returncode, done.stdout) == (
        0,
        formats.export_profiles(heap(), "live", "collapsed"),
    )
    done = run("diff", files[0], "nowhere")
    assert (done.returncode, done.stderr) == (
        2,
        b"dballoc: nowhere: cannot be read: No such file or directory\n",
    )
