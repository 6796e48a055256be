"""What a host of a campaign answers: a line, which names columns and files on the driver."""

import json

import example_results

from dballoc.campaign.elsewhere.block_messages import (
    BlockFinished,
    FilePiece,
    TrialFinished,
    make_record_rows,
    parse_message,
)
from dballoc.campaign.elsewhere.client.load_messages import LoadFinished, LoadRequested
from dballoc.campaign.elsewhere.message_stream import encode_message
from dballoc.experiment import schedule
from dballoc.experiment.model import Experiment
from dballoc.ground import readers
from dballoc.store.rows import BlockPlace

OF = (
    "dballoc.campaign.elsewhere.block_messages",
    "dballoc.campaign.elsewhere.client.load_messages",
    "dballoc.ground.readers",
    "dballoc.store.column_types",
    "dballoc.store.rows",
)
PRIVILEGED = False

EXPERIMENT = Experiment.model_validate(
    {
        "name": "small",
        "baseline": "glibc",
        "workloads": ["oltp_read_only"],
        "threads": [1],
        "variant": [{"name": "glibc"}],
    }
)


def seeds() -> list[bytes]:
    slot = schedule.order_block(EXPERIMENT, 1)[0]
    rows = make_record_rows(example_results.record(EXPERIMENT, slot))
    small = {"trial": rows["trial"], "step": rows["step"][:1], "mark": rows["mark"][:1]}
    block = vars(example_results.block_row("solo", 1))
    for name in BlockPlace.list_columns():
        del block[name.name]
    return [
        encode_message(TrialFinished(position=1, records=[small])),
        encode_message(BlockFinished(row=block)),
        encode_message(
            LoadRequested(
                number=1,
                workload="oltp_read_only",
                threads=1,
                seconds=1.0,
                engine="innodb",
                port=3306,
                password="c2VhbGVk",
            )
        ),
        encode_message(LoadFinished(number=1, status=0, printed="", reports="{}", ahead=1.0)),
        encode_message(FilePiece(position=1, name="heap/a.txt", data="YWJj")),
        *(
            json.dumps(words).encode()
            for words in (
                {"kind": "notice", "text": "data"},
                {"kind": "trial started", "position": 3},
                {"kind": "refused", "text": "no"},
                {"kind": "ended", "status": -9, "log": "x"},
            )
        ),
    ]


def fuzz(data: bytes) -> None:
    try:
        message = parse_message(data)
        if isinstance(message, FilePiece):
            parts = message.name.split("/")
            assert not any(part in ("", ".", "..") for part in parts)
            message.decode()
    except readers.Unfit as error:
        assert "\n" not in str(error)
        return
    assert parse_message(encode_message(message)) == message
