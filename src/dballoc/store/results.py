"""Open and write results.sqlite. One writer; every trial is one transaction."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from dballoc.experiment.schedule import Slot
from dballoc.ground import readers
from dballoc.ground.errors import Failure, UsageError
from dballoc.ground.files.output_directory import OutputDirectory
from dballoc.store import column_types, open_database, rows
from dballoc.store.facts import Facts, format_facts, parse_facts
from dballoc.store.open_database import FILE, FORMAT
from dballoc.store.rows import (
    TABLES,
    BlockAheadRow,
    BlockRow,
    CampaignRow,
    HostRow,
    MeasuredTrial,
    PlacementRow,
    StepRow,
    TableRow,
    TrialPart,
    TrialPlace,
    TrialRow,
    TrialUnderWayRow,
    VariantRow,
)

# The row of the table campaign that is no fact.
_FORMAT = "format"
# The kind of fault of a trial whose host was lost while it ran.
HOST_LOST = "host lost"

# The most rows of a table: a sample a second of two servers for a month.
_MOST_ROWS = 5_000_000
# Of tables whose rows are larger: every host becomes a campaign of its own.
_FEWER_ROWS = {"host": 10_000}

Row = Mapping[str, Any]
Part = TypeVar("Part", bound=TrialPart)
Stored = TypeVar("Stored", bound=TableRow)


@dataclass(kw_only=True)
class TrialRecord:
    """Everything that belongs to one trial, gathered until it is finished. ``rows``: of all tables.
    ``settled_otherwise``: for each variable that a server does not have which settles
    (catalogue/settling.toml), the substitute that was set, or "".
    """

    trial: MeasuredTrial
    rows: list[TrialPart] = field(default_factory=list)
    settled_otherwise: dict[str, str] = field(default_factory=dict)

    def select(self, table: type[Part]) -> list[Part]:
        """Return the rows of one table."""
        return [row for row in self.rows if isinstance(row, table)]

    @property
    def last_tps(self) -> float | None:
        """Transactions per second of the last level; None without one."""
        levels = [step.tps for step in self.select(StepRow) if step.kind == "level"]
        return levels[-1] if levels else None

    def remove(self, *tables: type[TrialPart]) -> None:
        """Remove all rows of these tables."""
        self.rows = [row for row in self.rows if not isinstance(row, tables)]


class TrialStore(Protocol):
    """What finished trials are handed to: the database, or what sends them to it."""

    def add_trial(self, trial: Slot, /, *records: TrialRecord) -> None:
        """Take a finished trial: a record of each of its servers."""


class Results:
    """The campaign's database."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db = connection
        self._path = path

    @classmethod
    def create(cls, directory: Path, facts: Facts, variants: Sequence[VariantRow]) -> Self:
        """Create a database, completely or not at all. Raises UsageError if the directory is not
        ours alone, Failure if it cannot be written.
        """
        names = [column.name for column in VariantRow.list_columns()]
        stored = [tuple(vars(row)[name] for name in names) for row in variants]
        write_database(directory, facts, {VariantRow.get_table(): stored})
        return cls.open(directory)

    @classmethod
    def open(cls, directory: Path, read_only: bool = False) -> Self:
        """Open an existing database. Raises UsageError if it is not one, or of another format."""
        if not (directory / FILE).exists():
            raise UsageError(f"{directory}: not a results directory of dballoc: no {FILE}")
        db = open_database.connect(directory, read_only)
        db.row_factory = sqlite3.Row
        return cls(db, directory / FILE)

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def facts(self) -> Facts:
        """Return what holds for the whole campaign. Raises Failure if it is malformed."""
        values = {
            row["key"]: row["value"]
            for row in self._query("SELECT key, value FROM campaign LIMIT 1000")
            if row["key"] != _FORMAT
        }
        try:
            for key, value in values.items():
                if not isinstance(key, str) or not isinstance(value, str):
                    raise readers.Unfit(f"campaign: {readers.shown(str(key))} is not text")
            return parse_facts(values)
        except readers.Unfit as error:
            raise Failure(f"{self._path}: damaged: {error}") from None

    def change_facts(self, **changes: Any) -> None:
        """Write facts that have changed, by the names of their fields in :class:`Facts`."""
        self._run_transaction(lambda: self._put_facts(changes))

    def _put_facts(self, changes: Mapping[str, Any]) -> None:
        replace(self.facts(), **changes)  # TypeError for a name that no field has
        stored = format_facts(changes).items()
        self._db.executemany("INSERT OR REPLACE INTO campaign VALUES (?, ?)", stored)

    def finished(self, design: str) -> set[tuple[int, int, int]]:
        """Return (block, attempt, position) of every finished trial of a design."""
        return {
            tuple(r)
            for r in self._query(
                "SELECT block, attempt, position FROM trial WHERE design = ?", (design,)
            )
        }

    def directories(self) -> set[str]:
        """Return the directories of raw files, below trials/, of all trials."""
        return {row[0] for row in self._query("SELECT directory FROM trial")}

    def trials(self) -> int:
        """Return how many trials of all designs there are."""
        return int(self._query("SELECT count(*) FROM trial")[0][0])

    def slices(self, design: str) -> list[Row]:
        """Return the slices of a design's trials, with each trial's ``block``, ``position``,
        ``role`` and ``outcome``.
        """
        sql = (
            "SELECT slice.*, block, position, role, outcome FROM slice JOIN trial USING (trial) "
            "WHERE design = ? ORDER BY trial, slice, piece"
        )
        return [dict(row) for row in self._query(sql, (design,))]

    def good_trials(self) -> int:
        """Return how many trials ended without a fault."""
        return int(self._query("SELECT count(*) FROM trial WHERE outcome = 'ok'")[0][0])

    def blocks(self, design: str) -> list[BlockRow]:
        """Return every finished attempt at a block of a design, in order."""
        return [block for block in self.list_rows(BlockRow) if block.design == design]

    def probes(self) -> list[float]:
        """Return every reading of the fixed probe so far, seconds."""
        return [
            p for row in self._query("SELECT probe_before, probe_after FROM block") for p in row
        ]

    def spent(self) -> float:
        """Return the seconds that all trials so far have taken; the two of a duet count once."""
        rows = self._query("SELECT max(ended) - min(started) FROM trial GROUP BY directory")
        return sum(float(row[0]) for row in rows)

    def list_trial_spans(self) -> list[tuple[float, float]]:
        """Return when every trial so far began and ended, Unix time."""
        rows = self._query("SELECT started, ended FROM trial")
        return [(float(row["started"]), float(row["ended"])) for row in rows]

    def tried(self) -> list[sqlite3.Row]:
        """Return what every trial of a fit tried, how it ended, and the transactions per second of
        its last level.
        """
        last_level = (
            "SELECT tps FROM step WHERE step.trial = trial.trial AND kind = 'level' ORDER BY step "
            "DESC LIMIT 1"
        )
        return self._query(
            "SELECT variant, block, asked, probe.pool_bytes, outcome, fault, fault_text, rss_peak, "
            f"({last_level}) AS tps FROM trial JOIN probe USING (trial) ORDER BY block, position"
        )

    def searched(self) -> list[sqlite3.Row]:
        """Return what every trial of a search tried, how it ended, its peak RSS, and the mean CPU
        seconds an operation of each of its workloads (JSON).
        """
        costs = (
            "SELECT json_group_object(workload, cost) FROM (SELECT workload, "
            "sum(cpu) / sum(window_events) AS cost FROM step WHERE step.trial = trial.trial AND "
            "kind = 'level' AND cpu > 0 AND window_events > 0 GROUP BY workload)"
        )
        return self._query(
            "SELECT trial.trial AS number, stage, base, origin, variant, parameters, design, "
            f"outcome, fault, fault_text, rss_peak, started, ended, ({costs}) AS costs "
            "FROM trial JOIN candidate USING (trial) ORDER BY trial.trial"
        )

    def add_variant(self, row: VariantRow) -> None:
        """Write a variant that was not known when the campaign began, unless it is there."""
        if not self._query("SELECT 1 FROM variant WHERE name = ?", (row.name,)):
            self._run_transaction(lambda: _insert(self._db, [row]))

    def table(self, name: str, most: int | None = None) -> list[tuple]:
        """Return all rows of a table. An INTEGER may have a fraction, because SQLite stores any
        value. Raises Failure if a value does not have its column's type, or if there are too many
        rows.
        """
        most = _FEWER_ROWS.get(name, _MOST_ROWS) if most is None else most
        stored = [tuple(row) for row in self._query(f"SELECT * FROM {name} LIMIT {most + 1}")]
        if len(stored) > most:
            raise Failure(f"{self._path}: {name}: more than {most:,} rows, which no campaign has")
        try:
            for values, column in zip(
                zip(*stored, strict=True), TABLES[name].list_stored(), strict=bool(stored)
            ):
                column_types.check_values(values, column)
        except readers.Unfit as error:
            raise Failure(f"{self._path}: damaged: {name}.{error}") from None
        return stored

    def add_trial(self, trial: Slot, /, *records: TrialRecord) -> None:
        """Write a finished trial: a record of each of its servers. Raises Failure if the disk is
        full.
        """
        self.add_trials([(trial, records)])

    def add_trials(self, trials: Iterable[tuple[Slot, Sequence[TrialRecord]]]) -> None:
        """Write trials at once, all or none, in this order. Raises Failure if the disk is full."""

        def write() -> None:
            for trial, records in trials:
                for (variant, role), record in zip(trial.servers, records, strict=True):
                    place = TrialPlace(
                        design=str(trial.design),
                        block=trial.block,
                        attempt=trial.attempt,
                        position=trial.position,
                        variant=variant,
                        role=role,
                        level=trial.level,
                        workload=trial.workload,
                        directory=trial.label,
                    )
                    self._write_trial(place, record)

        self._run_transaction(write)

    def _write_trial(self, place: TrialPlace, record: TrialRecord) -> None:
        _insert(self._db, [TrialRow(**vars(place), **vars(record.trial))])
        self._delete(TrialUnderWayRow, place)
        number = self._db.execute("SELECT last_insert_rowid()").fetchone()[0]
        for table in dict.fromkeys(type(row) for row in record.rows):
            _insert(self._db, record.select(table), number)
        if record.settled_otherwise:
            self._add_settled_otherwise(place.variant, record.settled_otherwise)

    def _delete(self, table: type[TableRow], place: TableRow) -> None:
        """Delete the rows of a table that have the key of ``place``."""
        sql = " AND ".join(f"{name} = :{name}" for name in table.KEY)
        self._db.execute(f"DELETE FROM {table.get_table()} WHERE {sql}", vars(place))

    def _add_settled_otherwise(self, variant: str, otherwise: Mapping[str, str]) -> None:
        """Add to the fact what a variant's server did otherwise when it settled."""
        earlier = self.facts().settled_otherwise
        added = earlier | {variant: {**earlier.get(variant, {}), **otherwise}}
        self._put_facts({"settled_otherwise": added})

    def add(self, row: TableRow) -> None:
        """Write a row: of a block, a placement, a trial that begins."""
        self._run_transaction(lambda: _insert(self._db, [row]))

    def list_rows(self, table: type[Stored]) -> list[Stored]:
        """Return all rows of a table that belong to no trial. Raises Failure if a value does not
        have its column's type.
        """
        names = [column.name for column in table.list_columns()]
        return [
            table(**dict(zip(names, row, strict=True))) for row in self.table(table.get_table())
        ]

    def enter_held_blocks(self, blocks: Sequence[BlockRow]) -> None:
        """Write finished attempts that were held, now that their turn has come."""

        def write() -> None:
            _insert(self._db, [BlockRow(**vars(block)) for block in blocks])
            for block in blocks:
                self._delete(BlockAheadRow, block)

        self._run_transaction(write)

    def add_host(self, row: HostRow) -> None:
        """Write a host, as it is now: it may have started anew since."""
        if row not in self.list_rows(HostRow):

            def write() -> None:
                self._delete(HostRow, row)
                _insert(self._db, [row])

            self._run_transaction(write)

    def add_placement(self, row: PlacementRow) -> None:
        """Write which host an attempt at a block is on, when the block is given to it."""
        place = (row.design, row.block, row.attempt)
        sql = "SELECT 1 FROM placement WHERE design = ? AND block = ? AND attempt = ?"
        if not self._query(sql, place):
            self.add(row)

    def forget_begun_trials(self, design: str, block: int, attempt: int) -> None:
        """Remove what is left of an attempt's trials that were begun."""
        sql = "DELETE FROM trial_under_way WHERE design = ? AND block = ? AND attempt = ?"
        self._run_transaction(lambda: self._db.execute(sql, (design, block, attempt)))

    def list_placed_attempts(self, design: str, block: int) -> set[int]:
        """Return the attempts at a block that were given to a host."""
        sql = "SELECT attempt FROM placement WHERE design = ? AND block = ?"
        return {row[0] for row in self._query(sql, (design, block))}

    def list_lost_attempts(self, design: str, block: int) -> set[int]:
        """Return the attempts at a block whose host was lost during a trial."""
        sql = "SELECT DISTINCT attempt FROM trial WHERE design = ? AND block = ? AND fault = ?"
        return {row[0] for row in self._query(sql, (design, block, HOST_LOST))}

    def probes_of_host(self, host: str) -> list[float]:
        """Return every reading of the fixed probe on a host so far, seconds."""
        return [
            probe
            for table in ("block", "block_ahead")
            for row in self._query(
                f"SELECT probe_before, probe_after FROM {table} JOIN placement USING "
                "(design, block, attempt) WHERE host = ?",
                (host,),
            )
            for probe in row
        ]

    def _query(self, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        try:
            return self._db.execute(sql, values).fetchall()
        except (sqlite3.Error, UnicodeError) as error:
            raise Failure(f"{self._path}: {open_database.describe_damage(error)}") from None

    def _run_transaction(self, write: Any) -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            write()
            self._db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise Failure(
                f"cannot write the results: {error}; make room, then run the same command to resume"
            ) from None
        except sqlite3.IntegrityError:
            raise  # a bug in dballoc: it stored a trial twice
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise Failure(
                f"{self._path}: cannot write the results: {readers.reason(error)}"
            ) from None
        finally:
            # After any error, Ctrl-C included; SQLite may have rolled back already when the disk is
            # full.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")


def write_database(
    directory: Path, facts: Facts, tables: Mapping[str, Sequence[Sequence[Any]]]
) -> None:
    """Write a database of these facts and of rows of its tables, completely or not at all. Raises
    UsageError if the directory is not ours alone, Failure if it cannot be written.
    """
    # In memory: SQLite opens files by path, and follows links.
    db = sqlite3.connect(":memory:", isolation_level=None)
    try:
        db.executescript("BEGIN;\n" + rows.SCHEMA)
        stored = {_FORMAT: str(FORMAT)} | format_facts(vars(facts))
        _insert(db, [CampaignRow(key=key, value=value) for key, value in stored.items()])
        for name, values in tables.items():
            places = ", ".join("?" * len(TABLES[name].list_stored()))
            db.executemany(f"INSERT INTO {name} VALUES ({places})", values)
        db.execute("COMMIT")
        with OutputDirectory.open(directory) as outputs:
            outputs.write(FILE, db.serialize())
    except (sqlite3.Error, OSError) as error:
        raise Failure(f"{directory / FILE}: cannot be written: {readers.reason(error)}") from None
    finally:
        db.close()


def _insert(db: sqlite3.Connection, rows: Sequence[TableRow], trial: int | None = None) -> None:
    """Insert rows of one table; ``trial``: the number of the trial that they belong to."""
    if rows:
        values = [vars(row) if trial is None else {"trial": trial, **vars(row)} for row in rows]
        places = ", ".join(f":{name}" for name in values[0])
        db.executemany(
            f"INSERT INTO {rows[0].get_table()} ({', '.join(values[0])}) VALUES ({places})", values
        )
