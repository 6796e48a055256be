"""Fixtures of the native parts' tests: a compiler for test-only preloads, a child process under a
preload.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def native_library() -> Callable[[str], Path]:
    """Find a library that the package installs, by its subject: ``native_library("keep_thp")``."""

    def find(subject: str) -> Path:
        path = Path(str(files("dballoc") / "_native" / f"libdballoc_{subject}.so"))
        assert path.exists(), (
            f"{path} is not there: the tests run on the installed package (make setup)"
        )
        return path

    return find


@pytest.fixture(scope="session")
def preload(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Compile a test-only preload from a source beside this file: ``preload("pad")``. Readable by
    every user.
    """
    compiler = shutil.which("cc")
    assert compiler, "no cc on the PATH; install it: apt-get install gcc libc6-dev"
    directory = tmp_path_factory.mktemp("preload")
    # Servers run as another user, who must be able to pass through.
    for part in (directory, *directory.parents):
        if part.stat().st_uid == os.geteuid() and not part.stat().st_mode & 0o001:
            part.chmod(part.stat().st_mode | 0o711)

    def build(name: str) -> Path:
        library = directory / f"lib{name}.so"
        if not library.exists():
            flags = [
                "-std=c17",
                "-D_GNU_SOURCE",
                "-O2",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-fPIC",
                "-shared",
            ]
            subprocess.run(
                [compiler, *flags, "-o", library, Path(__file__).with_name(f"{name}.c")], check=True
            )
        return library

    return build


@pytest.fixture
def under() -> Callable[[Path, str], str]:
    """Run Python code in a fresh interpreter under a preload; what it prints. The test fails if it
    fails.
    """

    def run(library: Path, code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", code],
            env={**os.environ, "LD_PRELOAD": os.fspath(library)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert "cannot be preloaded" not in done.stderr
        return done.stdout.strip()

    return run
