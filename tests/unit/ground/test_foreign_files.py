"""Files that others made or named: no verb waits for one that is no regular file, follows a link in
somebody else's directory, or reads another file than it checked.
"""

import hashlib
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from example_explanations import look
from example_profiles import heap
from example_results import BARE_FACTS

from dballoc.cli import main
from dballoc.explain.output import saved_snapshots
from dballoc.fetch import fetch_one
from dballoc.fetch.clients import archive
from dballoc.ground import readers
from dballoc.ground.errors import Failure, UsageError
from dballoc.ground.files.foreign_file import NotRegular, open_foreign_file
from dballoc.intake import import_results
from dballoc.intake.imported_figure import ImportedFigure
from dballoc.profile.formats import profile_file
from dballoc.store.facts import format_facts
from dballoc.store.open_database import FILE
from dballoc.store.results import Results

pytestmark = pytest.mark.long

# Seconds that a verb may take to refuse a file.
PATIENCE = 60
OTHER = 12345
as_root = pytest.mark.skipif(os.getuid() != 0, reason="gives files to another user")


@pytest.fixture(autouse=True)
def impatient() -> Iterator[None]:
    """End a test that waits for a FIFO, with an exception: nothing else does."""

    def give_up(number: int, frame: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def kinds(directory: Path) -> Iterator[Path]:
    """Make what is no regular file."""
    os.mkfifo(directory / "fifo")
    (directory / "directory").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "socket"))
    yield from (directory / "fifo", directory / "directory", directory / "socket")
    yield Path("/dev/zero")


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    for path in kinds(tmp_path):
        with pytest.raises(NotRegular, match="not a plain file"):
            open_foreign_file(path)
        with pytest.raises(readers.Unfit, match="not a plain file"):
            readers.content(path)


def test_the_users_own_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").symlink_to("a")
    assert readers.content(tmp_path / "b") == b"1"
    (tmp_path / "directory").symlink_to(".")
    assert readers.content(tmp_path / "directory/a", below=tmp_path / "directory") == b"1"


def test_no_link_is_followed_in_somebodys_directory(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "inner").mkdir(parents=True)
    (tmp_path / "secret").write_bytes(b"1")
    (home / "inner/secret").write_bytes(b"2")
    (home / "file").symlink_to("../secret")
    (home / "upper").symlink_to("..")
    (home / "same").symlink_to("inner")
    assert readers.content(home / "inner/secret", below=home) == b"2"
    for name in ("file", "upper/secret", "same/secret"):
        with pytest.raises(readers.Unfit, match="is a link, which is not followed here"):
            readers.content(home / name, below=home)
    for path in (home / "../secret", tmp_path / "secret"):
        with pytest.raises(readers.Unfit):
            readers.content(path, below=home)


def test_what_was_checked_is_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"1")
    with open_foreign_file(path) as file:
        path.unlink()
        os.mkfifo(path)
        assert file.read() == b"1"


# What a verb is given: "{0}" becomes a FIFO.
VERBS = {
    "aa": ["aa", "{0}"],
    "bench": ["bench", "{0}", "--dry-run"],
    "bench my.cnf": ["bench", "--defaults-file", "{0}", "--dry-run"],
    "bench sql": ["bench", "--data-sql", "{0}", "--dry-run"],
    "explain --from": ["explain", "--from", "{0}"],
    "explain --from .gz": ["explain", "--from", "{0}.gz"],
    "explain --diff": ["explain", "--diff", "{0}", "{0}"],
    "explain --diff second": ["explain", "--diff", "{good}", "{0}"],
    "explain --token-file": [
        "explain", "--pid", "self", "--listen", "127.0.0.1:9109", "--token-file", "{0}",
    ],
    "explain --tls-cert": [
        "explain", "--pid", "self", "--listen", "127.0.0.1:9109", "--token-file", "{token}",
        "--tls-cert", "{0}", "--tls-key", "{good}",
    ],
    "explain --tls-key": [
        "explain", "--pid", "self", "--listen", "127.0.0.1:9109", "--token-file", "{token}",
        "--tls-cert", "{good}", "--tls-key", "{0}",
    ],
    "fetch": ["fetch", "jemalloc@9.9", "--from", "{0}.tar.gz"],
    "fetch deb": ["fetch", "jemalloc@9.9", "--from", "{0}.deb"],
    "fit": ["fit", "{0}", "--dry-run"],
    "import": ["import", "{0}.csv", "--out", "{out}"],
    "import mapping": ["import", "{runs}", "--mapping", "{0}", "--out", "{out}"],
    "profile diff": ["profile", "diff", "{0}.profile.json.gz", "{0}.profile.json.gz"],
    "profile diff second": ["profile", "diff", "{profile}", "{0}.profile.json.gz"],
    "profile export": ["profile", "export", "{0}.profile.json.gz", "--format", "pprof"],
    "profile massif": ["profile", "massif", "{0}.profile.json.gz"],
    "replay": ["replay", "{0}"],
    "trace anonymise": ["trace", "anonymise", "{0}.trace", "-o", "{out}"],
    "trace compile": ["trace", "compile", "{0}.recording", "-o", "{out}"],
    "trace cut": ["trace", "cut", "{0}.trace", "--from", "1s", "-o", "{out}"],
    "trace import": ["trace", "import", "{0}", "--format", "glibc", "-o", "{out}"],
    "trace info": ["trace", "info", "{0}.trace"],
    "trace repeat": ["trace", "repeat", "{0}.toml", "-o", "{out}"],
    "trace verify": ["trace", "verify", "{0}.trace"],
    "tune": ["tune", "{0}", "--dry-run"],
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_waits_for_a_fifo(
    verb: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/a.txt").write_text("a")
    (tmp_path / "token").write_text("0123456789abcdef" * 4)
    (tmp_path / "token").chmod(0o600)
    saved_snapshots.save_snapshot(look(), tmp_path / "good.json")
    profile_file.save_profile(heap(), tmp_path / "good.profile.json.gz")
    for word in VERBS[verb]:
        if word.startswith("{0}") and not (fifo := tmp_path / word.format("fifo")).exists():
            os.mkfifo(fifo)
    words = [
        word.format(
            tmp_path / "fifo",
            good=tmp_path / "good.json",
            profile=tmp_path / "good.profile.json.gz",
            token=tmp_path / "token",
            out=tmp_path / "out",
            runs=tmp_path / "runs",
        )
        for word in VERBS[verb]
    ]
    words = [str(os.getpid()) if word == "self" else word for word in words]
    monkeypatch.setenv("DBALLOC_TRACEBACK", "1")
    monkeypatch.setenv("DBALLOC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DBALLOC_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(sys, "argv", ["dballoc", *words])
    with pytest.raises(SystemExit) as ended:
        main.main()
    line = capsys.readouterr().err
    assert ended.value.code in (1, 2), line
    assert line.count("\n") == 1, line
    assert re.search("not a (plain|regular) file", line), line
    assert "fifo" in line, line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", [FILE, f"{FILE}-journal", f"{FILE}-wal"])
@pytest.mark.parametrize("verb", ["report", "compare", "combine", "deploy"])
def test_no_verb_waits_for_a_fifo_in_results(
    verb: str,
    name: str,
    make: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    directory = make("a", blocks=2, threads=[1])
    (directory / name).unlink(missing_ok=True)
    os.mkfifo(directory / name)
    words = {"report": [], "deploy": ["jemalloc"]}.get(verb, [directory])
    monkeypatch.setattr(sys, "argv", ["dballoc", verb, str(directory), *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2
    assert "not a plain file" in capsys.readouterr().err


SECRET = "b7f2 is in root's file alone"


@pytest.mark.parametrize("kind", ["fifo", "link"])
def test_a_report_takes_nothing_from_outside_its_directory(
    kind: str, make: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Profiles, their notes and logs in a directory of somebody else's."""
    directory = make("a", blocks=2, threads=[1], profile="contention")
    (tmp_path / "secret").write_text(SECRET)
    with sqlite3.connect(directory / FILE) as db:
        rows = db.execute("SELECT directory FROM trial").fetchall()
    db.close()
    for (raw,) in rows:
        place = directory / "trials" / raw
        place.mkdir(parents=True, exist_ok=True)
        names = ["server.log", "contention-oltp_read_only.txt"]
        if kind == "fifo":
            names.append("contention-oltp_read_only.profile.json.gz")
        for name in names:
            (place / name).unlink(missing_ok=True)
            if kind == "fifo":
                os.mkfifo(place / name)
            else:
                (place / name).symlink_to(tmp_path / "secret")
    monkeypatch.setattr(
        sys, "argv", ["dballoc", "report", str(directory), "--out", str(tmp_path / "out")]
    )
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert not ended.value.code
    assert SECRET not in (tmp_path / "out/report.md").read_text()


@as_root
@pytest.mark.parametrize("killed", [False, True], ids=["whole", "with a hot journal"])
def test_sqlite_opens_no_file_of_somebody_elses(
    tmp_path: Path, killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner could put a FIFO or a link in its place after each look."""
    from example_results import INTERRUPTED_WRITER

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    directory = tmp_path / "a"
    directory.mkdir()
    Results.create(directory, BARE_FACTS, []).close()
    if killed:
        subprocess.run([sys.executable, "-c", INTERRUPTED_WRITER, directory / FILE], check=False)
        assert (directory / f"{FILE}-journal").exists()
    for path in (directory, *directory.iterdir()):
        os.chown(path, OTHER, OTHER)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    opened: list[str] = []
    connect = sqlite3.connect

    def watch(name: str, **options: object) -> sqlite3.Connection:
        opened.append(name)
        return connect(name, **options)

    monkeypatch.setattr(sqlite3, "connect", watch)
    results = Results.open(directory, read_only=True)
    assert results.facts() == BARE_FACTS
    results.close()
    assert opened
    assert not [name for name in opened if name.startswith(directory.as_uri())]
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@as_root
def test_a_writer_ends_its_transaction_before_its_database_is_copied(tmp_path: Path) -> None:
    Results.create(tmp_path, BARE_FACTS, []).close()
    for path in (tmp_path, *tmp_path.iterdir()):
        os.chown(path, OTHER, OTHER)
    db = sqlite3.connect(tmp_path / FILE, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA cache_size = 1")
    db.execute("BEGIN EXCLUSIVE")
    db.executemany("INSERT INTO campaign VALUES (?, ?)", [(f"k{i}", "x" * 999) for i in range(200)])
    # In a process of its own: locks are a process's.
    command = [sys.executable, "-c", READER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        ending = threading.Timer(1.0, lambda: db.execute("COMMIT"))
        ending.start()
        answer, _ = reader.communicate(timeout=PATIENCE)
        ending.join()
    db.close()
    assert int(answer) == 201 + len(format_facts(vars(BARE_FACTS)))


READER = """
import sys
from pathlib import Path
from dballoc.store.results import Results
print(len(Results.open(Path(sys.argv[1]), read_only=True).table("campaign")))
"""


@pytest.fixture
def tarballs(
    tmp_path: Path, c_library: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A good and a bad archive."""
    monkeypatch.setenv("DBALLOC_STORE", str(tmp_path / "store"))
    library = c_library("libjemalloc", "int mine(void) { return 1; }")
    for name in ("good", "bad"):
        with tarfile.open(tmp_path / f"{name}.tar.gz", "w:gz") as tar:
            tar.add(library, f"{name}/lib/libjemalloc.so.2")
            tar.add(__file__, f"{name}/lib/{name}.py")
    return tmp_path


@pytest.mark.parametrize("in_place", [False, True], ids=["another file", "the same file"])
def test_what_is_unpacked_is_what_was_hashed(
    tarballs: Path, monkeypatch: pytest.MonkeyPatch, in_place: bool
) -> None:
    """Its owner changes the archive once its hash is known."""
    path = tarballs / "a.tar.gz"
    shutil.copyfile(tarballs / "good.tar.gz", path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    unpacked = []
    check, unpack = archive.check_hash, archive.unpack_archive

    def swap(*arguments: object) -> None:
        check(*arguments)
        if in_place:
            path.write_bytes((tarballs / "bad.tar.gz").read_bytes())
        else:
            (tarballs / "bad.tar.gz").replace(path)

    def note(job: object, archive_path: Path, tree: Path) -> None:
        unpack(job, archive_path, tree)
        unpacked.extend(entry.name for entry in tree.iterdir())

    monkeypatch.setattr(archive, "check_hash", swap)
    monkeypatch.setattr(archive, "unpack_archive", note)
    fetch_one.fetch(
        archive.make_archive_source("jemalloc", "9.9", str(path), digest), lambda *_: None
    )
    assert unpacked == ["good"]


def test_an_archive_that_grows_is_not_copied_for_ever(
    tarballs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tarballs / "good.tar.gz"
    source = archive.make_archive_source("jemalloc", "9.9", str(path), None)
    with path.open("ab") as file:
        file.truncate(1 << 30)
    with pytest.raises(Failure, match="grew while it was copied"):
        fetch_one.fetch(source, lambda *_: None)
    assert not list((tarballs / "store").rglob("*.tar.gz"))


def test_a_results_directory_that_is_missing_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a results directory"):
        Results.open(tmp_path / "none", read_only=True)
    assert not (tmp_path / "none").exists()


CSV = "workload,threads,variant,tps\nro,1,glibc,100\nro,1,jemalloc,110\n"


@pytest.mark.parametrize("when", ["before", "meanwhile", "in place"])
def test_what_is_imported_is_what_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Its owner changes a file after its figures were read."""
    path = tmp_path / "a.csv"
    path.write_text(CSV)
    (tmp_path / "b.csv").write_text(CSV.replace("110", "990"))
    read = import_results.figure_tables.read_figures

    def swap(file: Path) -> list[ImportedFigure]:
        figures = read(file)
        if when == "meanwhile":
            (tmp_path / "b.csv").replace(path)
        elif when == "in place":
            path.write_text(CSV.replace("110", "990"))
        return figures

    monkeypatch.setattr(import_results.figure_tables, "read_figures", swap)
    if when == "before":
        import_results.import_results([path], tmp_path / "out")
        assert (tmp_path / "out/imported/a.csv").read_text() == CSV
        return
    with pytest.raises(Failure, match="it changed while it was imported"):
        import_results.import_results([path], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_no_link_is_imported(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "import.toml").write_text('files = "{variant}-{threads}.txt"\n')
    (tmp_path / "secret").write_text(SECRET)
    (runs / "glibc-1.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(UsageError, match="is a link, which is not followed here"):
        import_results.import_results([runs], tmp_path / "out")
