"""What a host answers while it runs a block: one message a line, JSON. Everything in it is checked,
because a host may be wrong or hostile, and its rows go into the results database by its own names.
"""

import base64
import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from dballoc import readers
from dballoc.hosts.client.load_messages import FromClient, ToClient
from dballoc.hosts.message_limits import LONGEST_LINE
from dballoc.store import column_types
from dballoc.store.results import TrialRecord

# Bytes of a file that go into one message, and the most of all files of a trial.
FILE_PIECE = readers.MIB
MOST_FILE_BYTES = 256 * readers.MIB
MOST_FILES = 10_000
# Sentences for the user, of one block.
MOST_NOTICES = 1000
# Seconds of the fixed probe, which takes a hundredth; later blocks are told those of earlier ones.
LONGEST_PROBE = 3600.0
_MOST_ROWS = 1_000_000
# Which trial or block rows are of is the driver's to say.
_TRIAL_PLACE = frozenset(
    "trial design block attempt position variant role level workload directory".split()
)
_BLOCK_PLACE = frozenset({"design", "block", "attempt"})

# No part begins with a dot, so none leads out of the trial's directory.
_PART = r"[A-Za-z0-9_][A-Za-z0-9._+=@:-]{0,120}"
_FILE_NAME = re.compile(rf"{_PART}(/{_PART}){{0,3}}")
# The tables of TrialRecord's fields.
RECORD_TABLES = {
    "trial": "trial",
    "steps": "step",
    "samples": "sample",
    "intervals": "interval",
    "histograms": "histogram",
    "marks": "mark",
    "slices": "slice",
    "ledger": "ledger",
    "step_counters": "step_counter",
    "slice_counters": "slice_counter",
    "replicas": "replica",
    "host_samples": "host_sample",
    "host_steps": "host_step",
    "client_steps": "client_step",
    "client_connections": "client_connection",
}

_Text = Annotated[str, Field(max_length=100_000)]
_Position = Annotated[int, Field(ge=1, le=10**6)]
# A server variable, or "".
_Variable = Annotated[str, Field(pattern=r"^[a-z0-9_]{0,64}$")]
_Cell = int | float | str | None
_Row = dict[str, _Cell]


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Notice(_Message):
    """A sentence for the user."""

    kind: Literal["notice"] = "notice"
    text: _Text


class TrialStarted(_Message):
    """A trial begins; should the host be lost now, it is this one that is."""

    kind: Literal["trial started"] = "trial started"
    position: _Position


class FilePiece(_Message):
    """A piece of a raw file of the trial at ``position``, to be appended; base64."""

    kind: Literal["file"] = "file"
    position: _Position
    name: str
    data: str

    def decode(self) -> bytes:
        """Return the bytes. Unfit if the text is not base64."""
        try:
            return base64.b64decode(self.data, validate=True)
        except ValueError:
            raise readers.Unfit("a file's piece is not base64") from None


class TrialFinished(_Message):
    """A trial's rows: one record, or a duet's two, the baseline's first. ``settled_otherwise``: as
    :class:`dballoc.store.results.TrialRecord` has it.
    """

    kind: Literal["trial"] = "trial"
    position: _Position
    records: Annotated[
        list[dict[str, Annotated[list[_Row], Field(max_length=_MOST_ROWS)]]],
        Field(min_length=1, max_length=2),
    ]
    settled_otherwise: Annotated[dict[_Variable, _Variable], Field(max_length=100)] = {}


class BlockFinished(_Message):
    """All trials are over: the row of table ``block``, without its place."""

    kind: Literal["block"] = "block"
    row: _Row


class Refused(_Message):
    """The host cannot run the block, or not finish it; the last message. ``blames_client``: because
    of its client host; ``is_passing``: because of something that may be otherwise in some minutes.
    """

    kind: Literal["refused"] = "refused"
    text: _Text
    blames_client: bool = False
    is_passing: bool = False


class Ended(_Message):
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
    | Refused
    | Ended
    | ToClient
    | FromClient
)

_ADAPTER: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="kind")])


def parse_message(line: bytes, columns: Mapping[str, Mapping[str, str]]) -> Message:
    """Parse a line. ``columns``: the types of each table's columns by their names. Unfit if it is
    no message, or if a row does not fit its table.
    """
    if len(line) > LONGEST_LINE:
        raise readers.Unfit("a message is too long")
    try:
        # The strict reader of JSON: bounded depth, no NaN.
        message = _ADAPTER.validate_python(readers.document(line))
    except ValidationError as error:
        raise readers.Unfit(f"not a message: {readers.first_complaint(error)}") from None
    match message:
        case FilePiece():
            if not is_file_name(message.name):
                raise readers.Unfit(f"{readers.shown(message.name)} is no name of a trial's file")
        case TrialFinished():
            for record in message.records:
                _check_record(record, columns)
        case BlockFinished():
            _check_rows("block", [message.row], columns)
            if message.row.keys() != columns["block"].keys() - _BLOCK_PLACE:
                raise readers.Unfit("a block's row has not the columns that it should have")
            _check_probes(message.row)
            _check_times(message.row)
    return message


def is_file_name(name: str) -> bool:
    """Whether a raw file of a trial may have that path below its directory. Pure."""
    return _FILE_NAME.fullmatch(name) is not None


def _check_probes(row: _Row) -> None:
    for name in ("probe_before", "probe_after"):
        seconds = row[name]
        if not isinstance(seconds, int | float) or not 0 <= seconds <= LONGEST_PROBE:
            raise readers.Unfit(f"{name}: {readers.shown(str(seconds))} is not valid")


def _check_times(row: _Row) -> None:
    for name in ("started", "ended"):
        if row[name] is None:
            raise readers.Unfit(f"a block's row does not say when it {name}")


def _check_record(
    record: Mapping[str, list[_Row]], columns: Mapping[str, Mapping[str, str]]
) -> None:
    if len(record.get("trial", [])) != 1:
        raise readers.Unfit("a trial without its row")
    for field, rows in record.items():
        if field not in RECORD_TABLES:
            raise readers.Unfit(f"{readers.shown(field)} is no part of a trial")
        _check_rows(RECORD_TABLES[field], rows, columns)


def _check_rows(table: str, rows: list[_Row], columns: Mapping[str, Mapping[str, str]]) -> None:
    """Check that rows have the table's columns alone, all rows the same, and valid values."""
    if not rows:
        return
    kinds = columns[table]
    names = rows[0].keys()
    for name in names:
        if name not in kinds or name in (_TRIAL_PLACE if table == "trial" else {"trial"}):
            raise readers.Unfit(f"rows of table {table} have no column {readers.shown(name)}")
    if any(row.keys() != names for row in rows):
        raise readers.Unfit(f"rows of table {table} differ in their columns")
    for name in names:
        column_types.check_values((row[name] for row in rows), kinds[name], name)


def make_record_rows(record: TrialRecord) -> dict[str, list[_Row]]:
    """Return a trial's record as a message has it."""
    rows = {
        field: [dict(row) for row in getattr(record, field)]
        for field in RECORD_TABLES
        if field != "trial"
    }
    return {"trial": [dict(record.trial)], **{name: some for name, some in rows.items() if some}}
