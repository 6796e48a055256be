"""Programs that replace some of C++'s operators, under the heap probe: every block ends where it
began, and counts once.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from machine import MACHINE
from programs import starting, wait_for_probe

from captured_run import run_captured
from dballoc.profile.heap import heap_profile, probe_client

HERE = Path(__file__).parent
# What is replaced, see replaced.cc; "": nothing.
SUBSETS = ["", "n", "a", "t", "s", "l", "na", "ns", "nt", "at", "nl", "nats", "natsl"]
# How the program is built: what replaces is in the executable, or in a library of its own.
BUILDS: dict[str, list[str]] = {
    "executable": [],
    "fixed": ["-no-pie", "-fno-pie"],
    "static": ["-static-libstdc++", "-static-libgcc", "-rdynamic"],
    "library": [],
}
# Over a malloc with operators of its own many of the subsets break by themselves.
CASES = [(how, "glibc") for how in BUILDS] + [
    (how, allocator)
    for allocator in ("jemalloc", "tcmalloc", "mimalloc")
    for how in ("executable", "library")
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    directory = tmp_path_factory.mktemp("operators")

    def build(letters: str, how: str, *defined: str) -> Path:
        target = directory / "-".join(["operators", letters, how, *defined])
        if target.exists():
            return target
        flags = [
            "-std=c++17",
            "-O1",
            "-g",
            "-pthread",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-sized-deallocation",
            "-fno-omit-frame-pointer",
            *BUILDS[how],
        ]
        replaced = [HERE / "replaced.cc", *(f"-DREPLACE_{letter}" for letter in letters)]
        replaced += [f"-D{name}" for name in defined]
        if how == "library":
            library = directory / f"lib{target.name}.so"
            MACHINE.compile("c++", library, *flags, "-fPIC", "-shared", *replaced)
            MACHINE.compile("c++", target, *flags, HERE / "operators.cc", library)
        else:
            MACHINE.compile("c++", target, *flags, HERE / "operators.cc", *replaced)
        return target

    return build


@pytest.fixture
def environ(
    native_library: Callable[[str], Path], tmp_path: Path
) -> Callable[[str], dict[str, str]]:
    """Of a program under the probe over that allocator."""

    def made(allocator: str) -> dict[str, str]:
        libraries = MACHINE.find_libraries(allocator)
        preload = ":".join(map(str, [native_library("probe"), *libraries]))
        return {
            "PATH": os.environ["PATH"],
            "LD_PRELOAD": preload,
            probe_client.VARIABLE: f"1024:{tmp_path}",
        }

    return made


@pytest.mark.parametrize(("how", "allocator"), CASES)
@pytest.mark.parametrize("letters", SUBSETS)
def test_what_a_program_replaces_is_called_as_without(
    programs: Callable[..., Path],
    environ: Callable[[str], dict[str, str]],
    letters: str,
    how: str,
    allocator: str,
) -> None:
    """What breaks by itself may break with the probe too, but does not hang. Some of it breaks most
    times, and not each time.
    """
    program, with_probe = programs(letters, how), environ(allocator)
    without = {**with_probe, "LD_PRELOAD": with_probe["LD_PRELOAD"].partition(":")[2]}

    def run(variables: dict[str, str], seconds: int) -> subprocess.CompletedProcess[str]:
        return run_captured([program], env=variables, timeout=seconds)

    try:
        by_itself = run(without, 20)
        probed = run(with_probe, 60)
        for _ in range(20):
            if by_itself.returncode == 0 and probed.returncode < 0 and allocator != "glibc":
                by_itself = run(without, 20)
    except subprocess.TimeoutExpired as late:
        if late.timeout == 60:
            raise
        pytest.skip(f"{allocator} hangs by itself where these are replaced")
    if by_itself.returncode == 0:
        assert (probed.returncode, probed.stdout) == (0, by_itself.stdout), probed.stderr
    if allocator == "glibc":
        assert by_itself.returncode == 0
        assert by_itself.stdout.startswith(PLACES[letters])


# Whose memory new, new nothrow, new[], new[] nothrow, new aligned, new[] aligned have: the
# program's pool, or malloc's.
PLACES = {
    "": "mmmmmm",
    "n": "ppppmm",
    "a": "mmppmm",
    "t": "mmmmmm",
    "s": "mmmmmm",
    "l": "mmmmpp",
    "na": "ppppmm",
    "ns": "ppppmm",
    "nt": "ppppmm",
    "at": "mmppmm",
    "nl": "pppppp",
    "nats": "ppppmm",
    "natsl": "pppppp",
}


@pytest.mark.parametrize("how", BUILDS)
@pytest.mark.parametrize("letters", ["", "n", "a", "t", "nats"])
def test_a_block_is_counted_once(
    programs: Callable[..., Path],
    environ: Callable[[str], dict[str, str]],
    tmp_path: Path,
    letters: str,
    how: str,
) -> None:
    """new[] that ends in the program's new, and that in malloc, is one allocation."""
    with starting() as start:
        running = start(programs(letters, how, "BY_MALLOC"), "live", **environ("glibc"))
        snapshot = wait_for_probe(tmp_path).snapshot()
        assert running.process.poll() is None
    live = heap_profile.sum_blocks([block for block in snapshot.blocks if block.usable >= 1000])
    assert abs(live.bytes - 20000 * 1008) < 6 * live.error + 20000 * 16
    assert not snapshot.overwritten
