"""Open a results database that may be damaged, or made by somebody who means harm. Nothing in it is
run, or says what is.

SQLite itself acts on what is in a file and beside it: views and triggers run for as long as they
like, expressions of the schema call functions, and a journal may name another file, which is
removed once it is rolled back (a "super-journal").
"""

import re
import sqlite3
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from dballoc import readers
from dballoc.errors import UsageError

FILE = "results.sqlite"

# Raise it when schema.sql changes.
FORMAT = 3

# Bytes. A campaign of a month with a sample a second has some 200 MB.
_LARGEST = 2**31
# Of one cell: the end of a server's log, an experiment.
LONGEST_CELL = 4 * readers.MIB
# Steps of SQLite's machine in one look; the largest table takes a hundredth of it.
_STEPS = 2_000_000_000
_STEP = 10_000_000

_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: LONGEST_CELL,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_COLUMN: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 10,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 10,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
# At the end of a journal that names another file (pager.c, readSuperJournal).
_JOURNAL = bytes.fromhex("d9d505f920a163d7")
_FACTS = ("table", "campaign")
_COMMENT = re.compile(r"--[^\n]*")


def connect(directory: Path, read_only: bool) -> sqlite3.Connection:
    """The database of a results directory, checked to be whole and ours. UsageError in one line if
    it is not.
    """
    path = directory / FILE
    try:
        _check_files(path)
        if read_only and path.with_name(f"{FILE}-journal").exists():
            # Left by a writer that was killed in the middle: a writer's opening rolls it back, a
            # reader's cannot.
            _connected(path, "rw").close()
        db = _connected(path, "ro" if read_only else "rw")
    except readers.Unfit as error:
        raise UsageError(f"{path}: {error}") from None
    except (sqlite3.Error, UnicodeError) as error:  # UnicodeError: what SQLite says quotes the file
        raise UsageError(f"{path}: {damaged(error)}") from None
    return db


def damaged(error: Exception) -> str:
    """What SQLite's complaint comes to."""
    said = readers.reason(error)
    if "unable to open" in said or "locked" in said or "readonly" in said or "disk I/O" in said:
        return f"cannot be read: {said}"
    if "not a database" in said:
        return f"not a results database of dballoc: {said}"
    return (
        f"damaged: {said}; take a copy of the directory from before, or run the campaign again "
        "with a new --out"
    )


def _check_files(path: Path) -> None:
    for beside in ("-journal", "-wal", "-shm"):
        place = path.with_name(path.name + beside)
        try:
            there = readers.regular(place)
        except readers.Unfit as error:
            raise readers.Unfit(f"{place.name} beside it {error}") from None
        if there and beside != "-journal":
            raise readers.Unfit(
                f"there is a {place.name} beside it, which dballoc never makes; remove it"
            )
        if there and _names_another(place):
            raise readers.Unfit(
                f"{place.name} beside it names another file, which SQLite would remove; dballoc "
                "never writes such a one"
            )
    if not readers.regular(path):
        raise readers.Unfit("not there")
    if path.stat().st_size > _LARGEST:
        raise readers.Unfit(f"larger than {_LARGEST >> 30} GiB, more than any campaign's")


def _names_another(journal: Path) -> bool:
    try:
        with journal.open("rb") as file:
            file.seek(-min(16, journal.stat().st_size), 2)
            return file.read(16).endswith(_JOURNAL)
    except OSError as error:
        raise readers.Unfit(
            f"{journal.name} beside it cannot be read: {readers.reason(error)}"
        ) from None


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    db = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, isolation_level=None)
    try:
        for limit, value in _LIMITS.items():
            db.setlimit(limit, value)
        _bound(db)
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("PRAGMA cell_size_check = ON")
        if db.execute("PRAGMA journal_mode").fetchone() != ("delete",):
            raise readers.Unfit(
                "not a results database of dballoc: it is in another mode than dballoc writes"
            )
        _check_schema(db)
        # Before anything is read: a page that was overwritten may give rows that look well. It
        # looks at NOT NULL and CHECK too.
        if (said := db.execute("PRAGMA integrity_check(1)").fetchone()) != ("ok",):
            raise sqlite3.DatabaseError(f"SQLite's check says: {_first_line(said)}")
        db.set_progress_handler(
            None, 0
        )  # from here on the statements and the tables are known to be ours
    except BaseException:
        db.close()
        raise
    return db


def _bound(db: sqlite3.Connection) -> None:
    """No statement runs for good: what is in a file decides how long one takes."""
    left = _STEPS // _STEP

    def tick() -> int:
        nonlocal left
        left -= 1
        return int(left < 0)

    db.set_progress_handler(tick, _STEP)


def _first_line(said: object) -> str:
    """Of what integrity_check answers: a row, whose text has a heading above what it says of a
    page.
    """
    text = str(said[0]) if isinstance(said, tuple) and said else str(said)
    lines = [line for line in text.splitlines() if not line.startswith("***")]
    return readers.printable(lines[0] if lines else text)[:200]


def _check_schema(db: sqlite3.Connection) -> None:
    """Unfit unless the file holds our tables and nothing else: no view, trigger, index, virtual
    table or generated column.

    What would be parsed as an expression is not looked at: only the texts are compared, but for
    comments and blanks.
    """
    found = {(str(kind), str(name)): _plain(sql) for kind, name, sql in _objects(db)}
    if found.get(_FACTS) == ours()[_FACTS]:
        _check_format(db)
    for (kind, name), sql in ours().items():
        if (kind, name) not in found:
            raise readers.Unfit(
                f"not a results database of dballoc: it has no {kind} {readers.shown(name)}"
            )
        if found.pop((kind, name)) not in (sql, _older(name, sql)):
            raise readers.Unfit(
                f"not a results database of this dballoc: its {kind} {readers.shown(name)} is "
                "another one"
            )
    for kind, name in found:
        raise readers.Unfit(
            f"not a results database of dballoc, which makes no {kind} {readers.shown(name)}"
        )


def _check_format(db: sqlite3.Connection) -> None:
    facts = dict(db.execute("SELECT key, value FROM campaign WHERE key IN ('format', 'dballoc')"))
    if facts.get("format") != str(FORMAT):
        form, version = (_word(str(facts.get(key))) for key in ("format", "dballoc"))
        raise readers.Unfit(
            f"format {form} of dballoc {version}; this dballoc reads format {FORMAT}: use that "
            "version, or a new --out"
        )


def _word(text: str) -> str:
    return text if re.fullmatch(r"[\w.+-]{1,30}", text, re.ASCII) else readers.shown(text, 30)


def _objects(db: sqlite3.Connection) -> Iterator[tuple[object, object, object]]:
    yield from db.execute(
        "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL LIMIT 100"
    )


def ours() -> dict[tuple[str, str], str]:
    """(kind, name) of everything in schema.sql, with its text as it is compared."""
    statements = (_plain(part) for part in _COMMENT.sub("", script()).split(";"))
    return {("table", sql.split("(", 1)[0].split()[2]): sql for sql in statements if sql}


def script() -> str:
    """schema.sql."""
    return (files(__package__) / "schema.sql").read_text(encoding="utf-8")


def _plain(sql: object) -> str:
    """A statement without comments, its blanks as one, so that a newer comment makes no other
    table.
    """
    return " ".join(_COMMENT.sub("", str(sql)).split()).replace("( ", "(").replace(" )", ")")


def _older(name: str, sql: str) -> str:
    """The same as dballoc wrote it before, within this format."""
    return sql.replace("latency REAL,", "latency REAL NOT NULL,") if name == "interval" else sql
