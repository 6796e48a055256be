"""A server in a user namespace whose root is hostile: every file that its process names becomes a
trap while root looks at it.
"""

import os
import resource
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from containers import Inside, make_image, run_container
from harness import A_USER, Cli

CANARY = "canary-of-the-host"
PATIENCE = 90.0
VERBS = [
    ("verify",),
    ("explain", "--json", "--pid"),
    ("explain", "--procedure", "--pid"),
    ("explain", "--install-function", "--yes", "--pid"),
    ("explain", "--remove-function", "--yes", "--pid"),
    ("explain", "--trim", "--yes", "--pid"),
    ("profile", "contention", "--seconds", "1", "--pid"),
    ("profile", "heap", "--pid"),
    ("bench", "--dry-run", "--like"),
]


@pytest.fixture(autouse=True)
def nothing_is_left() -> None:
    """Here a server outlives a test on purpose; the module's own fixture ends it."""


@pytest.fixture(scope="module")
def canary(home: Path, needs_root: None) -> Path:
    """A directory of the host's that no container may read or write: a file, and what it is at
    first.
    """
    place = home / "host-only"
    place.mkdir(mode=0o755)
    (place / "canary").write_text(CANARY)
    return place


def make_pipe(path: Path, canary: Path) -> None:
    os.mkfifo(path)


def make_link(path: Path, canary: Path) -> None:
    path.symlink_to(canary / "canary")


def make_magic_link(path: Path, canary: Path) -> None:
    path.symlink_to(f"/proc/1/root{canary}/canary")


def make_huge(path: Path, canary: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 42)


@pytest.fixture(scope="module", params=[make_pipe, make_link, make_magic_link, make_huge])
def trap(home: Path, canary: Path, request: pytest.FixtureRequest) -> Iterator[Inside]:
    """A running server all of whose files were replaced."""
    image = make_image(home)
    (image / "plugins").mkdir()
    with (image / "etc/my.cnf").open("a") as options:
        options.write("plugin-dir=/plugins\n")
    for server in run_container(home, image, "pivot", str(A_USER)):
        for path in [
            image / "etc/my.cnf",
            image / "srv/mariadbd",
            *(image / "inside/lib").iterdir(),
        ]:
            path.unlink()
            request.param(path, canary)
        request.param(image / "plugins/dballoc_udf.so", canary)
        (image / "data/#ib_16384_0.dblwr").unlink(missing_ok=True)
        request.param(image / "data/#ib_16384_0.dblwr", canary)
        yield server
    shutil.rmtree(image)


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_no_verb_hangs_follows_or_tells(
    run_cli: Cli, trap: Inside, canary: Path, verb: tuple[str, ...]
) -> None:
    before = sorted(
        (path.name, path.read_text(), path.stat().st_mtime_ns) for path in canary.iterdir()
    )
    began = time.monotonic()
    done = run_cli(*verb, str(trap.pid))
    assert time.monotonic() - began < PATIENCE
    assert "Traceback" not in done.text
    assert "internal error" not in done.text
    assert CANARY not in done.text
    assert done.status in (0, 1, 2)
    assert done.status == 0 or len(done.stderr.splitlines()) == 1, done.stderr
    assert (
        sorted((path.name, path.read_text(), path.stat().st_mtime_ns) for path in canary.iterdir())
        == before
    )
    # KiB, of the largest child so far.
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2 << 20


def test_it_is_explained_all_the_same(run_cli: Cli, trap: Inside) -> None:
    done = run_cli("explain", "--pid", str(trap.pid))
    assert done.status == 0, done.stderr
    assert "RSS" in done.stdout
