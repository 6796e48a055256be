"""What hosts answer, into the results directory of the driver: rows, raw files, and the trial that
was under way when its host was lost.
"""

import sqlite3
import time

from dballoc.campaign.elsewhere.block_messages import FilePiece, TrialFinished
from dballoc.campaign.elsewhere.driver.block_under_way import BlockUnderWay
from dballoc.campaign.elsewhere.place_blocks import Host, HostPair
from dballoc.campaign.results_directory import ResultsDirectory
from dballoc.experiment.model import Experiment
from dballoc.experiment.schedule import Slot
from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.ground.files.output_directory import OutputDirectory
from dballoc.store import column_types
from dballoc.store.results import HOST_LOST, Results, TrialRecord
from dballoc.store.rows import (
    BlockAheadRow,
    BlockPlace,
    BlockRow,
    MeasuredTrial,
    PlacementRow,
    SliceCounterRow,
    SliceRow,
    StepRow,
    TrialUnderWayRow,
)


class AnswerStore:
    """Writes what hosts answer."""

    def __init__(
        self, results: Results, directory: ResultsDirectory, experiment: Experiment
    ) -> None:
        self._results = results
        self._directory = directory
        self._experiment = experiment

    def add_file(self, block: BlockUnderWay, piece: FilePiece) -> None:
        """Append a piece to a raw file of the trial under way. Raises Unfit for what is not of it,
        or too much.
        """
        trial = block.check_position(piece.position)
        data = piece.decode()
        block.count_file(piece.name, len(data))
        if block.directory is None:
            block.directory = self._directory.make_trial_directory(trial.label)
        try:
            with OutputDirectory.open(block.directory) as directory:
                directory.append_below(piece.name, data)
        except (UsageError, NotADirectoryError):
            raise readers.Unfit(
                f"{piece.name}: it sent a file and a directory of one name"
            ) from None

    def add_trial(self, block: BlockUnderWay, message: TrialFinished) -> None:
        """Store the trial under way. Raises Unfit if it is another, or has not as many records as
        its design.
        """
        trial = block.check_position(message.position)
        records = message.trials
        if len(records) != len(trial.servers):
            raise readers.Unfit(f"it sent {len(records)} records of a trial")
        for record in records:
            _check_record(record, self._experiment)
        if block.directory is None:
            self._directory.make_trial_directory(trial.label)
        self._write(trial, records)
        block.finished.add(message.position)
        block.position = None

    def add_lost_trial(self, block: BlockUnderWay, host: Host, reason: str) -> Slot | None:
        """Store the trial under way, if there is one, as the fault *host lost*, and return it.
        ``host``: the one of its hosts that was lost.
        """
        trial = block.trial_under_way
        if trial is None:
            return None
        role = "client host" if host is block.pair.client else "host"
        text = f"its {role} {host.name} was lost: {reason}"
        self.add_host_lost(trial, block.started, max(time.time(), block.started), text)
        block.finished.add(trial.position)
        block.position = None
        return trial

    def add_host_lost(self, trial: Slot, started: float, ended: float, text: str) -> None:
        """Store a trial as the fault *host lost*; ``started``, ``ended``: Unix time."""
        self._directory.make_trial_directory(trial.label)
        lost = MeasuredTrial(
            started=started, ended=ended, outcome="fault", fault=HOST_LOST, fault_text=text
        )
        self._write(trial, [TrialRecord(trial=lost) for _ in trial.servers])

    def add_block(self, row: BlockRow, *, is_ahead: bool) -> None:
        """Store a finished block; ``is_ahead``: of its look. Raises Unfit if the database refuses
        its row.
        """
        try:
            self._results.add(BlockAheadRow(**vars(row)) if is_ahead else row)
        except sqlite3.IntegrityError as error:
            raise readers.Unfit(f"the database refuses a block's row: {error}") from None

    def remove_files(self, block: BlockUnderWay) -> None:
        """Remove the raw files of the trial under way: no row will name them."""
        if block.directory is not None and block.position is not None:
            self._directory.remove_trial_directory(block.directory)

    def _write(self, trial: Slot, records: list[TrialRecord]) -> None:
        """Store a trial. Raises Unfit if the database refuses its rows."""
        try:
            self._results.add_trial(trial, *records)
        except sqlite3.IntegrityError as error:
            raise readers.Unfit(f"the database refuses a trial's rows: {error}") from None


def _check_record(record: TrialRecord, experiment: Experiment) -> None:
    """Check what would make the results unreadable later: names that the experiment does not have,
    and text that is not JSON. Raises Unfit for the first.
    """
    if record.trial.proof is not None:
        column_types.check_json(record.trial.proof, column_types.PROOF, "proof")
    loads = record.select(StepRow), record.select(SliceRow), record.select(SliceCounterRow)
    if not {row.workload for rows in loads for row in rows} <= {None, *experiment.loads}:
        raise readers.Unfit("it loaded a workload that the experiment does not have")
    levels = {row.threads for row in loads[0] if row.kind == "level"}
    if not levels <= set(experiment.threads):
        raise readers.Unfit("it loaded a level that the experiment does not have")


def make_placement_row(key: BlockPlace, pair: HostPair) -> PlacementRow:
    """Return the row of table ``placement``."""
    client = pair.client.name if pair.client else None
    return PlacementRow(**vars(key), host=pair.server.name, client=client)


def make_begun_trial_row(block: BlockUnderWay, position: int) -> TrialUnderWayRow:
    """Return the row of table ``trial_under_way`` for a trial that begins."""
    return TrialUnderWayRow(
        **vars(block.key),
        position=position,
        host=block.host.name,
        kernel=block.host.kernel,
        started=block.started,
    )
