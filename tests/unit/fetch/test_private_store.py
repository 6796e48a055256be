"""A vendor's archive by file or URL: verified, resumed, whole in the store or not there at all."""

import ctypes
import hashlib
import http.server
import io
import os
import shutil
import tarfile
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dballoc.doctor import inventory
from dballoc.fetch import fetch_one, private_store
from dballoc.fetch.clients import archive
from dballoc.fetch.private_store import FetchedEntry
from dballoc.ground.errors import Failure, UsageError
from dballoc.host.unprivileged.server_user import server_user
from example_malloc_sources import CONFIGURE, MAKEFILE, pack_sources

SERVER = 'int printf(const char *, ...); int main(void) {{ printf("mysqld  Ver {} for Linux on x86_64 (Ours)\\n"); return 0; }}'


def quiet(what: str, share: float | None) -> None:
    pass


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the server user may pass, as it must to say a server's version."""
    place = Path(tempfile.mkdtemp(prefix="dbs-", dir="/tmp"))
    place.chmod(0o755)
    monkeypatch.setenv("DBALLOC_STORE", str(place / "store"))
    yield place / "store"
    shutil.rmtree(place)


@pytest.fixture
def tarball(tmp_path: Path, c_library: Callable[[str, str], Path]) -> Path:
    """An allocator's library in a directory of its own, with 200 kB of ballast."""
    library = c_library("libjemalloc", "int mine(void) { return 1; }")
    path = tmp_path / "jemalloc-9.9.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(library, "jemalloc-9.9/lib/libjemalloc.so.2")
        ballast = tarfile.TarInfo("jemalloc-9.9/ballast")
        ballast.size = 200_000
        tar.addfile(ballast, io.BytesIO(os.urandom(ballast.size)))
    return path


@dataclass
class Web:
    """``url`` serves ``content``; ``cut``: of the next replies each breaks off after so
    many bytes.
    """

    url: str
    content: bytes
    cut: list[int] = field(default_factory=list)
    ranges: list[str | None] = field(default_factory=list)


@pytest.fixture
def web(tarball: Path) -> Iterator[Web]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            found.ranges.append(wanted)
            if not self.path.endswith(tarball.name):
                self.send_error(404, "Not Found")
                return
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
            self.send_response(206 if wanted else 200)
            self.send_header("Content-Length", str(len(found.content) - start))
            self.end_headers()
            self.wfile.write(found.content[start:][: found.cut.pop() if found.cut else None])

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found = Web(f"http://127.0.0.1:{server.server_port}/{tarball.name}", tarball.read_bytes())
    yield found
    server.shutdown()
    server.server_close()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def fetch(
    at: str | Path, digest: str | None = None, name: str = "jemalloc", version: str = "9.9"
) -> tuple[FetchedEntry, bool]:
    return fetch_one.fetch(archive.make_archive_source(name, version, str(at), digest), quiet)


def test_a_url_comes_into_the_store_once(store: Path, web: Web) -> None:
    kept, fetched = fetch(web.url, sha256(web.content))
    assert fetched
    assert (kept.reference, kept.version) == ("jemalloc@9.9", "9.9")
    assert [p.name for p in kept.libraries] == ["libjemalloc.so.2"]
    assert kept.manifest["files"] == [
        {
            "name": "jemalloc-9.9.tar.gz",
            "bytes": len(web.content),
            "sha256": sha256(web.content),
            "from": web.url,
        }
    ]
    again, fetched = fetch(web.url, sha256(web.content))
    assert (again.place, fetched) == (kept.place, False)
    assert len(web.ranges) == 1


def test_a_download_that_broke_goes_on_where_it_stopped(store: Path, web: Web) -> None:
    web.cut = [70_000]
    with pytest.raises(
        Failure,
        match=r"the connection broke after 0\.1 of 0\.2 MB; the next try resumes from there",
    ):
        fetch(web.url, sha256(web.content))
    assert private_store.list_fetched() == []
    kept, _ = fetch(web.url, sha256(web.content))
    assert web.ranges == [None, "bytes=70000-"]
    assert kept.manifest["files"][0]["sha256"] == sha256(web.content)


def test_a_wrong_hash_leaves_nothing(store: Path, web: Web) -> None:
    with pytest.raises(
        Failure,
        match=rf"has the sha256 {sha256(web.content)}, not {'0' * 64}: .*; nothing was kept",
    ):
        fetch(web.url, "0" * 64)
    assert private_store.list_fetched() == []
    assert [p for p in store.rglob("*") if p.is_file() and p.name != ".lock"] == []


def test_a_password_in_an_address_is_kept_nowhere(store: Path, web: Web) -> None:
    """urllib takes no such address; what it says of it has no password either."""
    with pytest.raises(Failure) as caught:
        fetch(web.url.replace("http://", "http://jane:CANARY@"), sha256(web.content))
    assert "CANARY" not in str(caught.value)
    assert "(hidden)@127.0.0.1" in str(caught.value)


def test_an_address_that_is_not_there(store: Path, web: Web) -> None:
    with pytest.raises(Failure, match="404 Not Found"):
        fetch(web.url.replace("9.9.tar", "9.8.tar"), "0" * 64)


def test_a_server_that_is_not_there(store: Path) -> None:
    with pytest.raises(Failure, match=r"Connection refused; the next try resumes at 0\.0 MB"):
        fetch("http://127.0.0.1:9/x.tar.gz", "0" * 64)


def test_an_archive_that_is_broken(store: Path, tarball: Path) -> None:
    tarball.write_bytes(tarball.read_bytes()[:5000])
    with pytest.raises(
        Failure, match=r"jemalloc@9\.9: jemalloc-9\.9\.tar\.gz cannot be unpacked: "
    ):
        fetch(tarball)
    assert not list(store.glob("jemalloc@*")) + list(store.glob(".partial/*"))


def test_an_archive_without_the_library(store: Path, tarball: Path) -> None:
    with pytest.raises(
        Failure,
        match=r"mimalloc@9\.9: no libmimalloc\.so\.3 or libmimalloc\.so\.2 in the download",
    ):
        fetch(tarball, name="mimalloc")


@pytest.fixture
def server_zip(tmp_path: Path) -> Callable[[str], Path]:
    """A zip with a program in it that says it is that version of mysqld, without modes, as jars
    have it.
    """

    def make(version: str) -> Path:
        source, program = tmp_path / "server.c", tmp_path / "mysqld"
        source.write_text(SERVER.format(version))
        os.spawnlp(os.P_WAIT, "cc", "cc", "-o", str(program), str(source))
        path = tmp_path / f"server-{version}.zip"
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr(zipfile.ZipInfo("vendor/mysql-8/bin/mysqld"), program.read_bytes())
            packed.writestr("vendor/mysql-8/share/english/errmsg.sys", b"x")
        return path

    return make


def test_a_server_lies_at_the_root_whatever_is_above_it(
    store: Path, server_zip: Callable[[str], Path]
) -> None:
    kept, _ = fetch(server_zip("8.4.3"), name="mysql", version="8.4")
    assert kept.version == "8.4.3"
    assert (kept.root / "bin/mysqld").exists()
    assert (kept.root / "share/english/errmsg.sys").exists()


def test_a_server_that_does_not_run_is_not_kept(
    store: Path, server_zip: Callable[[str], Path]
) -> None:
    with pytest.raises(Failure, match=r"mysql@8\.4: its server does not run here"):
        fetch(server_zip("no version"), name="mysql", version="8.4")
    assert not private_store.list_fetched()


@pytest.mark.parametrize(
    ("at", "digest", "message"),
    [
        (
            "http://h.example/a.tar.gz",
            None,
            "a download needs the hash that its publisher states: --sha256 HASH",
        ),
        ("http://h.example/a.rpm", "0" * 64, "dballoc cannot unpack this"),
        (
            "http://h.example/a.tar.gz",
            "abc",
            "--sha256 abc: not a SHA-256 hash, which has 64 hexadecimal digits",
        ),
        ("/nowhere/a.tar.gz", None, "--from /nowhere/a.tar.gz: No such file or directory"),
    ],
)
def test_what_is_refused_before_anything_is_done(
    store: Path, at: str, digest: str | None, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        fetch(at, digest)
    assert message in str(caught.value)
    assert not store.exists()


def test_no_room(store: Path, tarball: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_one.directories, "free_bytes", lambda path: 1000)
    with pytest.raises(
        UsageError,
        match=r"about 2 MB of disk needed to fetch jemalloc@9\.9, 0 MB free; make room, or set",
    ):
        fetch(tarball)
    assert private_store.list_fetched() == []


def test_a_directory_that_was_never_finished_counts_for_nothing(store: Path, tarball: Path) -> None:
    (store / "jemalloc@9.9/lib").mkdir(parents=True)
    assert private_store.find_fetched("jemalloc", None) is None
    kept, fetched = fetch(tarball)
    assert fetched
    shutil.rmtree(kept.place)
    assert private_store.list_fetched() == []


def test_two_at_once_are_one_after_the_other(store: Path, web: Web) -> None:
    done: list[bool] = []
    both = [
        threading.Thread(target=lambda: done.append(fetch(web.url, sha256(web.content))[1]))
        for _ in range(2)
    ]
    for each in both:
        each.start()
    for each in both:
        each.join(60)
    assert sorted(done) == [False, True]
    assert len(web.ranges) == 1


# -- sources that the catalogue has no recipe for --------------------------------------------------


def test_sources_are_built_by_the_server_user_and_marked(store: Path, tmp_path: Path) -> None:
    tarball = pack_sources(tmp_path / "jemalloc-3.1.0.tar.gz", "libjemalloc.so.1")
    digest = sha256(tarball.read_bytes())
    kept, fetched = fetch(tarball, digest, version="3.1.0")
    assert fetched
    assert [p.name for p in kept.libraries] == ["libjemalloc.so.1"]
    assert kept.manifest["files"][0]["sha256"] == digest
    assert kept.untried_build == "configure, make, make install"
    built_by = ctypes.c_int.in_dll(ctypes.CDLL(str(kept.libraries[0])), "built_by").value
    assert built_by == (server_user().uid or os.getuid())
    assert built_by != 0
    assert sorted(p.name for p in kept.place.iterdir()) == ["lib", "manifest.json"]
    [item] = [i for i in inventory.list_fetchable("allocator") if i.name == "jemalloc@3.1.0"]
    assert item.more["note"] == (
        "not tried by dballoc's authors: built from an archive of yours by configure, make, make "
        "install"
    )


def test_a_library_in_an_archive_is_not_built(store: Path, tarball: Path) -> None:
    kept, _ = fetch(tarball)
    assert kept.untried_build is None


@pytest.mark.parametrize(
    ("configure", "makefile", "complaint"),
    [
        ("#!/bin/sh\necho error: no compiler; exit 1\n", MAKEFILE, "its build: error: no compiler"),
        ("#!/bin/sh\n", MAKEFILE, "its build: make: "),
        (CONFIGURE, MAKEFILE.replace("SONAME", "libother.so"), "no libjemalloc.so.2 or"),
    ],
)
def test_sources_that_do_not_build_leave_nothing(
    store: Path, tmp_path: Path, configure: str, makefile: str, complaint: str
) -> None:
    tarball = pack_sources(tmp_path / "x.tar.gz", "libjemalloc.so.2", configure, makefile)
    with pytest.raises(Failure, match=f"jemalloc@9.9: {complaint}"):
        fetch(tarball)
    assert private_store.list_fetched() == []
    assert not list(store.glob(".partial/*"))


def test_sources_without_a_configure_are_one_line(store: Path, tmp_path: Path) -> None:
    (tmp_path / "README").touch()
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        tar.add(tmp_path / "README", "README")
    with pytest.raises(
        Failure,
        match=r"no libjemalloc\.so\.2 .* in the download, and no configure to build it with",
    ):
        fetch(tmp_path / "x.tar")


def test_a_whole_c_library_is_not_taken_from_an_archive(tarball: Path) -> None:
    with pytest.raises(UsageError, match="glibc is a whole C library"):
        archive.make_archive_source("glibc", "2.13", str(tarball), None)
