"""The guardian's lease: the newest stamp counts, however many wait."""

import os
import time
from collections.abc import Iterator

import pytest

from dballoc.host.guardian import guardian
from dballoc.host.guardian.guardian import STAMP, RunningLease

Pipe = tuple[int, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    reader, writer = os.pipe2(os.O_CLOEXEC)
    yield reader, writer
    os.close(reader)
    os.close(writer)


def test_the_newest_of_many_stamps_counts(pipe: Pipe) -> None:
    """As where a block prepared for long before its guardian began to read."""
    reader, writer = pipe
    lease = RunningLease(reader, 30.0)
    os.write(writer, STAMP.pack(time.monotonic() - 3600) * 5000)
    os.write(writer, STAMP.pack(time.monotonic()))
    assert lease.renew()
    assert lease.find_seconds_left() > 25
    # Nothing is left, and nothing is waited for.
    assert lease.renew()


def test_a_closed_end_is_noticed_behind_what_has_come() -> None:
    reader, writer = os.pipe2(os.O_CLOEXEC)
    os.write(writer, STAMP.pack(time.monotonic()))
    os.close(writer)
    assert not RunningLease(reader, 30.0).renew()
    os.close(reader)


def test_who_never_stops_writing_keeps_the_guardian_from_nothing(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = RunningLease(pipe[0], 30.0)
    reads = []

    def read(descriptor: int, most: int) -> bytes:
        reads.append(descriptor)
        return STAMP.pack(time.monotonic())

    monkeypatch.setattr(guardian.os, "read", read)
    assert lease.renew()
    assert len(reads) == guardian.LEASE_PIECES
