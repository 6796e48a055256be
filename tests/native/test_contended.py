"""A program whose threads wait for one arena's mutex all the time: perf's stacks and /proc's
addresses both say so.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dballoc.ground.errors import Failure
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.process.handle import Process
from dballoc.profile.contention import contention
from dballoc.profile.contention.dominant_frames import rank_dominant_frames
from dballoc.profile.contention.malloc_paths import rank_malloc_paths
from dballoc.profile.contention.waits import WAITED
from dballoc.profile.contention.waits_below_malloc import split_waits

pytestmark = pytest.mark.alone  # what it counts and times wants the CPUs


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Its PID; glibc with one arena, all blocks beyond the threads' caches."""
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler: apt-get install gcc libc6-dev")
    target = tmp_path_factory.mktemp("contended") / "contended"
    subprocess.run(
        ["cc", "-O1", "-o", target, Path(__file__).parent / "contended.c", "-pthread"], check=True
    )
    env = {**os.environ, "MALLOC_ARENA_MAX": "1"}
    process = subprocess.Popen([target], env=env, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    yield process.pid
    process.kill()
    process.wait()


def watch(program: int, custody: Custody) -> contention.WatchRequest:
    process = Process.open(program)
    return contention.WatchRequest(process=process, seconds=1, custody=custody, title="contended")


def test_by_stacks(program: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBALLOC_CACHE", str(tmp_path / "cache"))
    with Custody() as custody:
        found = contention.watch_waits(replace(watch(program, custody), stacks=400))
    if not found.method.startswith("perf: "):
        pytest.skip(f"needs perf and its permission: {found.method}")
    said = split_waits(found.switches)
    assert said.malloc["lock"].waits > 0.9 * said.below.waits
    assert said.malloc["lock"].waits > said.elsewhere["timer"].waits > 0
    # Six threads that wait for one another nearly all of a second, or more.
    assert said.malloc["lock"].waited > 1
    rows = rank_dominant_frames({"it": found.switches}, "waits")
    assert {"malloc", "cfree", "free"} & {row.function for row in rows if row.allocator}
    assert rank_malloc_paths(found.switches, "waits")[0].wait == "lock"
    assert not list((tmp_path / "cache" / "scratch").iterdir())


def test_by_addresses(program: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBALLOC_CACHE", str(tmp_path / "cache"))
    with Custody() as custody:
        found = contention.watch_waits(watch(program, custody), "proc")
    said = split_waits(found.switches)
    assert found.switches.values == (WAITED,)
    assert found.switches.facts["arenas"] == "1"
    assert said.share(said.malloc["lock"]) > 0.3
    assert (
        "lock" not in said.elsewhere
        or said.elsewhere["lock"].waited < 0.2 * said.malloc["lock"].waited
    )


def test_where_the_disk_is_too_full_another_place_is_named(
    program: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBALLOC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(contention.directories, "free_bytes", lambda _: 1 << 30)
    with Custody() as custody, pytest.raises(Failure, match=r"GiB left .DBALLOC_CACHE names"):
        contention.watch_waits(watch(program, custody), "perf")
    assert not list((tmp_path / "cache/scratch").iterdir())
