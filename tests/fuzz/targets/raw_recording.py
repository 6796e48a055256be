"""A raw recording, which the recorded process wrote, and may have filled with anything."""

from example_raw_recordings import make_example

from dballoc.trace.model import NONE
from dballoc.trace.recording import read_recording
from dballoc.trace.recording.chunk_file import Torn, compute_checksum

OF = (
    "dballoc.trace.recording.chunk_file",
    "dballoc.trace.recording.event_records",
    "dballoc.trace.recording.read_recording",
    "dballoc.trace.recording.stamp_times",
    "dballoc.trace.recording.thread_calls",
)
PRIVILEGED = True


def seeds() -> list[bytes]:
    return [make_example()]


def with_checksums(data: bytes) -> bytes:
    """The same with right checksums as far as its chunks go, so that what is in them is read."""
    result, at = bytearray(data), 0
    while at + 64 <= len(result):
        length = int.from_bytes(result[at + 8 : at + 12], "little")
        payload = bytes(result[at + 64 : at + 64 + length])
        if len(payload) != length:
            break
        result[at + 12 : at + 16] = compute_checksum(payload).to_bytes(4, "little")
        at += 64 + length
    return bytes(result)


def fuzz(data: bytes) -> None:
    for each in (data, with_checksums(data)):
        try:
            recording = read_recording.parse_recording(memoryview(each))
        except Torn:
            continue
        for thread in recording.threads:
            assert len(thread.kind) == len(thread.site) == len(thread.before)
            assert (thread.before <= thread.after).all()
            assert (thread.before >= 0).all()
            assert NONE <= thread.created <= thread.before[0]
            assert thread.ended == NONE or thread.ended >= thread.after[-1]
        assert sum(len(thread.kind) for thread in recording.threads) * 2 <= len(each)
        assert len(recording.touches) * 2 <= len(each)
