"""Open a results database that may be damaged or malicious. Nothing in it is run, or decides what
is run.

SQLite itself acts on the contents of a file and of those beside it: views and triggers run for as
long as they like, expressions in the schema call functions, and a journal may name another file,
which is removed once the journal is rolled back (a "super-journal").
"""

import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.ground.files import foreign_file
from dballoc.ground.files.output_directory import OutputDirectory
from dballoc.store.copy_database import copy_database
from dballoc.store.rows import TABLES

FILE = "results.sqlite"

# Raise it when dballoc.store.rows or dballoc.store.facts change, or
# dballoc.questions.compare.procedure: a campaign is judged by the procedure that it began with.
FORMAT = 6

# Bytes. A campaign of a month with a sample a second has some 200 MB.
_LARGEST = 2**31
# The largest cell, bytes: the end of a server's log, an experiment.
LONGEST_CELL = 4 * readers.MIB
# Steps of SQLite's virtual machine while the file is checked; the largest table takes a hundredth
# of them.
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
# The end of a journal that names another file (pager.c, readSuperJournal).
_JOURNAL = bytes.fromhex("d9d505f920a163d7")
_FACTS = ("table", "campaign")
# The table in formats up to 3, which say so in it.
_FACTS_OF_BEFORE = "CREATE TABLE campaign (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
# SQLite errors of opening a file, which are not about its contents.
_UNREADABLE = ("unable to open", "locked", "readonly", "disk I/O")
_COMMENT = re.compile(r"--[^\n]*")


def connect(directory: Path, read_only: bool) -> sqlite3.Connection:
    """Open the database of a results directory, after checking that it is undamaged and has
    the tables of dballoc.store.rows alone. Raises UsageError, in one line, if not, or if it is to
    be written and not ours alone.
    """
    path = directory / FILE
    try:
        _check_files(path)
        if not read_only:
            _check_own(directory)
            db = _open(path, "rw")
        elif _is_own(directory):
            db = _open_to_read(path)
        else:
            with tempfile.TemporaryDirectory(prefix="dballoc-") as place:
                copy_database(path, Path(place), _LARGEST)
                db = _open_to_read(Path(place) / FILE)
    except readers.Unfit as error:
        raise UsageError(f"{path}: {error}") from None
    except (sqlite3.Error, UnicodeError) as error:  # UnicodeError: messages quote the file
        raise UsageError(f"{path}: {describe_damage(error)}") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be copied: {readers.reason(error)}") from None
    return db


def _open_to_read(path: Path) -> sqlite3.Connection:
    if path.with_name(f"{FILE}-journal").exists():
        # A writer was killed during a transaction: opening for writing rolls it back, opening for
        # reading cannot.
        _open(path, "rw").close()
    return _open(path, "ro")


def describe_damage(error: Exception) -> str:
    """Return an SQLite error as a message with what to do."""
    message = readers.reason(error)
    if any(words in message for words in _UNREADABLE):
        return f"cannot be read: {message}"
    if "not a database" in message:
        return f"not a results database of dballoc: {message}"
    return (
        f"damaged: {message}; take a copy of the directory from before, or run the campaign again "
        "with a new --out"
    )


def _check_files(path: Path) -> None:
    for suffix in ("-journal", "-wal", "-shm"):
        place = path.with_name(path.name + suffix)
        try:
            exists = readers.regular(place)
        except readers.Unfit as error:
            raise readers.Unfit(f"{place.name} beside it {error}") from None
        if exists and suffix != "-journal":
            raise readers.Unfit(
                f"there is a {place.name} beside it, which dballoc never creates; remove it"
            )
        if exists and _names_another_file(place):
            raise readers.Unfit(
                f"{place.name} beside it names another file, which SQLite would remove; "
                "dballoc never writes such a journal"
            )
    if not readers.regular(path):
        raise readers.Unfit("missing")
    if path.stat().st_size > _LARGEST:
        raise readers.Unfit(f"larger than {_LARGEST >> 30} GiB, more than any campaign's")


def _check_own(directory: Path) -> None:
    """Check that SQLite, which opens files by path, works on files of our own alone. Raises
    UsageError if not.
    """
    try:
        with OutputDirectory.open(directory) as outputs:
            outputs.has_own_file(FILE)
            outputs.has_own_file(f"{FILE}-journal")
    except OSError as error:
        raise readers.Unfit(f"cannot be written: {readers.reason(error)}") from None


def _is_own(directory: Path) -> bool:
    try:
        _check_own(directory)
    except (UsageError, readers.Unfit):
        return False
    return True


def _names_another_file(journal: Path) -> bool:
    try:
        with foreign_file.open_foreign_file(journal, journal.parent) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 16))
            return file.read(16).endswith(_JOURNAL)
    except FileNotFoundError:  # a running campaign has ended its transaction meanwhile
        return False
    except OSError as error:
        raise readers.Unfit(
            f"{journal.name} beside it cannot be read: {readers.reason(error)}"
        ) from None


def _open(path: Path, mode: str) -> sqlite3.Connection:
    db = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, isolation_level=None)
    try:
        for limit, value in _LIMITS.items():
            db.setlimit(limit, value)
        _limit_steps(db)
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("PRAGMA cell_size_check = ON")
        if db.execute("PRAGMA journal_mode").fetchone() != ("delete",):
            raise readers.Unfit(
                "not a results database of dballoc: its journal mode is not the one that "
                "dballoc uses"
            )
        _check_schema(db)
        # Before anything is read: an overwritten page may give rows that look plausible. It checks
        # NOT NULL and CHECK too.
        if (integrity := db.execute("PRAGMA integrity_check(1)").fetchone()) != ("ok",):
            raise sqlite3.DatabaseError(f"SQLite's check says: {_first_line(integrity)}")
        # From here on the tables are known to be dballoc's, and the statements are dballoc's.
        db.set_progress_handler(None, 0)
    except BaseException:
        db.close()
        raise
    return db


def _limit_steps(db: sqlite3.Connection) -> None:
    """Limit how long statements run, as the contents of the file decide how long one takes."""
    remaining = _STEPS // _STEP

    def tick() -> int:
        nonlocal remaining
        remaining -= 1
        return int(remaining < 0)

    db.set_progress_handler(tick, _STEP)


def _first_line(row: object) -> str:
    """Return the first line of integrity_check's answer, without the heading above the message of a
    page.
    """
    text = str(row[0]) if isinstance(row, tuple) and row else str(row)
    lines = [line for line in text.splitlines() if not line.startswith("***")]
    return readers.printable(lines[0] if lines else text)[:200]


def _check_schema(db: sqlite3.Connection) -> None:
    """Check that the file holds the tables of dballoc.store.rows and nothing else: no view,
    trigger, index, virtual table or generated column. Raises Unfit if not.

    Nothing is parsed: only the texts are compared, except for comments and blanks.
    """
    objects = {(str(kind), str(name)): _normalize(sql) for kind, name, sql in _list_objects(db)}
    if objects.get(_FACTS) in (list_tables()[_FACTS], _FACTS_OF_BEFORE):
        _check_format(db)
    for (kind, name), sql in list_tables().items():
        if (kind, name) not in objects:
            raise readers.Unfit(
                f"not a results database of dballoc: it has no {kind} {readers.shown(name)}"
            )
        if objects.pop((kind, name)) != sql:
            raise readers.Unfit(
                f"not a results database of this dballoc: its {kind} {readers.shown(name)} is "
                "different"
            )
    for kind, name in objects:
        raise readers.Unfit(
            f"not a results database of dballoc, which makes no {kind} {readers.shown(name)}"
        )


def _check_format(db: sqlite3.Connection) -> None:
    facts = dict(db.execute("SELECT key, value FROM campaign WHERE key IN ('format', 'dballoc')"))
    if facts.get("format") != str(FORMAT):
        form, version = (_shorten(str(facts.get(key))) for key in ("format", "dballoc"))
        raise readers.Unfit(
            f"format {form} of dballoc {version}; this dballoc reads format {FORMAT}: use that "
            "version, or a new --out"
        )


def _shorten(text: str) -> str:
    return text if re.fullmatch(r"[\w.+-]{1,30}", text, re.ASCII) else readers.shown(text, 30)


def _list_objects(db: sqlite3.Connection) -> Iterator[tuple[object, object, object]]:
    yield from db.execute(
        "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL LIMIT 100"
    )


def list_tables() -> dict[tuple[str, str], str]:
    """Return the normalized text of each table's declaration, by (kind, name)."""
    return {
        ("table", name): _normalize(table.make_schema().removesuffix(";"))
        for name, table in TABLES.items()
    }


def _normalize(sql: object) -> str:
    """Return a statement without comments, with single blanks, so that a change of a comment makes
    no difference.
    """
    return " ".join(_COMMENT.sub("", str(sql)).split()).replace("( ", "(").replace(" )", ")")
