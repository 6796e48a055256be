"""A results directory that is damaged, or that somebody made to do harm: the commands end in one
line, or give a report.
"""

import os
import random
import shutil
import sqlite3
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dballoc.cli import main
from dballoc.document import chart_files
from dballoc.store.open_database import FILE
from dballoc.store.results import Results

pytestmark = pytest.mark.long

Make = Callable[..., Path]
Run = Callable[..., tuple[int, str]]

BIG = 10**400


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """``run("report", DIR)``: exit status, and what it says on standard error. An exception of ours
    is passed on. Charts are specified in the page, but not drawn as pictures, which takes longest.
    """
    monkeypatch.setenv("DBALLOC_TRACEBACK", "1")
    monkeypatch.setattr(chart_files, "write_chart", lambda *_: None)

    def call(*words: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["dballoc", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main.main()
        said = capsys.readouterr().err
        assert said.count("\n") <= 1, said
        return int(ended.value.code or 0), said

    return call


@pytest.fixture
def whole(make: Make) -> Path:
    return make("whole", blocks=2, threads=[1], design="both")


def verbs(directory: Path, other: Path) -> Iterator[list[object]]:
    yield ["compare", directory, other, "--json"]
    yield ["compare", other, directory]
    yield ["deploy", directory, "jemalloc"]
    yield ["combine", directory, other, "--json"]
    out = directory.parent / "combined"
    yield ["combine", other, directory, "--redact", "--out", out]


def copied(directory: Path, name: str) -> Path:
    there = directory.parent / name
    shutil.rmtree(there, ignore_errors=True)
    shutil.copytree(directory, there)
    return there


def test_each_page_overwritten_is_one_line(whole: Path, run: Run) -> None:
    """Every page of the file, with zeros and with noise. With another of its pages (an empty
    table's, say) it may be whole.
    """
    good = (whole / FILE).read_bytes()
    size = struct.unpack_from(">H", good, 16)[0]
    pages = len(good) // size
    assert pages > 10
    random_ = random.Random(7)
    for page in range(pages):
        other = (page + 1) % pages
        for content in (
            bytes(size),
            random_.randbytes(size),
            good[other * size : (other + 1) * size],
        ):
            if content == good[page * size : (page + 1) * size]:
                continue  # two empty tables beside each other
            there = copied(whole, "damaged")
            (there / FILE).write_bytes(good[: page * size] + content + good[(page + 1) * size :])
            status, said = run("compare", whole, there)
            assert status in (1, 2) or content[:1] == b"\n"
            assert not status or said.startswith(f"dballoc: {there / FILE}: ")


@pytest.mark.parametrize("verb", ["report", "deploy", "compare"])
def test_verbs_say_it_in_one_line(whole: Path, run: Run, verb: str) -> None:
    with (whole / FILE).open("r+b") as file:
        file.seek(-5000, os.SEEK_END)
        file.write(b"\xff" * 5000)
    words = {"report": [whole], "deploy": [whole, "glibc"], "compare": [whole, whole]}[verb]
    status, said = run(verb, *words)
    assert status == 2
    assert f"{whole / FILE}: damaged: " in said


@pytest.mark.parametrize("length", [0, 1, 50, 100, 1000, 5000])
def test_a_file_cut_short(whole: Path, run: Run, length: int) -> None:
    os.truncate(whole / FILE, length)
    status, said = run("report", whole)
    assert status == 2
    assert FILE in said


CELLS = [
    (
        "UPDATE campaign SET value = '{' WHERE key = 'environment'",
        "campaign: environment: not JSON",
    ),
    (
        "UPDATE campaign SET value = '{\"host\": 7}' WHERE key = 'environment'",
        "campaign: environment.host: ",
    ),
    *(
        (
            f"UPDATE campaign SET value = '{{\"host\": \"a{letter}\"}}' WHERE key = 'environment'",
            "campaign: environment.host: ",
        )
        for letter in ("\\u0001", "\\u001b", "\ufffe", "\u202e")
    ),
    ("INSERT INTO host VALUES ('a' || char(27), 'k', '{}')", "host.host: "),
    ("INSERT INTO host VALUES ('a', 'k', '{\"os\": \"\\u0001\"}')", "host.environment: os: "),
    (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 10001) "
        "INSERT INTO host SELECT i, 'k', '{}' FROM n",
        "host: more than 10,000 rows",
    ),
    (
        f"UPDATE campaign SET value = '{{\"memory\": {BIG}}}' WHERE key = 'environment'",
        "is too large",
    ),
    (
        f"UPDATE campaign SET value = '{'[' * 100_000}' WHERE key = 'environment'",
        "nests too deeply",
    ),
    (f"UPDATE campaign SET value = '{'9' * 5000}' WHERE key = 'environment'", "is too large"),
    ("UPDATE campaign SET value = '[1]' WHERE key = 'duet'", "campaign: duet: "),
    ("UPDATE campaign SET value = '{}' WHERE key = 'duet'", "campaign: duet: halves"),
    (
        "UPDATE campaign SET value = '{}' WHERE key = 'planned_blocks'",
        "planned_blocks: solo is missing",
    ),
    (
        "UPDATE campaign SET value = 'quartet' WHERE key = 'designs'",
        "campaign: designs: not JSON",
    ),
    (
        "UPDATE campaign SET value = '[\"quartet\"]' WHERE key = 'designs'",
        "campaign: designs.0: Input should be 'solo', 'duet' or 'turns'",
    ),
    (
        "UPDATE campaign SET value = '[\"solo\", \"solo\"]' WHERE key = 'designs'",
        "is not a list of solo, duet and turns",
    ),
    ("UPDATE campaign SET value = 'soon' WHERE key = 'started'", "campaign: started: not JSON"),
    (
        "UPDATE campaign SET value = '1e300' WHERE key = 'started'",
        "campaign: started: Input should be less",
    ),
    ("DELETE FROM campaign WHERE key = 'experiment'", "campaign: experiment: Field required"),
    ("UPDATE campaign SET value = 'a = ' WHERE key = 'experiment'", "not TOML"),
    (
        f"UPDATE campaign SET value = 'a = {'[' * 50_000}' WHERE key = 'experiment'",
        "nests too deeply",
    ),
    ("UPDATE campaign SET value = x'ff00' WHERE key = 'experiment'", "is not text"),
    ("UPDATE campaign SET value = 7.5 WHERE key = 'dballoc'", None),
    ("UPDATE variant SET libraries = '[' WHERE name = 'glibc'", "variant.libraries: not JSON"),
    ("UPDATE variant SET libraries = '{}' WHERE name = 'glibc'", "variant.libraries: "),
    ("UPDATE variant SET environment = '[]' WHERE name = 'glibc'", "variant.environment: "),
    ("UPDATE variant SET command = '[1]' WHERE name = 'glibc'", "variant.command: 0: "),
    ("DELETE FROM variant WHERE name = 'jemalloc'", "differ from those of the experiment"),
    ("UPDATE trial SET variant = 'nobody'", "not in the experiment"),
    ("UPDATE trial SET rss_peak = 'much'", "trial.rss_peak: "),
    ("UPDATE trial SET rss_peak = 9223372036854775807", "trial.rss_peak: "),
    ("UPDATE trial SET rss_peak = 9e999", "trial.rss_peak: "),
    ("UPDATE trial SET rss_peak = x'00'", "trial.rss_peak: "),
    ("UPDATE trial SET rss_peak = 0", None),
    ("UPDATE trial SET rss_peak = -1", None),
    ("UPDATE trial SET rss_peak = NULL", None),
    ("UPDATE trial SET directory = '../../../../etc'", "trial.directory: "),
    ("UPDATE trial SET directory = '/etc'", "trial.directory: "),
    ("UPDATE trial SET started = 1e300", "trial.started: "),
    ("UPDATE trial SET block = block - 3", "block -2"),
    ("UPDATE trial SET proof = '{'", "proof: not JSON"),
    ("UPDATE step SET tps = 1e300", "step.tps: "),
    ("UPDATE step SET tps = 0", None),
    ("UPDATE step SET seconds = 0", None),
    ("UPDATE step SET threads = 77 WHERE kind = 'level'", "step.threads: not in the experiment"),
    ("UPDATE step SET workload = 'none'", "step.workload: not in the experiment"),
    ("UPDATE slice SET half = 7", "slice.half: "),
    ("UPDATE slice SET cpu = 0", None),
    ("UPDATE slice SET events = 0", None),
    ("UPDATE interval SET seconds = 0", None),
    ("UPDATE ledger SET owner = x'ff'", "ledger.owner: "),
    ("UPDATE trial SET fault_text = CAST(x'ff80' AS TEXT)", "Could not decode to UTF-8"),
    ("UPDATE variant SET libraries = '[\"\\ud800\"]' WHERE name = 'glibc'", None),
    ("DELETE FROM trial WHERE variant = 'glibc'", None),
    ("DELETE FROM trial WHERE block = 1 AND role = 'A1'", None),
    ("DELETE FROM step", None),
    ("DELETE FROM slice WHERE slice > 0", None),
    ("DELETE FROM block", None),
]


@pytest.mark.parametrize(("change", "says"), CELLS, ids=[change[:70] for change, _ in CELLS])
def test_cells_that_cannot_be(
    make: Make, whole: Path, run: Run, change: str, says: str | None
) -> None:
    """``says`` None: it may be so, and what is made of it ends well."""
    directory = make("changed", blocks=2, threads=[1], design="both", sql=(change,))
    for words in (["report", directory, "--redact"], *verbs(directory, whole)):
        status, said = run(*words)
        if says is None:
            assert status in (0, 1, 2)
        else:
            assert status in (1, 2)
            assert says in said
            assert str(directory) in said


SCHEMAS = [
    "DROP TABLE ledger; CREATE VIEW ledger AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
    "SELECT i AS trial, i AS line, 'a' AS part, 'b' AS owner, i AS resident, i AS size FROM n",
    "CREATE TRIGGER t AFTER INSERT ON campaign BEGIN UPDATE campaign SET value = 'x'; END",
    "CREATE INDEX i ON trial (abs(rss_peak))",
    "CREATE VIRTUAL TABLE f USING fts5(a)",
    "CREATE TABLE more (a)",
    "ALTER TABLE trial ADD COLUMN more TEXT",
    "DROP TABLE slice",
    "ALTER TABLE step RENAME COLUMN tps TO spt",
    "DROP TABLE campaign",
    "DROP TABLE campaign; CREATE VIEW campaign AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
    "SELECT i AS key, i AS value FROM n",
]


@pytest.mark.parametrize("change", SCHEMAS)
def test_another_schema_is_not_looked_at(make: Make, run: Run, change: str) -> None:
    directory = make(
        "changed", blocks=1, sql=tuple(change.split("; ")) if "TRIGGER" not in change else (change,)
    )
    status, said = run("report", directory)
    assert status == 2
    assert "not a results database of" in said


def test_another_format_is_named_before_its_schema_is_looked_at(make: Make, run: Run) -> None:
    directory = make(
        "old",
        blocks=1,
        sql=("UPDATE campaign SET value = '2' WHERE key = 'format'", "DROP TABLE ledger"),
    )
    status, said = run("report", directory)
    assert status == 2
    assert "this dballoc reads format" in said


def journal(of: Path, aim: Path) -> bytes:
    """A journal without a page in it, which names another file, as SQLite writes it for several
    databases at once.
    """
    name = os.fsencode(aim)
    head = bytes.fromhex("d9d505f920a163d7") + struct.pack(
        ">5I", 0, 1, of.stat().st_size // 4096, 512, 4096
    )
    tail = (
        struct.pack(">I", 0x40000000 // 4096 + 1) + name + struct.pack(">2I", len(name), sum(name))
    )
    return head.ljust(512, b"\0") + tail + bytes.fromhex("d9d505f920a163d7")


def test_sqlite_itself_removes_what_a_journal_names(whole: Path, tmp_path: Path) -> None:
    """Without this the next test would say nothing."""
    (tmp_path / "precious").write_text("data")
    (whole / f"{FILE}-journal").write_bytes(journal(whole / FILE, tmp_path / "precious"))
    sqlite3.connect(whole / FILE).execute("SELECT count(*) FROM trial").fetchone()
    assert not (tmp_path / "precious").exists()


def test_a_journal_removes_nothing_but_itself(whole: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("data")
    (whole / f"{FILE}-journal").write_bytes(journal(whole / FILE, tmp_path / "precious"))
    for words in (["report", whole], ["compare", whole, whole], ["deploy", whole, "glibc"]):
        status, said = run(*words)
        assert status == 2
        assert "names another file" in said
    assert (tmp_path / "precious").read_text() == "data"


def test_a_running_campaign_is_read(whole: Path) -> None:
    """SQLite removes the journal at the end of each transaction, at any moment of the check."""
    done = threading.Event()

    def write() -> None:
        results = Results.open(whole)
        while not done.is_set():
            results.change_facts(ended=time.time())
            time.sleep(0.002)
        results.close()

    with ThreadPoolExecutor() as pool:
        writer = pool.submit(write)
        try:
            for _ in range(200):
                Results.open(whole, read_only=True).close()
        finally:
            done.set()
        writer.result()


@pytest.mark.parametrize("name", [FILE, f"{FILE}-journal", f"{FILE}-wal"])
@pytest.mark.timeout(60)
def test_a_fifo_does_not_block(whole: Path, run: Run, name: str) -> None:
    (whole / name).unlink(missing_ok=True)
    os.mkfifo(whole / name)
    status, said = run("report", whole)
    assert status == 2
    assert "not a plain file" in said


def test_a_database_in_another_mode(whole: Path, run: Run) -> None:
    db = sqlite3.connect(whole / FILE)
    db.execute("PRAGMA journal_mode = WAL")
    db.close()
    status, said = run("report", whole)
    assert status == 2
    assert FILE in said


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(data=st.data())
def test_a_mutated_file_is_read_or_refused(tmp_path: Path, make: Make, data: st.DataObject) -> None:
    """Flipped, spliced and cut: whatever opens gives tables, or UsageError or Failure."""
    from dballoc.ground.errors import Failure, UsageError
    from dballoc.questions.compare.campaign_tables import read_results

    good = tmp_path / "good"
    if not good.exists():
        make("good", blocks=1, threads=[1])
    content = bytearray((good / FILE).read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(content) - 1))
        piece = data.draw(
            st.one_of(
                st.binary(min_size=1, max_size=8),
                st.integers(0, 4095).map(lambda n: bytes(content[n : n + 64])),
            )
        )
        content[at : at + len(piece)] = piece
    there = tmp_path / "mutated"
    there.mkdir(exist_ok=True)
    (there / FILE).write_bytes(content)
    refusal = ""
    try:
        assert read_results(there).experiment.variant
    except (UsageError, Failure) as error:
        refusal = str(error)
    assert "\n" not in refusal


FIGURES = [
    "",
    "{",
    "[]",
    "{}",
    "[" * 100_000,
    '{"seconds": 1e999}',
    f'{{"seconds": {BIG}}}',
    '{"seconds": 0, "malloc": []}',
]


@pytest.mark.parametrize("content", FIGURES, ids=lambda text: text[:20])
@pytest.mark.parametrize("kind", ["heap", "contention"])
def test_files_beside_the_database(make: Make, run: Run, content: str, kind: str) -> None:
    """What profiling has left: broken figures, no profiles, notes that are no UTF-8."""
    directory = make("profiled", blocks=1, threads=[1], profile=kind)
    db = sqlite3.connect(directory / FILE)
    names = [row[0] for row in db.execute("SELECT directory FROM trial")]
    db.close()
    for number, name in enumerate(names):
        place = directory / "trials" / name / ("heap" if kind == "heap" else "")
        place.mkdir(parents=True)
        (place / f"{kind}-oltp_read_only.json").write_text(content)
        (place / f"{kind}-oltp_read_only.profile.json.gz").write_text(content)
        (directory / "trials" / name / "server.log").write_bytes(b"n_lock_ops\n" + b"\xff" * 100)
        if number % 2:
            (place / f"{kind}-oltp_read_only.txt").write_bytes(b"caf\xe9")
    assert run("report", directory) == (0, "")
