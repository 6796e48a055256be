"""Libraries ahead of an allocator: one that wraps malloc is let through, another malloc is not."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Cli, Experiment

from dballoc.allocators import find_library

PAD = Path(__file__).parents[1] / "native/pad.c"


@pytest.fixture
def pad(fresh_directory: Callable[[], Path]) -> Path:
    """A library that wraps some of malloc's functions, where the server's user can read it."""
    directory = fresh_directory()
    directory.chmod(0o755)
    library = directory / "libpad.so"
    subprocess.run(
        ["cc", "-std=c17", "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared", "-o", library, PAD],
        check=True,
    )
    return library


@pytest.mark.parametrize("allocator", ["glibc", "jemalloc"])
def test_a_wrapper_is_let_through(
    run_cli: Cli, tiny_experiment: Experiment, pad: Path, allocator: str
) -> None:
    file = tiny_experiment(
        variant=[{"name": "v", "allocator": allocator, "preload": [str(pad)]}], baseline="v"
    )
    done = run_cli("bench", file, "--dry-run")
    assert done.status == 0, done.text
    assert "libpad.so" in done.stdout


def test_another_malloc_is_no_wrapper(run_cli: Cli, tiny_experiment: Experiment) -> None:
    (library,) = find_library.find_allocator("jemalloc").libraries
    file = tiny_experiment(
        variant=[{"name": "v", "allocator": "glibc", "preload": [str(library)]}], baseline="v"
    )
    done = run_cli("bench", file, "--dry-run")
    assert done.status == 2, done.text
    assert "does not use libc.so.6: " in done.stderr
    assert f"comes from {library}" in done.stderr
