"""dballoc fetch where it goes wrong: one line each, nothing half-installed, nothing left
running.
"""

import hashlib
import http.server
import io
import json
import os
import shutil
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import Cli, rows, wait_until

from example_malloc_sources import pack_sources


def one_line(done, status: int, words: str) -> None:  # type: ignore[no-untyped-def]
    assert done.status == status, done.text
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert words in lines[0]


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """An archive that does not compress, larger than the small disk."""
    path = tmp_path / "big.tar"
    with tarfile.open(path, "w") as tar:
        ballast = tarfile.TarInfo("lib/libjemalloc.so.2")
        ballast.size = 40 * 2**20
        tar.addfile(ballast, io.BytesIO(os.urandom(ballast.size)))
    return path


@pytest.fixture
def web(big: Path) -> Iterator[Callable[[float], str]]:
    """``web(seconds)``: the archive's URL, each mebibyte of it after so many seconds."""
    pause = [0.0]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = big.read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            for at in range(0, len(content), 2**20):
                try:
                    self.wfile.write(content[at : at + 2**20])
                except OSError:
                    return
                time.sleep(pause[0])

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def url(seconds: float) -> str:
        pause[0] = seconds
        return f"http://127.0.0.1:{server.server_port}/big.tar"

    yield url
    server.shutdown()
    server.server_close()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("mysql", "--from", "/nowhere.tar.gz"),
            "--from: give the archive's version: mysql@VERSION",
        ),
        (
            ("mysql@8.4", "mysql@8.0", "--from", "/nowhere.tar.gz"),
            "--from is the archive of one NAME@VERSION",
        ),
        (("mysql@8.4", "--sha256", "0" * 64), "--sha256 only goes with --from"),
    ],
)
def test_what_cannot_be_asked(run_cli: Cli, words: tuple[str, ...], message: str) -> None:
    one_line(run_cli("fetch", *words), 2, message)


def test_an_experiment_that_names_what_is_not_here(
    run_cli: Cli, tiny_experiment, out: Path
) -> None:  # type: ignore[no-untyped-def]
    file = tiny_experiment(
        variant=[{"name": "glibc"}, {"name": "old", "allocator": "jemalloc@5.2.1"}]
    )
    one_line(
        run_cli("bench", file, "--out", out),
        2,
        "allocator 'jemalloc@5.2.1' is not here; fetch it: dballoc fetch jemalloc@5.2.1",
    )
    file = tiny_experiment(server={"use": "mysql@5.6"})
    one_line(
        run_cli("bench", file, "--out", out),
        2,
        "server 'mysql@5.6' is not here; fetch it: dballoc fetch mysql@5.6",
    )
    file = tiny_experiment(server={"glibc": "2.41"})
    one_line(
        run_cli("bench", file, "--out", out),
        2,
        "glibc 2.41 is not here; fetch it: dballoc fetch glibc@2.41",
    )
    # All at once where there are several.
    file = tiny_experiment(
        server={"use": "mysql@5.6"},
        variant=[{"name": "glibc"}, {"name": "old", "allocator": "jemalloc@5.2.1"}],
    )
    several = (
        "2 servers or libraries are missing; fetch them: dballoc fetch mysql@5.6.14 jemalloc@5.2.1"
    )
    one_line(run_cli("bench", file, "--out", out), 2, several)
    assert not out.exists()


def test_a_client_that_is_missing(run_cli: Cli, tmp_path: Path, out: Path) -> None:
    out.parent.chmod(0o755)  # builds run as the server user, who must be able to pass
    env = {"PATH": str(tmp_path), "DBALLOC_STORE": str(out.parent / "store")}
    one_line(
        run_cli("fetch", "jemalloc@5.2.1", env=env),
        2,
        "apt-get is not on this machine: Debian's packages come through apt",
    )
    one_line(
        run_cli("fetch", "snmalloc", env=env),
        2,
        "cargo is not on this machine: snmalloc@0.7.6 is built here from its sources",
    )


def test_an_archive_that_the_disk_has_no_room_for(
    run_cli: Cli, needs_root: None, small_disk: Callable[[str], Path], big: Path
) -> None:
    disk = small_disk("24M")
    done = run_cli("fetch", "jemalloc@9", "--from", big, env={"DBALLOC_STORE": str(disk / "store")})
    one_line(
        done,
        2,
        "MB of disk needed to fetch jemalloc@9, 25 MB free; make room, or set DBALLOC_STORE",
    )
    shutil.rmtree(disk / "store")


def test_a_disk_that_is_full_on_the_way(
    run_cli: Cli,
    needs_root: None,
    small_disk: Callable[[str], Path],
    big: Path,
    web: Callable[[float], str],
) -> None:
    store = small_disk("24M") / "store"
    words = ("fetch", "jemalloc@9", "--from", web(0.0), "--sha256", digest(big))
    one_line(run_cli(*words, env={"DBALLOC_STORE": str(store)}), 1, "jemalloc@9: no space left on")
    assert not list(store.glob("jemalloc@*")) + list(store.glob(".partial/*"))


def test_kill_leaves_nothing_but_the_download(
    run_cli: Cli, big: Path, web: Callable[[float], str], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    process = run_cli.start(
        "fetch",
        "jemalloc@9",
        "--from",
        web(0.2),
        "--sha256",
        digest(big),
        env={"DBALLOC_STORE": str(store)},
    )
    part = store / "downloads/jemalloc@9/big.tar.part"
    wait_until(lambda: part.exists() and part.stat().st_size)
    assert list(store.glob(".partial/*"))
    process.kill()
    process.communicate()
    wait_until(lambda: not list(store.glob(".partial/*")))
    assert part.exists()
    assert not list(store.glob("jemalloc@*"))


def test_the_list_says_what_is_here_and_what_can_be_fetched(run_cli: Cli) -> None:
    done = run_cli("list", "allocators", "--json")
    assert done.status == 0, done.text
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert rows["jemalloc@5.2.1"]["here"] is None
    assert rows["jemalloc@5.2.1"]["remedy"].startswith(
        "dballoc fetch jemalloc@5.2.1 (1 MB, 1 MB on disk)"
    )
    assert rows["builtin"]["what"] == "what the server was built with"
    done = run_cli("list", "servers", "mysql@9.7", "--json")
    assert [row["name"] for row in json.loads(done.stdout)] == ["mysql@9.7"]


def test_nothing_to_prove(run_cli: Cli) -> None:
    one_line(
        run_cli("list", "workloads", "--prove"),
        2,
        "--prove is for allocators and servers, not for workloads",
    )
    one_line(
        run_cli("list", "servers", "mysql@9.7", "--prove"),
        2,
        "--prove: none of these servers is on this machine; dballoc fetch mysql@9.7",
    )
    one_line(run_cli("list", "allocators", "malloc"), 2, "no 'malloc' among the allocators")


def test_a_stand_in_gives_way_to_what_was_fetched_but_not_in_what_was_begun(
    run_cli: Cli, tiny_experiment, out: Path, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    out.parent.chmod(0o755)  # builds run as the server user, who must be able to pass
    env = {"DBALLOC_STORE": str(out.parent / "store")}
    stand_in = {"name": "old", "allocator": "jemalloc", "stands_for": "rpmalloc 9.9"}
    file = tiny_experiment(
        variant=[{"name": "glibc"}, stand_in],
        time={"idle": "0s"},
        post={
            "source": "a post",
            "variants": {"glibc": "glibc", "old": "rpmalloc 9.9"},
            "paragraphs": {"variants": "paragraph 1"},
        },
    )

    def list_mallocs(results: Path) -> set[tuple[str, str]]:
        found = rows(results, "SELECT name, allocator_version FROM variant WHERE name = 'old'")
        return {(row["name"], row["allocator_version"]) for row in found}

    done = run_cli("bench", file, "--out", out, env=env)
    assert done.status == 0, done.text
    [(_, stands)] = list_mallocs(out)
    assert stands != "9.9"

    sources = pack_sources(tmp_path / "rpmalloc-9.9.tar.gz", "librpmalloc.so")
    words = ("rpmalloc@9.9", "--from", sources, "--sha256")
    one_line(run_cli("fetch", *words, "0" * 64, env=env), 1, "has the sha256")
    done = run_cli("fetch", *words, digest(sources), env=env)
    assert done.status == 0, done.text
    assert "built by configure, make, make install: not tried by dballoc's authors" in done.text

    # What was begun goes on as it was.
    done = run_cli("bench", file, "--out", out, env=env)
    assert done.status == 0, done.text
    assert "is in the store" not in done.text

    says = "old: rpmalloc@9.9 is in the store and runs, not its stand-in jemalloc"
    done = run_cli("bench", file, "--dry-run", env=env)
    assert says in done.stderr
    assert "rpmalloc 9.9 (" in done.stdout
    other = out.with_name("other")
    done = run_cli("bench", file, "--out", other, "--report", env=env)
    assert done.status == 0, done.text
    assert list_mallocs(other) == {("old", "9.9")}
    assert {r["outcome"] for r in rows(other, "SELECT outcome FROM trial")} == {"ok"}
    assert "Stand-ins" not in done.text
    notes = " ".join(done.stdout.split())
    assert (
        "old: not tried by dballoc's authors: its allocator was built from an archive by" in notes
    )
    assert "here: rpmalloc" not in done.text
    shutil.rmtree(other)
