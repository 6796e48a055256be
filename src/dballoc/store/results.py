"""Open and write results.sqlite. One writer; every trial is one transaction."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from dballoc.errors import Failure, UsageError
from dballoc.experiment.schedule import Pairing, Slot

FILE = "results.sqlite"

# Raise it when schema.sql changes.
FORMAT = 3

# The fact that tells the results of another verb than bench.
KIND = "kind"

Row = Mapping[str, Any]


@dataclass
class TrialRecord:
    """Everything that belongs to one trial, gathered until it is finished."""

    trial: dict[str, Any]
    steps: list[Row] = field(default_factory=list)
    samples: list[Row] = field(default_factory=list)
    intervals: list[Row] = field(default_factory=list)
    histograms: list[Row] = field(default_factory=list)
    marks: list[Row] = field(default_factory=list)
    slices: list[dict[str, Any]] = field(default_factory=list)
    ledger: list[Row] = field(default_factory=list)
    probes: list[Row] = field(default_factory=list)


class Results:
    """The campaign's database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    @classmethod
    def create(cls, directory: Path, facts: Mapping[str, str], variants: Sequence[Row]) -> Self:
        """A new database, whole or not at all. Failure if it cannot be written."""
        partial = directory / (FILE + ".partial")
        partial.unlink(missing_ok=True)
        try:
            db = sqlite3.connect(partial, isolation_level=None)
            db.executescript("BEGIN;\n" + (files(__package__) / "schema.sql").read_text(encoding="utf-8"))
            _insert(db, "campaign", [{"key": k, "value": v} for k, v in {"format": str(FORMAT), **facts}.items()])
            _insert(db, "variant", variants)
            db.execute("COMMIT")
            db.close()
            partial.rename(directory / FILE)
        except (sqlite3.Error, OSError) as error:
            partial.unlink(missing_ok=True)
            raise Failure(f"{directory / FILE}: cannot be written: {error}") from None
        return cls.open(directory)

    @classmethod
    def open(cls, directory: Path, read_only: bool = False) -> Self:
        """An existing one. UsageError if it is not one, or of another format."""
        path = directory / FILE
        if not path.is_file():
            raise UsageError(f"{directory}: not a results directory of dballoc: no {FILE}")
        try:
            if read_only and path.with_name(FILE + "-journal").exists():
                # Left by a writer that was killed in the middle: a writer's opening rolls it back, a reader's cannot.
                _connect(path, "rw").close()
            db = _connect(path, "ro" if read_only else "rw")
            found = dict(db.execute("SELECT key, value FROM campaign WHERE key IN ('format', 'dballoc')"))
        except sqlite3.Error as error:
            raise UsageError(f"{path}: not a results database of dballoc: {error}") from None
        if found.get("format") != str(FORMAT):
            raise UsageError(
                f"{path}: format {found.get('format')} of dballoc {found.get('dballoc')}; this dballoc reads format "
                f"{FORMAT}: use that version, or a new --out"
            )
        db.row_factory = sqlite3.Row
        return cls(db)

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def facts(self) -> dict[str, str]:
        """The campaign table."""
        return {row["key"]: row["value"] for row in self._db.execute("SELECT key, value FROM campaign")}

    def set_fact(self, key: str, value: str) -> None:
        """Write one row of the campaign table."""
        self._transaction(lambda: self._db.execute("INSERT OR REPLACE INTO campaign VALUES (?, ?)", (key, value)))

    def finished(self, design: str) -> set[tuple[int, int, int]]:
        """(block, attempt, position) of every trial of a design that there is."""
        return {tuple(r) for r in self._db.execute("SELECT block, attempt, position FROM trial WHERE design = ?", (design,))}

    def directories(self) -> set[str]:
        """The directories of raw files, below trials/, of all trials there are."""
        return {row[0] for row in self._db.execute("SELECT directory FROM trial")}

    def trials(self) -> int:
        """How many trials there are, of all designs."""
        count: int = self._db.execute("SELECT count(*) FROM trial").fetchone()[0]
        return count

    def slices(self, design: str) -> list[Row]:
        """The slices of all trials of a design, with the trial's ``position`` and ``role``."""
        sql = "SELECT slice.*, position, role FROM slice JOIN trial USING (trial) WHERE design = ? ORDER BY trial, slice, piece"
        return [dict(row) for row in self._db.execute(sql, (design,))]

    def good_trials(self) -> int:
        """How many trials ended without a fault."""
        count: int = self._db.execute("SELECT count(*) FROM trial WHERE outcome = 'ok'").fetchone()[0]
        return count

    def blocks(self, design: str) -> list[sqlite3.Row]:
        """Every finished attempt at a block of a design, in order."""
        return list(self._db.execute("SELECT * FROM block WHERE design = ? ORDER BY block, attempt", (design,)))

    def probes(self) -> list[float]:
        """Every reading of the fixed probe so far, seconds."""
        return [p for row in self._db.execute("SELECT probe_before, probe_after FROM block") for p in row]

    def add_trial(self, slot: Slot, record: TrialRecord) -> None:
        """Write a finished solo trial. Failure if the disk is full."""
        self.add_trials([(slot, record)])

    def add_trials(self, trials: Sequence[tuple[Slot, TrialRecord]]) -> None:
        """Write solo trials at once, all or none, in this order. Failure if the disk is full."""

        def write() -> None:
            for slot, record in trials:
                place = {
                    "design": "solo", "block": slot.block, "attempt": slot.attempt, "position": slot.position,
                    "variant": slot.variant, "role": slot.role, "level": slot.level, "workload": slot.workload,
                    "directory": slot.label,
                }  # fmt: skip
                self._write_trial(place, record)

        self._transaction(write)

    def add_duet(self, pairing: Pairing, baseline: str, records: tuple[TrialRecord, TrialRecord]) -> None:
        """Write both finished trials of a duet, the baseline's first. Failure if the disk is full."""
        place = {
            "design": pairing.design, "block": pairing.block, "attempt": pairing.attempt, "position": pairing.position,
            "level": None, "workload": None, "directory": pairing.label,
        }  # fmt: skip

        def write() -> None:
            self._write_trial({**place, "variant": baseline, "role": "A1"}, records[0])
            self._write_trial({**place, "variant": pairing.variant, "role": pairing.role}, records[1])

        self._transaction(write)

    def _write_trial(self, place: Row, record: TrialRecord) -> None:
        _insert(self._db, "trial", [{**place, **record.trial}])
        number = self._db.execute("SELECT last_insert_rowid()").fetchone()[0]
        for table, rows in (
            ("step", record.steps), ("sample", record.samples), ("interval", record.intervals),
            ("histogram", record.histograms), ("mark", record.marks), ("slice", record.slices), ("probe", record.probes),
            ("ledger", record.ledger),
        ):  # fmt: skip
            _insert(self._db, table, [{"trial": number, **row} for row in rows])

    def add_block(self, row: Row) -> None:
        """Write a finished attempt at a block."""
        self._transaction(lambda: _insert(self._db, "block", [row]))

    def connection(self) -> sqlite3.Connection:
        """For reading whole tables into frames."""
        return self._db

    def _transaction(self, write: Any) -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            write()
            self._db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise Failure(f"cannot write the results: {error}; make room, then the same command resumes") from None
        finally:
            # Whatever went wrong, Ctrl-C included; a full disk may have rolled back already.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    db = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, isolation_level=None)
    db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    return db


def _insert(db: sqlite3.Connection, table: str, rows: Sequence[Row]) -> None:
    if rows:
        names = list(rows[0])
        places = ", ".join(f":{n}" for n in names)
        db.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({places})", rows)
