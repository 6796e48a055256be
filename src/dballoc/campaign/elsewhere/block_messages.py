"""What a host answers while it runs a block: one message a line, JSON. Everything in it is checked,
because a host may be wrong or hostile, and its rows go into the results database by its own names.
"""

import base64
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from dballoc.campaign.elsewhere.client.load_messages import (
    FromClient,
    HostMessage,
    ToClient,
    parse_line,
)
from dballoc.ground import readers
from dballoc.store import column_types
from dballoc.store.results import Stored, TrialRecord
from dballoc.store.rows import TABLES, LocalPart, MeasuredBlock, MeasuredTrial, TrialPart

# Bytes of a file that go into one message, and the most of all files of a trial.
FILE_PIECE = readers.MIB
MOST_FILE_BYTES = 256 * readers.MIB
MOST_FILES = 10_000
# Sentences for the user, of one block.
MOST_NOTICES = 1000
# Seconds of the fixed probe, which takes a hundredth; later blocks are told those of earlier ones.
LONGEST_PROBE = 3600.0
_MOST_ROWS = 1_000_000
# One of each server; an experiment has a thousand variants at most.
_MOST_RECORDS = 1001
# No part begins with a dot, so none leads out of the trial's directory.
_PART = r"[A-Za-z0-9_][A-Za-z0-9._+=@:-]{0,120}"
_FILE_NAME = re.compile(rf"{_PART}(/{_PART}){{0,3}}")
_Text = Annotated[str, Field(max_length=100_000)]
_Position = Annotated[int, Field(ge=1, le=10**6)]
# A server variable, or "".
_Variable = Annotated[str, Field(pattern=r"^[a-z0-9_]{0,64}$")]
_Cell = int | float | str | None
_Row = dict[str, _Cell]


class Notice(HostMessage):
    """A sentence for the user."""

    kind: Literal["notice"] = "notice"
    text: _Text


class TrialStarted(HostMessage):
    """A trial begins; should the host be lost now, it is this one that is."""

    kind: Literal["trial started"] = "trial started"
    position: _Position


class FilePiece(HostMessage):
    """A piece of a raw file of the trial at ``position``, to be appended; base64."""

    kind: Literal["file"] = "file"
    position: _Position
    name: str
    data: str

    def decode(self) -> bytes:
        """Return the bytes. Raises Unfit if the text is not base64."""
        try:
            return base64.b64decode(self.data, validate=True)
        except ValueError:
            raise readers.Unfit("a file's piece is not base64") from None


class TrialFinished(HostMessage):
    """A trial's rows: a record of each of its servers, the baseline's first.
    ``settled_otherwise``: as :class:`dballoc.store.results.TrialRecord` has it.
    """

    kind: Literal["trial"] = "trial"
    position: _Position
    records: Annotated[
        list[dict[str, Annotated[list[_Row], Field(max_length=_MOST_ROWS)]]],
        Field(min_length=1, max_length=_MOST_RECORDS),
    ]
    settled_otherwise: Annotated[
        dict[_Variable, _Variable], Field(max_length=100, default_factory=dict)
    ]

    @cached_property
    def trials(self) -> list[TrialRecord]:
        """The records. Raises Unfit if a row does not fit its table."""
        return [_build_record(record, self.settled_otherwise) for record in self.records]


class BlockFinished(HostMessage):
    """All trials are over: the row of table ``block``, without its place."""

    kind: Literal["block"] = "block"
    row: _Row

    @cached_property
    def block(self) -> MeasuredBlock:
        """The row. Raises Unfit if it does not fit its table."""
        [row] = _build_rows(MeasuredBlock, [self.row])
        for name in ("probe_before", "probe_after"):
            if not 0 <= (seconds := getattr(row, name)) <= LONGEST_PROBE:
                raise readers.Unfit(f"{name}: {seconds} is not valid")
        return row


class BlockRefused(HostMessage):
    """The host cannot run the block, or not finish it; the last message. ``blames_client``: because
    of its client host; ``is_passing``: because of something that may be otherwise in some minutes.
    """

    kind: Literal["refused"] = "refused"
    text: _Text
    blames_client: bool = False
    is_passing: bool = False


class Ended(HostMessage):
    """The process of the block ended without a last word; ``log``: the end of what it printed."""

    kind: Literal["ended"] = "ended"
    status: Annotated[int, Field(ge=-255, le=255)]
    log: _Text


Message = (
    Notice
    | TrialStarted
    | FilePiece
    | TrialFinished
    | BlockFinished
    | BlockRefused
    | Ended
    | ToClient
    | FromClient
)

_ADAPTER: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="kind")])


def parse_message(line: bytes) -> Message:
    """Parse a line. Raises Unfit if it is no message, or if a row does not fit its table."""
    message = parse_line(_ADAPTER, line)
    match message:
        case FilePiece():
            if not is_file_name(message.name):
                raise readers.Unfit(f"{readers.shown(message.name)} is no name of a trial's file")
        case TrialFinished():
            message.trials  # noqa: B018
        case BlockFinished():
            message.block  # noqa: B018
    return message


def is_file_name(name: str) -> bool:
    """Whether a raw file of a trial may have that path below its directory. Pure."""
    return _FILE_NAME.fullmatch(name) is not None


def _build_record(record: Mapping[str, list[_Row]], otherwise: dict[str, str]) -> TrialRecord:
    parts = {part.get_table(): part for part in TABLES.values() if issubclass(part, TrialPart)}
    rows: list[TrialPart] = []
    for name, of_table in record.items():
        if name == "trial":
            continue
        part = parts.get(name)
        if part is None or issubclass(part, LocalPart):
            raise readers.Unfit(f"{readers.shown(name)} is no part of a trial")
        rows += _build_rows(part, of_table)
    trials = _build_rows(MeasuredTrial, record.get("trial", []))
    if len(trials) != 1:
        raise readers.Unfit("a trial without its row")
    return TrialRecord(trial=trials[0], rows=rows, settled_otherwise=otherwise)


def _build_rows(table: type[Stored], rows: list[_Row]) -> list[Stored]:
    """Return rows of a table. Raises Unfit if they have not its columns, or values that these
    cannot have.
    """
    columns = table.list_columns()
    names = {column.name for column in columns}
    for row in rows:
        if other := row.keys() ^ names:
            raise readers.Unfit(f"{table.__name__}: not its columns: {readers.shown(min(other))}")
    for column in columns:
        values = [row[column.name] for row in rows]
        if None in values and not column.is_optional:
            raise readers.Unfit(f"{table.__name__}: {column.name}: missing")
        column_types.check_values(values, column)
    return [table(**row) for row in rows]


def make_record_rows(record: TrialRecord) -> dict[str, list[_Row]]:
    """Return a trial's rows as a message has them, by table."""
    rows: dict[str, list[_Row]] = {"trial": [vars(record.trial)]}
    for row in record.rows:
        rows.setdefault(row.get_table(), []).append(vars(row))
    return rows
