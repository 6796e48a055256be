"""tools/release/check-symbols tells what needs a newer C library from what does not."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[3] / "tools/release/check-symbols"
SOURCE = '#include <stdio.h>\nint main(void) { return printf("x"); }\n'


def check(*words: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, CHECK, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("program")
    (directory / "main.c").write_text(SOURCE)
    subprocess.run(["cc", "-o", directory / "main", directory / "main.c"], check=True)
    return directory / "main"


def test_what_needs_more_is_named(program: Path) -> None:
    done = check("2.1", program)
    assert done.returncode == 1
    assert f"{program}: needs GLIBC_2." in done.stderr
    assert "libc.so.6" in done.stderr


def test_what_needs_no_more_passes_in_each_form(program: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(program, "x/main")
        archive.writestr("x/text.py", "pass")
    for path in (program, program.parent, wheel):
        done = check("2.99", path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("1 files need glibc 2.")


def test_nothing_to_look_at_is_an_error(tmp_path: Path) -> None:
    assert check("2.28", tmp_path).returncode == 2
    assert check("2.28", tmp_path / "none").returncode == 2
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF" + b"\0" * 100)
    assert check("2.28", broken).returncode == 2
