"""A host fetches what the driver has fetched, and takes no other file for it."""

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dballoc.campaign.elsewhere.fetch_like_driver import (
    fetch_like_driver,
    find_difference,
    list_fetched_files,
    list_files,
)
from dballoc.fetch import fetch_one, private_store
from dballoc.fetch.fetch_job import FetchedTree, FetchJob
from dballoc.fetch.fetch_sources import FetchSource
from dballoc.fetch.private_store import FORMAT, MANIFEST, FetchedEntry
from dballoc.ground.errors import UsageError
from dballoc.host.guardian.guardian_client import GuardianEnded, Lease

JEMALLOC = "jemalloc@5.3.1"
LEASE = Lease(0, 30.0)
FILES = {"jemalloc.tar.bz2": "a" * 64}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty store of this host."""
    monkeypatch.setenv("DBALLOC_STORE", str(tmp_path))
    return tmp_path


def put(store: Path, reference: str, files: dict[str, str], client: str = "debian") -> Path:
    """Put an entry into the store that a ``client`` fetched; return its library."""
    name, _, version = reference.partition("@")
    place = store / reference
    place.mkdir()
    manifest = {
        "format": FORMAT,
        "name": name,
        "asked": version,
        "version": version,
        "from": client,
        "files": [{"name": file, "sha256": digest} for file, digest in files.items()],
    }
    (place / MANIFEST).write_text(json.dumps(manifest))
    return place / "root" / "lib.so"


class Fetcher:
    """Fetches into the store what it is told to."""

    def __init__(self, store: Path, files: dict[str, str]) -> None:
        self.store = store
        self.files = files
        self.fetched: list[str] = []

    def __call__(self, source: Any, progress: Any, lease: Lease) -> tuple[FetchedEntry, bool]:
        self.fetched.append(source.reference)
        put(self.store, source.reference, self.files)
        [entry] = private_store.list_fetched(source.name)
        return entry, True


def test_what_is_missing_is_fetched_once(store: Path) -> None:
    fetcher, notices = Fetcher(store, FILES), list[str]()
    for _ in range(2):
        fetch_like_driver({JEMALLOC: FILES}, notices.append, LEASE, fetcher)
    assert fetcher.fetched == [JEMALLOC]
    assert notices == [f"fetching {JEMALLOC}, as the driver has it"]


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"jemalloc.tar.bz2": "b" * 64}, r"jemalloc.tar.bz2 is another file than on the driver"),
        # A security update between two fetches: other names, and so none of the same name differs.
        (
            {"jemalloc-2.tar.bz2": "a" * 64},
            r"the driver has jemalloc.tar.bz2, and this host has not",
        ),
        ({}, r"the driver has jemalloc.tar.bz2, and this host has not"),
        (FILES | {"more.deb": "c" * 64}, r"this host has more.deb, and the driver has not"),
    ],
)
def test_other_files_than_the_drivers_are_refused(
    store: Path, is_there: bool, files: dict[str, str], words: str
) -> None:
    if is_there:
        put(store, JEMALLOC, files)
    with pytest.raises(UsageError, match=f"{words}; remove .*dballoc fetch {JEMALLOC}$"):
        fetch_like_driver({JEMALLOC: FILES}, [].append, LEASE, Fetcher(store, files))


# What each client puts into a manifest, which is the same on every host that fetches the same: a
# package's file has its version in its name, a crate has no file, a wheel's name is the index's.
MANIFESTS = {
    "debian": {
        "libjemalloc2_5.3.0-1_amd64.deb": "a" * 64,
        "libc6_2.36-9+deb12u1_amd64.deb": "b" * 64,
    },
    "crate": {"crate tikv-jemalloc-sys 0.7.1": "c" * 64},
    "maven": {"mysql-9.7.jar": "d" * 64, "libaio1_0.3.113-4_amd64.deb": "e" * 64},
    "pypi": {"cmeel_mimalloc-3.4.3-py3-none-manylinux_2_17_x86_64.whl": "f" * 64},
    "archive": {"jemalloc.tar.gz": "a" * 64},
}


@pytest.mark.parametrize("client", MANIFESTS)
def test_equal_fetches_are_equal_in_whatever_order(store: Path, client: str) -> None:
    put(store, JEMALLOC, MANIFESTS[client], client)
    [entry] = private_store.list_fetched("jemalloc")
    of_driver = dict(reversed(list_files(entry).items()))
    fetch_like_driver({JEMALLOC: of_driver}, [].append, LEASE, Fetcher(store, {}))
    assert find_difference(of_driver, dict.fromkeys(of_driver, "0" * 64)) is not None


def test_an_archive_may_have_another_name_on_another_host(store: Path) -> None:
    put(store, JEMALLOC, {"downloaded (1).tar.gz": "a" * 64}, "archive")
    [entry] = private_store.list_fetched("jemalloc")
    assert list_files(entry) == {"its archive": "a" * 64}
    with pytest.raises(UsageError, match=r"its archive is another file .* --from FILE"):
        fetch_like_driver(
            {JEMALLOC: {"its archive": "b" * 64}}, [].append, LEASE, Fetcher(store, {})
        )


def test_an_archive_of_ones_own_cannot_be_fetched_elsewhere(store: Path) -> None:
    with pytest.raises(UsageError, match=r"jemalloc@0.1-mine.*--sha256"):
        fetch_like_driver({"jemalloc@0.1-mine": FILES}, [].append, LEASE, Fetcher(store, FILES))


def test_what_a_fetch_has_started_ends_with_the_lease(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that has lost its driver must not build on for hours."""
    reader, writer = os.pipe2(os.O_CLOEXEC)

    def build(job: FetchJob) -> FetchedTree:
        os.close(writer)
        job.run(["sleep", "60"], "its build")
        raise AssertionError("it ran to its end")

    monkeypatch.setitem(fetch_one.CLIENTS, "debian", build)
    began = time.monotonic()
    source = FetchSource("jemalloc", "5.3.0", {"from": "debian", "megabytes": [1, 1]})
    with pytest.raises(GuardianEnded):
        fetch_one.fetch(source, lambda step, share: None, Lease(reader, 30.0))
    os.close(reader)
    assert time.monotonic() - began < 20
    assert not list((store / ".partial").iterdir())


def test_the_driver_says_what_it_has_from_its_store(store: Path) -> None:
    library = put(store, JEMALLOC, FILES)
    fetched, own = (
        SimpleNamespace(
            build=SimpleNamespace(executable=Path("/usr/sbin/mariadbd")),
            allocator=SimpleNamespace(libraries=libraries, loader=None),
        )
        for libraries in ((library,), (Path("/usr/lib/libjemalloc.so.2"),))
    )
    assert list_fetched_files([fetched, own]) == {JEMALLOC: FILES}  # type: ignore[list-item]
    assert list_fetched_files([own]) == {}  # type: ignore[list-item]
