"""Reading raw recordings: every record, pieces of buffers, torn and hostile files."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from example_raw_recordings import (
    HEAD,
    Encoder,
    RawRecording,
    begin_recording,
    make_example,
    split_buffer,
)
from hypothesis import given
from hypothesis import strategies as st

from dballoc import catalogue
from dballoc.campaign.replay.read_trace_file import read_any_trace
from dballoc.experiment import experiment_file
from dballoc.experiment.model import RecordTrace
from dballoc.ground.errors import Failure, UsageError
from dballoc.instruments.ways_in.preload_socket import RECORDER
from dballoc.trace import trace_size
from dballoc.trace.compilation.compile_recording import compile_recording
from dballoc.trace.model import NONE, EventKind, Mark, Recording, TouchSample
from dballoc.trace.recording import chunk_file
from dballoc.trace.recording import read_recording as read_recording_module
from dballoc.trace.recording.chunk_file import ChunkKind, Torn
from dballoc.trace.recording.event_records import decode_records
from dballoc.trace.recording.read_recording import (
    parse_recording,
    read_recording,
    verify_recording,
)
from dballoc.trace.recording.stamp_times import StampTimes


def parse(recording: RawRecording) -> object:
    return parse_recording(memoryview(bytes(recording.data)))


def test_every_record() -> None:
    recording = parse_recording(memoryview(make_example()))
    first, second = recording.threads
    assert first.kind.tolist() == [1, 3, 4, 1, 5]
    assert first.before.tolist() == [200, 250, 300, 400, 500]
    assert first.after.tolist() == [200, 250, 350, 400, 500]
    assert first.address.tolist() == [
        0x7F0000001000, 0x7F0000002000, 0x7F0000003000, 0x7F0000100000, 0x7F0000100000,
    ]  # fmt: skip
    assert first.old.tolist() == [0, 0, 0x7F0000001000, 0, 0]
    assert first.size.tolist() == [100, 200, 300, 1 << 20, 0]
    assert first.alignment.tolist() == [0, 64, 0, 0, 0]
    assert first.site.tolist() == [0, 0, 0, 5, 0]
    assert (first.name, first.tid, first.created_by) == ("thread", 100, NONE)
    assert (second.name, second.tid, second.created_by) == ("worker", 101, 0)
    assert (first.created, second.created) == (NONE, 120)
    assert (first.ended, second.ended) == (NONE, 900)
    assert second.kind.tolist() == [EventKind.CALLOC, EventKind.FREE_SIZED]
    assert recording.touches == (
        TouchSample(size=1 << 20, site=5, runs=((2, 3), (6, 1))),
        TouchSample(size=40960, site=7, runs=((0, 10),), rarity=3),
    )
    assert recording.marks == (Mark(time=600, name="load", truth={"rss": 5000, "pss": 4000}),)
    facts = recording.facts
    assert (facts.program, facts.allocator) == ("/usr/sbin/mariadbd", "/lib/libc.so.6")
    assert (facts.from_start, facts.dropped, facts.ended_by) == (True, 4, "exit")
    assert facts.seconds == pytest.approx(2e-6)


@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from([1, 2, 3, 4, 5, 6]),
            st.integers(0, 2**40),
            st.integers(0, 2**53 - 1).map(lambda place: place * 8),
            st.integers(0, 2**56 - 1),
        ),
        max_size=60,
    ),
    sizes=st.lists(st.integers(1, 9), max_size=12),
)
def test_what_is_encoded_is_decoded(
    rows: list[tuple[int, int, int, int]], sizes: list[int]
) -> None:
    """In buffers of any lengths."""
    buffers, at = [], 0
    for count in [*sizes, len(rows)]:
        buffers.append(rows[at : at + count])
        at += count
    buffers = [buffer for buffer in buffers if buffer]
    encoded, stamps = [], []
    for number, buffer in enumerate(buffers):
        encoder = Encoder(number * 1000)
        for kind, time, address, size in buffer:
            stamps.append(encoder.stamp + time)
            encoder.call(kind, stamps[-1], address, size)
        encoded.append(bytes(encoder.data))
    starts = np.cumsum([0, *map(len, encoded)])[:-1]
    records = decode_records(
        np.frombuffer(b"".join(encoded), np.uint8),
        starts,
        np.array([number * 1000 for number in range(len(buffers))], np.uint64),
    )
    assert records.damaged.tolist() == []
    assert records.kind.tolist() == [row[0] for row in rows]
    assert records.stamp.tolist() == stamps
    assert records.number.tolist() == [row[2] for row in rows]
    assert records.size.tolist() == [row[3] for row in rows]
    assert records.buffer.tolist() == [i for i, buffer in enumerate(buffers) for _ in buffer]


def parse_with_one_call(recording: RawRecording) -> Recording:
    """Add one call of thread 5, 200 ns after the begin, and parse the whole."""
    split_buffer(recording, Encoder(1100).call(1, 1200, 16, 1), (), thread=5, events=1)
    return parse_recording(memoryview(bytes(recording.data)))


@pytest.mark.parametrize(
    ("ended", "died", "end"),
    [
        (False, 0, NONE),
        (True, 1900, 900),
        (True, 1150, 200),  # its destructors made the last call
        (True, 0, 200),
    ],
)
def test_when_a_thread_ended(ended: bool, died: int, end: int) -> None:
    """At its stamp, but not before its last call; with that where there is no stamp."""
    recording = begin_recording().thread(5, ended=ended, died=died)
    parsed = parse_with_one_call(recording)
    assert [thread.ended for thread in parsed.threads] == [end]
    assert [thread.ended for thread in compile_recording(parsed).threads] == [end]


@pytest.mark.parametrize(
    ("born", "moment"),
    [
        (0, NONE),
        (1150, 150),
        (900, 0),  # before the recording
        (1300, 200),  # its first call
    ],
)
def test_when_a_thread_was_created(born: int, moment: int) -> None:
    """At its stamp, but not after its first call."""
    recording = begin_recording().thread(5, creator=4, born=born)
    parsed = parse_with_one_call(recording)
    assert [thread.created for thread in parsed.threads] == [moment]
    assert [thread.created for thread in compile_recording(parsed).threads] == [moment]
    stranger = parse_with_one_call(begin_recording().thread(5, born=born))
    assert stranger.threads[0].created == NONE


@pytest.mark.parametrize("version", [2, 4])
def test_another_version_is_not_guessed_at(version: int) -> None:
    expected = f"it is of version {version}, and this dballoc reads 3; use the dballoc that made it"
    with pytest.raises(Torn, match=expected):
        parse_recording(memoryview(bytes(begin_recording(version).data)))


def test_a_chunk_of_another_length_is_damaged() -> None:
    recording = begin_recording().add(ChunkKind.THREAD, bytes(40))
    notes = parse_recording(memoryview(bytes(recording.data))).facts.not_seen
    assert any("a chunk of kind THREAD is damaged" in note for note in notes)


def test_pieces_of_a_buffer() -> None:
    """Written while it fills, and after the next buffer."""
    old = Encoder(1000).call(1, 1001, 16, 1).call(1, 1002, 32, 2)
    cut = len(old.data)
    old.call(1, 1003, 48, 3)
    new = Encoder(1100).call(1, 1101, 64, 4)
    recording = begin_recording()
    fields = {"thread": 3, "first": 1000}
    recording.add(ChunkKind.EVENTS, bytes(old.data[:cut]), buffer=0, events=2, **fields)
    split_buffer(recording, new, (), thread=3, buffer=1, events=1)
    recording.add(ChunkKind.EVENTS, bytes(old.data[cut:]), buffer=0, offset=cut, events=1, **fields)
    [thread] = parse_recording(memoryview(bytes(recording.data))).threads
    assert thread.size.tolist() == [1, 2, 3, 4]


def test_a_missing_piece_is_counted() -> None:
    old = Encoder(1000).call(1, 1001, 16, 1).call(1, 1002, 32, 2)
    recording = begin_recording()
    recording.add(ChunkKind.EVENTS, bytes(old.data[5:]), thread=0, offset=5, events=1, first=1000)
    result = parse_recording(memoryview(bytes(recording.data)))
    assert result.threads == ()
    assert result.facts.dropped == 1


def test_events_of_a_damaged_buffer_are_counted() -> None:
    """Those that its pieces claim and that cannot be read, and at least one."""
    recording = begin_recording()
    for buffer, (claimed, rest) in enumerate([(5, b"\0" * 16), (2, b"\0" * 16), (2, b"")]):
        encoder = Encoder(1000).call(1, 1001, 16, 1).call(1, 1002, 32, 2)
        payload = bytes(encoder.data) + rest
        fields = {"thread": 0, "buffer": buffer, "events": claimed, "first": 1000}
        recording.add(ChunkKind.EVENTS, payload, **fields)
    result = parse_recording(memoryview(bytes(recording.data)))
    assert result.threads[0].size.tolist() == [1, 2] * 3
    assert result.facts.dropped == 3 + 1


def test_a_file_that_there_is_no_memory_for_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "1.recording"
    path.write_bytes(make_example())
    memory = SimpleNamespace(available=len(make_example()) - 1)
    monkeypatch.setattr(trace_size.psutil, "virtual_memory", lambda: memory)
    for read in (verify_recording, read_recording):
        with pytest.raises(Failure, match=r"its .* must be in memory, of which .* are available"):
            read(path)
    assert read_recording_module.is_recording(path)


@given(st.integers(0, len(make_example()) - 1))
def test_a_torn_file_is_read_up_to_its_last_whole_chunk(length: int) -> None:
    example = make_example()
    try:
        recording = parse_recording(memoryview(example[:length]))
    except Torn:
        assert length < 500  # without its head, or without two clocks
        return
    assert recording.facts.ended_by == "unknown"
    assert any("last whole chunk" in sentence for sentence in recording.facts.not_seen)


def test_one_wrong_byte_ends_it(tmp_path: Path) -> None:
    example = bytearray(make_example())
    path = tmp_path / "1.recording"
    path.write_bytes(example)
    whole = verify_recording(path)
    assert (whole.complaint, whole.ended_by, whole.events) == ("", "exit", 8)
    assert whole.bytes == len(example)
    example[-3] ^= 1
    path.write_bytes(example)
    torn = verify_recording(path)
    assert torn.complaint == "a chunk's checksum is wrong"
    assert torn.chunks == whole.chunks - 1
    assert read_recording(path).facts.ended_by == "unknown"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is empty"),
        (b"x" * 100, "there is no chunk"),
        (bytes(RawRecording().add(ChunkKind.HEAD, HEAD).data), "when its events were"),
        (bytes(RawRecording().clock(1, 2).data), "out of order"),
        (
            bytes(
                RawRecording()
                .add(ChunkKind.HEAD, HEAD.replace(b"4096", b"12"))
                .clock(1, 1)
                .clock(2, 2)
                .data
            ),
            "its pages have 12 bytes",
        ),
    ],
)
def test_what_is_no_recording(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "1.recording"
    path.write_bytes(data)
    with pytest.raises(Failure, match=reason):
        read_recording(path)


def test_files_that_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "1.recording"
    path.write_bytes(make_example())
    with pytest.raises(UsageError, match="is larger than 10 bytes"):
        read_recording(path, most_bytes=10)
    with pytest.raises(UsageError, match="cannot be read"):
        read_recording(tmp_path / "none")
    with pytest.raises(UsageError, match="cannot be read"):
        read_recording(tmp_path)


def test_times_between_clocks_and_beyond() -> None:
    times = StampTimes.from_clocks([(100, 1000), (200, 1100), (150, 1200), (300, 1400)])
    assert times.to_ns([50, 100, 150, 200, 250, 300, 400]).tolist() == [
        0, 0, 50, 100, 250, 400, 700,
    ]  # fmt: skip


def record_calls(events: int, claimed: int) -> bytes:
    """A recording of so many calls, whose chunk claims others."""
    encoder = Encoder(1000)
    for number in range(events):
        encoder.call(1, 1001 + number, 16 * (number + 1), 1)
    recording = begin_recording()
    recording.add(
        ChunkKind.EVENTS, bytes(encoder.data), thread=0, buffer=0, events=claimed, first=1000
    )
    return bytes(recording.data)


def test_more_than_a_trace_holds_is_refused_before_it_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_size, "MOST_EVENTS", 99)
    path = tmp_path / "1.recording"
    path.write_bytes(record_calls(99, 99))
    assert len(read_recording(path).threads[0].kind) == 99
    for claimed in (100, 0):  # A file may claim what it likes.
        path.write_bytes(record_calls(100, claimed))
        with pytest.raises(
            Failure, match=r"100 events; a trace has at most 99; .*--limit"
        ) as error:
            read_recording(path)
        assert "\n" not in str(error.value)
        with pytest.raises(UsageError, match="100 events; a trace has at most 99"):
            read_any_trace(path)
    path.write_bytes(record_calls(100, 100))
    monkeypatch.setattr(read_recording_module.event_records, "decode_records", None)
    with pytest.raises(Failure, match="100 events; a trace has at most 99"):
        read_recording(path)


def test_what_the_shipped_experiments_record_can_be_compiled() -> None:
    # Bytes an event, of which a real server's recording has 6.2.
    least = 5.4
    for name in ("trace-innodb", "trace-myrocks", "trace-mysql", "trace-day"):
        table = experiment_file.parse_table(catalogue.experiments()[name], name)
        record = experiment_file.build_experiment(table, name).record
        assert record
        assert record.limit / least < trace_size.MOST_EVENTS
    assert RecordTrace().limit == RECORDER.size
    assert RECORDER.size / least < trace_size.MOST_EVENTS


def test_pieces_that_together_are_no_buffer() -> None:
    """The longest payload at once would take as many steps as it has records."""
    recording = begin_recording()
    for number in range(3):
        payload = b"\x01\x00" * 4000
        recording.add(
            ChunkKind.EVENTS, payload, thread=0, offset=8000 * number, events=4000, first=1000
        )
    whole = parse_recording(memoryview(bytes(recording.data)))
    assert any("a chunk of kind EVENTS is damaged" in note for note in whole.facts.not_seen)
    assert sum(len(thread.kind) for thread in whole.threads) == 8000


def test_the_number_of_chunks_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = begin_recording()
    for stamp in range(10):
        recording.clock(1000 + stamp, 1000 + stamp)
    monkeypatch.setattr(chunk_file, "_MOST_CHUNKS", recording.chunks - 1)
    notes = parse_recording(memoryview(bytes(recording.data))).facts.not_seen
    assert any("more than" in note and "chunks" in note for note in notes)
