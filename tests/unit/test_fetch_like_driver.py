"""A host fetches what the driver has fetched, and takes no other file for it."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dballoc.errors import UsageError
from dballoc.fetch import private_store
from dballoc.fetch.private_store import FORMAT, MANIFEST, FetchedEntry
from dballoc.hosts.fetch_like_driver import fetch_like_driver, list_fetched_files

JEMALLOC = "jemalloc@5.3.1"
FILES = {"jemalloc.tar.bz2": "a" * 64}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty store of this host."""
    monkeypatch.setenv("DBALLOC_STORE", str(tmp_path))
    return tmp_path


def put(store: Path, reference: str, files: dict[str, str]) -> Path:
    """Put an entry into the store; return its library."""
    name, _, version = reference.partition("@")
    place = store / reference
    place.mkdir()
    manifest = {
        "format": FORMAT,
        "name": name,
        "asked": version,
        "version": version,
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

    def __call__(self, source: Any, progress: Any) -> tuple[FetchedEntry, bool]:
        self.fetched.append(source.reference)
        put(self.store, source.reference, self.files)
        [entry] = private_store.list_fetched(source.name)
        return entry, True


def test_what_is_missing_is_fetched_once(store: Path) -> None:
    fetcher, notices = Fetcher(store, FILES), list[str]()
    for _ in range(2):
        fetch_like_driver({JEMALLOC: FILES}, notices.append, fetcher)
    assert fetcher.fetched == [JEMALLOC]
    assert notices == [f"fetching {JEMALLOC}, as the driver has it"]


@pytest.mark.parametrize("is_there", [True, False])
def test_another_file_of_that_name_is_refused(store: Path, is_there: bool) -> None:
    other = {"jemalloc.tar.bz2": "b" * 64}
    if is_there:
        put(store, JEMALLOC, other)
    with pytest.raises(UsageError, match=r"jemalloc.tar.bz2 is another file than on the driver"):
        fetch_like_driver({JEMALLOC: FILES}, [].append, Fetcher(store, other))


def test_an_archive_of_ones_own_cannot_be_fetched_elsewhere(store: Path) -> None:
    with pytest.raises(UsageError, match=r"jemalloc@0.1-mine.*--sha256"):
        fetch_like_driver({"jemalloc@0.1-mine": FILES}, [].append, Fetcher(store, FILES))


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
