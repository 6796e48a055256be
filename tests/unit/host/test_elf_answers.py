"""What the sandbox said of a file is kept while the file is the same, for a bounded number."""

import os
from pathlib import Path
from typing import Any

import pytest

from dballoc.host.elf import elf_answers
from dballoc.host.elf.elf_answers import ask_elf_parser
from dballoc.host.unprivileged.sandbox import ELF_PARSER, SandboxError


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of the files that the sandbox was asked about; it fails for an empty one."""
    texts: list[str] = []

    def call(function: str, files: list[int], *values: Any, seconds: float) -> str:
        texts.append(os.pread(files[0], 100, 0).decode())
        if not texts[-1]:
            raise SandboxError("empty")
        return f"{function} {values} {texts[-1]}"

    monkeypatch.setattr(ELF_PARSER, "call", call)
    monkeypatch.setattr(elf_answers, "_answers", {})
    return texts


def ask(path: Path, *values: Any) -> Any:
    with path.open("rb") as file:
        return ask_elf_parser("find", file.fileno(), *values)


def test_a_file_is_parsed_once_until_it_changes(tmp_path: Path, asked: list[str]) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    assert [ask(path, ["malloc"]) for _ in range(3)] == ["find (['malloc'],) old"] * 3
    assert asked == ["old"]
    assert ask(path, ["free"]) == "find (['free'],) old"
    status = path.stat()
    while path.stat().st_ctime_ns == status.st_ctime_ns:  # the kernel's clock of files ticks
        path.write_text("new")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # as somebody would who hides it
    assert ask(path, ["malloc"]) == "find (['malloc'],) new"
    assert asked == ["old", "old", "new"]


def test_a_failure_is_not_kept(tmp_path: Path, asked: list[str]) -> None:
    (tmp_path / "file").touch()
    for _ in range(2):
        with pytest.raises(SandboxError):
            ask(tmp_path / "file")
    assert asked == ["", ""]


def test_it_keeps_a_bounded_number(tmp_path: Path, asked: list[str]) -> None:
    (tmp_path / "file").write_text("text")
    for number in range(1000):
        ask(tmp_path / "file", number)
    assert len(elf_answers._answers) == 64
    ask(tmp_path / "file", 999)
    assert len(asked) == 1000
