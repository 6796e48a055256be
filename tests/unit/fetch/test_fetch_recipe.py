"""Builds from sources: as the server user, and of what they make only regular files come into the
store.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dballoc.fetch import fetch_one
from dballoc.fetch.clients import build_from_source
from dballoc.fetch.fetch_job import FetchJob
from dballoc.fetch.fetch_sources import FetchSource
from dballoc.ground.errors import Failure, UsageError
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.unprivileged.server_user import server_user

Build = Callable[[str], list[str]]


def source(script: str) -> FetchSource:
    return FetchSource(
        "jemalloc", "9.9", {"from": "crate", "tools": [], "build": script, "megabytes": [0, 1]}
    )


@pytest.fixture
def place() -> Iterator[Path]:
    """Where everybody may pass."""
    path = Path(tempfile.mkdtemp(prefix="dbr-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def build(place: Path) -> Iterator[Build]:
    """``build(script)``: what a recipe brings, its place in ``place / "job"``."""
    sources = place / "sources"
    sources.mkdir()
    (sources / "configure").write_text('#!/bin/sh\nid -u > "$OUT/libuser.so"\n')
    (sources / "configure").chmod(0o755)
    (place / "secret").write_text("root's\n")
    (place / "secret").chmod(0o600)
    (place / "job").mkdir()
    with Custody() as custody:

        def run_recipe(script: str) -> list[str]:
            job = FetchJob(
                source=source(script),
                place=place / "job",
                final=place / "final",
                downloads=place / "d",
                shared=place / "s",
                custody=custody,
                progress=lambda what, share: None,
            )
            return build_from_source.build_libraries(job, sources, script)

        yield run_recipe


def test_a_script_of_the_sources_is_not_run_by_root(build: Build, place: Path) -> None:
    assert build("./configure") == ["lib/libuser.so"]
    uid = int((place / "job/lib/libuser.so").read_text())
    assert uid == (server_user().uid or os.getuid())
    assert uid != 0


def test_only_regular_files_of_ours_come_out(build: Build, place: Path) -> None:
    found = build(
        'echo ok > "$OUT/libgood.so"; chmod 6777 "$OUT/libgood.so"; ln -s "$PWD/../../secret" "$OUT/libsecret.so"; '
        'cp ../../secret "$OUT/libcopied.so" || true; mkfifo "$OUT/libpipe.so"; mkdir "$OUT/libdirectory.so"'
    )
    if os.geteuid() == 0:
        assert found == ["lib/libgood.so"]
    made = sorted((place / "job").rglob("*"))
    assert place / "job/lib/libgood.so" in made
    assert not (place / "job/build").exists()
    assert not (place / "job/built").exists()
    for path in made:
        assert path.lstat().st_uid == os.geteuid()
        assert path.lstat().st_mode & 0o6022 == 0
    assert (place / "secret").read_text() == "root's\n"


def test_sources_with_a_link_that_leads_out_are_not_built(build: Build, place: Path) -> None:
    (place / "sources/link").symlink_to(place / "secret")
    with pytest.raises(
        Failure,
        match=r"jemalloc@9\.9: its sources cannot be unpacked: link is a link that leads out",
    ):
        build("./configure")


def test_a_build_that_makes_nothing_is_one_line(build: Build) -> None:
    with pytest.raises(Failure, match=r"jemalloc@9\.9: its build produced no library"):
        build("true")
    with pytest.raises(Failure, match=r"jemalloc@9\.9: its build: "):
        build("false")


def test_a_store_that_is_closed_is_said_first(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: else builds run as the user who has the store")
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.setenv("DBALLOC_STORE", str(closed / "store"))
    with pytest.raises(
        UsageError, match=rf"builds run as .*, which may not enter {closed}; set DBALLOC_STORE"
    ):
        fetch_one.fetch(source("true"), lambda what, share: None)


@pytest.mark.parametrize(
    ("limit", "value", "script", "excess"),
    [
        ("fetch_job._MOST_OUTPUT", 2**20, "yes", "printed more than 1 MiB"),
        ("clients.build_from_source._LONGEST_BUILD", 0.5, "sleep 60", "took too long"),
    ],
)
def test_a_build_has_limits(
    build: Build,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    value: float,
    script: str,
    excess: str,
) -> None:
    monkeypatch.setattr(f"dballoc.fetch.{limit}", value)
    began = time.monotonic()
    with pytest.raises(Failure, match=rf"^jemalloc@9\.9: its build was ended: it {excess}$"):
        build(script)
    assert time.monotonic() - began < 30


def test_a_build_writes_no_file_without_end(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_from_source, "_LARGEST_FILE", 8)
    with pytest.raises(Failure, match=r"its build: .+"):
        build('head -c 1000000 /dev/zero > "$OUT/libbig.so"')
