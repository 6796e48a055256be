"""A verb that reads files of others ends by itself and by Ctrl-C, whatever their file system does."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dballoc.cli.interruptible_child import reads_files_of_others
from hostile_files import HostileFile, HostileFiles

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("words", "reads"),
    [
        (["report", "r"], True),
        (["compare", "a", "b"], True),
        (["import", "x", "--out", "y"], True),
        (["explain", "--from", "x"], True),
        (["explain", "--diff=x", "y"], True),
        (["profile", "diff", "a", "b"], True),
        (["profile", "heap"], False),
        (["profile"], False),
        (["explain", "--pid", "1"], False),
        (["bench"], False),
        ([], False),
    ],
)
def test_which_command_lines_read_files_of_others(words: list[str], reads: bool) -> None:
    assert reads_files_of_others(words) is reads


Start = Callable[..., tuple["subprocess.Popen[bytes]", Path]]


@pytest.fixture
def start(package_path: Path, tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str, look: str = "15") -> tuple["subprocess.Popen[bytes]", Path]:
        # A pipe would be held open by the child that is stuck.
        output = tmp_path / f"output-{len(started)}"
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "dballoc", *words],
                env=os.environ
                | {
                    "PYTHONPATH": str(package_path),
                    "DBALLOC_LOOK_SECONDS": look,
                    "DBALLOC_CACHE": str(tmp_path / "cache"),
                },
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        started.append(process)
        return process, output

    yield start
    for process in started:
        process.kill()
        process.wait(10)


def test_status_and_output_are_the_childs(start: Start, tmp_path: Path) -> None:
    for words, status, text in (
        (["report", "--help"], 0, "Usage"),
        (["report", str(tmp_path)], 2, "not a results directory"),
    ):
        process, output = start(*words)
        assert process.wait(60) == status
        assert text in output.read_text()


def test_a_limit_that_is_no_number_is_one_line(start: Start, tmp_path: Path) -> None:
    process, output = start("report", str(tmp_path), look="x")
    assert process.wait(60) == 2
    assert output.read_text().startswith("dballoc: ")
    assert output.read_text().count("\n") == 1


def put_files_that_never_answer(files: HostileFiles, way: str) -> list[list[str]]:
    """Return the command lines that read them."""
    names = ("results.sqlite", "experiment.toml", "look.json", "heap.profile.json.gz")
    for name in names:
        files.put(name, HostileFile(content=b"x" * 5000, waits=(way,)))
    mount = str(files.mount)
    return [
        ["report", mount, "--out", "/nonexistent/out"],
        ["compare", mount, mount],
        ["explain", "--from", f"{mount}/look.json"],
        [
            "profile",
            "export",
            f"{mount}/heap.profile.json.gz",
            "--format",
            "html",
            "--output",
            "/nonexistent/x",
        ],
    ]


@pytest.mark.parametrize("way", ["getattr", "open", "read"])
def test_files_that_never_answer(start: Start, hostile_files: HostileFiles, way: str) -> None:
    lines = put_files_that_never_answer(hostile_files, way)
    verbs = [start(*words, look="1") for words in lines]
    interrupted = [start(*words) for words in lines]
    for process, output in verbs:
        status, text = process.wait(60), output.read_text()
        assert (status, text.count("\n")) == (1, 1), text
        assert "is on a file system that has not answered for 4 s" in text
    for process, _ in interrupted:
        assert process.poll() is None
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert time.monotonic() - began < 2
