"""Which raw files of a trial a host sends to the driver."""

import io
import os
from pathlib import Path

import pytest

from dballoc.campaign.elsewhere import node_block
from dballoc.campaign.elsewhere.block_messages import (
    FilePiece,
    Message,
    Notice,
    TrialFinished,
    parse_message,
)
from dballoc.campaign.elsewhere.message_stream import MessageStream
from dballoc.experiment.schedule import Slot
from dballoc.store.results import TrialRecord
from dballoc.store.rows import MeasuredTrial


def send(directory: Path) -> list[Message]:
    """What the driver gets of a directory; all of it must be fit."""
    file = io.BytesIO()
    node_block.send_files(MessageStream(file), directory, 1)
    return [parse_message(line) for line in file.getvalue().splitlines(keepends=True)]


def test_files_are_sent_whole(tmp_path: Path) -> None:
    content = os.urandom(node_block.FILE_PIECE + 10)
    (tmp_path / "server.log").write_bytes(content)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "more.txt").write_text("x")
    pieces = [m for m in send(tmp_path) if isinstance(m, FilePiece)]
    assert b"".join(m.decode() for m in pieces if m.name == "server.log") == content
    assert [m.decode() for m in pieces if m.name == "sub/more.txt"] == [b"x"]


def test_what_a_server_left_that_is_no_plain_file_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "shadow").symlink_to("/etc/shadow")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a b.txt").write_text("x")
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / "server.log").write_text("x")
    messages = send(tmp_path)
    assert [m.name for m in messages if isinstance(m, FilePiece)] == ["server.log"]
    notices = [m.text for m in messages if isinstance(m, Notice)]
    assert len(notices) == 2
    assert all("not sent to the driver, for its name" in text for text in notices)


@pytest.mark.parametrize(("name", "bound"), [("MOST_FILES", 1), ("MOST_FILE_BYTES", 5)])
def test_no_more_is_sent_than_the_driver_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, bound: int
) -> None:
    monkeypatch.setattr(node_block, name, bound)
    for file in ("a", "b"):
        (tmp_path / file).write_text("abc")
    messages = send(tmp_path)
    assert [m.name for m in messages if isinstance(m, FilePiece)] == ["a"]
    assert [m.text for m in messages if isinstance(m, Notice)] == [
        "b: too large to be sent to the driver"
    ]


def test_a_trial_is_sent_with_what_its_server_settled_otherwise(tmp_path: Path) -> None:
    file = io.BytesIO()
    slot = Slot(block=1, attempt=0, position=3, variant="glibc", role="A1")
    (tmp_path / slot.label).mkdir()
    record = TrialRecord(trial=MeasuredTrial(started=1.0), settled_otherwise={"a_now": "b_now"})
    node_block._SentTrials(MessageStream(file), tmp_path).add_trial(slot, record)
    message = parse_message(file.getvalue())
    assert isinstance(message, TrialFinished)
    assert (message.position, message.settled_otherwise) == (3, {"a_now": "b_now"})
