"""Fixtures of the native parts' tests: a compiler for test-only preloads, a child process under a
preload.
"""

import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from emulation import find_reason, name_test
from machine import MACHINE

from captured_run import run_captured
from dballoc.ground.errors import UsageError
from limited_memory import limited_memory


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what cannot be emulated, with the reason, where the machine is."""
    for item in items:
        if MACHINE.name != "host" and (reason := find_reason(name_test(item.nodeid))):
            item.add_marker(pytest.mark.skip(reason=f"not under qemu-user: {reason}"))


@pytest.fixture(scope="session", autouse=True)
def memory_limit() -> Iterator[None]:
    """Emulated programs have a limit of memory, or do not run at all."""
    if MACHINE.name == "host":
        yield
        return
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # qemu writes cores of its own
        with limited_memory(4 << 30):
            yield
    except UsageError as error:
        pytest.fail(f"emulated programs need a memory cgroup: {error}")


@pytest.fixture(scope="session")
def native_library() -> Callable[[str], Path]:
    """Find a library that the package installs, by its subject: ``native_library("keep_thp")``."""

    return MACHINE.native_library


@pytest.fixture(scope="session")
def preload(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Compile a test-only preload from a source beside this file: ``preload("pad")``. Readable by
    every user.
    """
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
            MACHINE.compile("cc", library, *flags, Path(__file__).with_name(f"{name}.c"))
        return library

    return build


@pytest.fixture
def under() -> Callable[[Path, str], str]:
    """Run Python code in a fresh interpreter under a preload; what it prints. The test fails if it
    fails.
    """

    def run(library: Path, code: str) -> str:
        done = run_captured(
            [MACHINE.python, "-I", "-S", "-c", code],
            env={**os.environ, "LD_PRELOAD": os.fspath(library)},
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert "cannot be preloaded" not in done.stderr
        return done.stdout.strip()

    return run
