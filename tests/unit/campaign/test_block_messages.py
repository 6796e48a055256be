"""What a host answers is read as it was written, and nothing else is taken."""

import base64
import json
from typing import Any

import example_results
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.campaign.elsewhere.block_messages import (
    BlockFinished,
    BlockRefused,
    Ended,
    FilePiece,
    Message,
    Notice,
    TrialFinished,
    TrialStarted,
    make_record_rows,
    parse_message,
)
from dballoc.campaign.elsewhere.message_stream import encode_message
from dballoc.experiment import schedule
from dballoc.ground import readers
from dballoc.store.rows import MeasuredBlock, MeasuredTrial

MEASURED = {column.name for column in MeasuredBlock.list_columns()}
BLOCK_ROW = {k: v for k, v in vars(example_results.block_row("solo", 1)).items() if k in MEASURED}
TRIAL_ROW = vars(MeasuredTrial(started=1.0))


def make_line(**words: Any) -> bytes:
    return json.dumps(words).encode() + b"\n"


TEXTS = st.text(max_size=60)
SMALL = st.one_of(
    st.builds(Notice, text=TEXTS),
    st.builds(TrialStarted, position=st.integers(1, 10**6)),
    st.builds(BlockRefused, text=TEXTS),
    st.builds(Ended, status=st.integers(-255, 255), log=TEXTS),
    st.builds(
        FilePiece,
        position=st.integers(1, 1000),
        name=st.sampled_from(["server.log", "heap/a.txt", "A-1@b+c=d", "a/b/c/d"]),
        data=st.binary(max_size=60).map(lambda data: base64.b64encode(data).decode()),
    ),
)


@given(message=SMALL)
def test_a_message_is_read_as_it_was_written(message: Message) -> None:
    line = encode_message(message)
    assert line.endswith(b"\n")
    assert b"\n" not in line[:-1]
    assert parse_message(line) == message


def test_a_trial_and_a_block_are_read_as_they_were_written(
    experiment: Any,
) -> None:
    chosen = experiment()
    slot = schedule.order_block(chosen, 1)[0]
    rows = make_record_rows(example_results.record(chosen, slot))
    otherwise = {"rocksdb_compact_lzero_now": "", "a": "b"}
    trial = TrialFinished(position=1, records=[rows], settled_otherwise=otherwise)
    assert parse_message(encode_message(trial)) == trial
    block = BlockFinished(row=BLOCK_ROW)
    assert parse_message(encode_message(block)) == block


@given(data=st.binary(max_size=60))
def test_bytes_are_a_message_or_unfit(data: bytes) -> None:
    refusal = ""
    try:
        parse_message(data)
    except readers.Unfit as error:
        refusal = str(error)
    assert "\n" not in refusal


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b'"notice"',
        make_line(kind="shell", text="rm"),
        make_line(kind="notice"),
        make_line(kind="notice", text="a", more="b"),
        make_line(kind="trial started", position=0),
        make_line(kind="trial started", position="1"),
        make_line(kind="ended", status=10**9, log=""),
        make_line(kind="trial", position=1, records=[{}], settled_otherwise={"a": "<b>"}),
        *(
            make_line(kind="file", position=1, name=name, data="")
            for name in (
                "",
                "..",
                "../x",
                "a/../b",
                "/etc/passwd",
                ".x",
                "a//b",
                "a\0b",
                "a/b/c/d/e",
            )
        ),
        make_line(kind="trial", position=1, records=[]),
        make_line(kind="trial", position=1, records=[{}]),
        make_line(kind="trial", position=1, records=[{"trial": [{}, {}]}]),
        make_line(kind="trial", position=1, records=[{"trial": [TRIAL_ROW | {"started) --": 1}]}]),
        make_line(kind="trial", position=1, records=[{"trial": [TRIAL_ROW | {"started": "now"}]}]),
        make_line(kind="trial", position=1, records=[{"trial": [TRIAL_ROW | {"started": 1e300}]}]),
        make_line(kind="trial", position=1, records=[{"trial": [TRIAL_ROW], "campaign": []}]),
        make_line(
            kind="trial",
            position=1,
            records=[{"trial": [TRIAL_ROW], "mark": [{"step": 1}, {"t": 1.0}]}],
        ),
        make_line(
            kind="trial",
            position=1,
            records=[{"trial": [TRIAL_ROW], "probe": [{"asked": 1, "pool_bytes": None}]}],
        ),
        make_line(kind="trial", position=1, records=[{"trial": [TRIAL_ROW | {"started": None}]}]),
        make_line(kind="block", row=BLOCK_ROW | {"design": "solo"}),
        make_line(kind="block", row={"started": 1.0}),
        make_line(kind="block", row=BLOCK_ROW | {"started": None}),
        make_line(kind="block", row=BLOCK_ROW | {"ended": None}),
        *(
            make_line(kind="trial", position=1, records=[{"trial": [TRIAL_ROW | {name: 1}]}])
            for name in ("trial", "block", "variant", "role", "directory", "workload")
        ),
        make_line(
            kind="trial",
            position=1,
            records=[{"trial": [TRIAL_ROW], "step": [{"trial": 7, "step": 1}]}],
        ),
        b'{"kind":"block","row":{"steal":NaN}}',
    ],
)
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(readers.Unfit):
        parse_message(line)


def test_a_piece_that_is_not_base64_is_refused() -> None:
    piece = FilePiece(position=1, name="a", data="é!")
    with pytest.raises(readers.Unfit, match="base64"):
        piece.decode()
