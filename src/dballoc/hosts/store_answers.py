"""What hosts answer, into the results directory of the driver: rows, raw files, and the trial that
was under way when its host was lost.
"""

import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dballoc import readers
from dballoc.campaign.results_directory import Directory
from dballoc.campaign.trials.server_in_trial import make_blank_trial_row
from dballoc.experiment.model import Experiment
from dballoc.experiment.schedule import Pairing, Slot
from dballoc.hosts.block_messages import (
    MOST_FILE_BYTES,
    MOST_FILES,
    RECORD_TABLES,
    FilePiece,
    TrialFinished,
)
from dballoc.hosts.place_blocks import BlockKey, Host, HostPair
from dballoc.store import campaign_facts
from dballoc.store.results import HOST_LOST, Results, TrialRecord


@dataclass(kw_only=True)
class BlockUnderWay:
    """An attempt at a block that hosts have. ``trials``: by their position; ``started``: Unix time
    of the trial under way, at its ``position``; ``finished``: positions of the stored ones.
    """

    pair: HostPair
    key: BlockKey
    trials: Mapping[int, Slot | Pairing]
    began: float = field(default_factory=time.monotonic)
    position: int | None = None
    started: float = 0.0
    finished: set[int] = field(default_factory=set)
    file_bytes: int = 0
    files: set[str] = field(default_factory=set)
    directory: Path | None = None

    @property
    def host(self) -> Host:
        """The one that runs the block, and its servers."""
        return self.pair.server

    def begin_trial(self, position: int) -> Slot | Pairing:
        """Note that a trial begins, and return it. Unfit if the block has none there, or had it."""
        trial = self.trials.get(position)
        if trial is None or position in self.finished:
            raise readers.Unfit(f"it began a trial {position} that its block has not")
        self.position, self.started = position, time.time()
        self.file_bytes, self.directory = 0, None
        self.files = set()
        return trial

    @property
    def trial_under_way(self) -> Slot | Pairing | None:
        """The trial that has begun and has no rows yet."""
        return None if self.position is None else self.trials[self.position]

    def check_position(self, position: int) -> Slot | Pairing:
        """Return the trial under way. Unfit if an answer is of another."""
        trial = self.trial_under_way
        if trial is None or position != self.position:
            raise readers.Unfit(f"it answered of trial {position}, which is not under way")
        return trial


class AnswerStore:
    """Writes what hosts answer."""

    def __init__(self, results: Results, directory: Directory, experiment: Experiment) -> None:
        self._results = results
        self._directory = directory
        self._experiment = experiment

    def add_file(self, block: BlockUnderWay, piece: FilePiece) -> None:
        """Append a piece to a raw file of the trial under way. Unfit for what is not of it, or too
        much.
        """
        trial = block.check_position(piece.position)
        data = piece.decode()
        block.file_bytes += len(data)
        if block.file_bytes > MOST_FILE_BYTES:
            raise readers.Unfit("it sent more files of a trial than there can be")
        if block.directory is None:
            block.directory = self._directory.make_trial_directory(trial.label)
        block.files.add(piece.name)
        if len(block.files) > MOST_FILES:
            raise readers.Unfit("it sent more files of a trial than there can be")
        path = block.directory / piece.name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(data)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise readers.Unfit(
                f"{piece.name}: it sent a file and a directory of one name"
            ) from None

    def add_trial(self, block: BlockUnderWay, message: TrialFinished) -> None:
        """Store the trial under way. Unfit if it is another, or has not as many records as its
        design.
        """
        trial = block.check_position(message.position)
        records = [
            TrialRecord(
                trial=dict(rows["trial"][0]),
                **{name: list(value) for name, value in rows.items() if name != "trial"},  # type: ignore[arg-type]
            )
            for rows in message.records
        ]
        if len(records) != (2 if isinstance(trial, Pairing) else 1):
            raise readers.Unfit(f"it sent {len(records)} records of a trial")
        for record in records:
            _check_record(record, self._experiment)
        if block.directory is None:
            self._directory.make_trial_directory(trial.label)
        self._write(trial, records)
        block.finished.add(message.position)
        block.position = None

    def add_lost_trial(
        self, block: BlockUnderWay, host: Host, reason: str
    ) -> Slot | Pairing | None:
        """Store the trial under way, if there is one, as the fault *host lost*, and return it.
        ``host``: the one of its hosts that was lost.
        """
        trial = block.trial_under_way
        if trial is None:
            return None
        self._directory.make_trial_directory(trial.label)
        role = "client host" if host is block.pair.client else "host"
        row = make_blank_trial_row() | {
            "started": block.started,
            "ended": max(time.time(), block.started),
            "outcome": "fault",
            "fault": HOST_LOST,
            "fault_text": f"its {role} {host.name} was lost: {reason}",
        }
        count = 2 if isinstance(trial, Pairing) else 1
        self._write(trial, [TrialRecord(trial=dict(row)) for _ in range(count)])
        block.finished.add(trial.position)
        block.position = None
        return trial

    def add_block(self, row: Mapping[str, Any]) -> None:
        """Store a finished block. Unfit if its row is none."""
        try:
            self._results.add_block(row)
        except sqlite3.IntegrityError as error:
            raise readers.Unfit(f"a block's row is none: {error}") from None

    def _write(self, trial: Slot | Pairing, records: list[TrialRecord]) -> None:
        """Store a trial. Unfit if the database does not take its rows."""
        try:
            if isinstance(trial, Pairing):
                self._results.add_duet(trial, self._experiment.baseline, (records[0], records[1]))
            else:
                self._results.add_trial(trial, records[0])
        except sqlite3.IntegrityError as error:
            raise readers.Unfit(f"a trial's rows are none: {error}") from None


def _check_record(record: TrialRecord, experiment: Experiment) -> None:
    """Check what would make the results unreadable later: names that the experiment has not, and
    JSON that is none. Unfit for the first.
    """
    if (proof := record.trial.get("proof")) is not None:
        campaign_facts.check_json(proof, campaign_facts.PROOF, "proof")
    for row in (*record.steps, *record.slices, *record.slice_counters):
        if row.get("workload") not in (None, *experiment.loads):
            raise readers.Unfit("it loaded what is no workload of the experiment")
    for row in record.steps:
        if row.get("kind") == "level" and row.get("threads") not in experiment.threads:
            raise readers.Unfit("it loaded a level that the experiment has not")


def read_columns(results: Results) -> dict[str, dict[str, str]]:
    """Return the types of the columns of all tables that answers may fill, by name."""
    return {table: results.columns(table) for table in {*RECORD_TABLES.values(), "block"}}


def make_placement_row(key: BlockKey, host: Host) -> dict[str, Any]:
    """Return the row of table ``placement``."""
    return {
        "design": key.design,
        "block": key.number,
        "attempt": key.attempt,
        "host": host.name,
    }
