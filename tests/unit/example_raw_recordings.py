"""Raw recordings, written as native/trace/ writes them."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from dballoc.trace.recording.chunk_file import (
    MAGIC,
    NO_THREAD,
    VERSION,
    ChunkKind,
    compute_checksum,
)

HEAD = b"program /usr/sbin/mariadbd\nallocator /lib/libc.so.6\npage_size 4096\nfrom_start 1\n"


def encode_record(kind: int, time: int = 0, number: int = 0, size: int = 0) -> bytes:
    """A record whose numbers are as they stand in it."""
    parts = [
        value.to_bytes((value.bit_length() + 7) // 8, "little")
        for value in (time >> 3, number, size)
    ]
    head = kind | len(parts[0]) << 4 | len(parts[1]) << 7 | len(parts[2]) << 10 | (time & 7) << 13
    return head.to_bytes(2, "little") + b"".join(parts)


@dataclass
class Encoder:
    """The records of one buffer, relative to each other."""

    first: int
    stamp: int = field(init=False)
    place: int = 0
    data: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self.stamp = self.first

    def call(self, kind: int, stamp: int, address: int, size: int) -> "Encoder":
        """Add a call."""
        change = (address >> 3) - self.place
        zigzag = change << 1 if change >= 0 else (-change << 1) - 1
        self.data += encode_record(kind, stamp - self.stamp, zigzag, size)
        self.stamp, self.place = stamp, address >> 3
        return self

    def add(self, kind: int, number: int = 0, size: int = 0, flag: int = 0) -> "Encoder":
        """Add what is no call."""
        self.data += encode_record(kind, flag, number, size)
        return self


@dataclass
class RawRecording:
    """A file, chunk by chunk."""

    data: bytearray = field(default_factory=bytearray)
    chunks: int = 0
    version: int = VERSION

    def add(self, kind: ChunkKind, payload: bytes, **fields: int) -> "RawRecording":
        """Add a chunk; ``fields`` of its header."""
        names = ("thread", "buffer", "offset", "events", "dropped", "first", "written")
        values = {"thread": NO_THREAD} | fields
        self.data += struct.pack(
            "=IHHIIQIIIIQQQ", MAGIC, self.version, kind, len(payload), compute_checksum(payload),
            self.chunks,
            *(values.get(name, 0) for name in names),
        )  # fmt: skip
        self.data += payload
        self.chunks += 1
        return self

    def clock(self, stamp: int, monotonic: int) -> "RawRecording":
        """Add what time it is at a stamp."""
        return self.add(ChunkKind.CLOCK, struct.pack("=QQQ", stamp, monotonic, 0))

    def thread(
        self,
        number: int,
        name: bytes = b"thread",
        creator: int = NO_THREAD,
        ended: bool = False,
        born: int = 0,
        died: int = 0,
    ) -> "RawRecording":
        """Add a thread; ``born``, ``died``: the stamps of its creation and its end."""
        fields = (number, 100 + number, creator, ended, born, died, name)
        return self.add(ChunkKind.THREAD, struct.pack("=IIIIQQ16s", *fields))

    def end(self, ended_by: bytes = b"exit", dropped: int = 0) -> "RawRecording":
        """Add the end."""
        return self.add(ChunkKind.END, b"ended_by %s\nevents 9\ndropped %d\n" % (ended_by, dropped))


def begin_recording(version: int = VERSION) -> RawRecording:
    """A recording whose stamps are ns after 1,000."""
    recording = RawRecording(version=version).add(ChunkKind.HEAD, HEAD)
    return recording.clock(1000, 50_000).clock(2000, 51_000)


def split_buffer(
    recording: RawRecording, encoder: Encoder, cuts: Iterable[int], **fields: int
) -> RawRecording:
    """Add a buffer in pieces that end at these places."""
    at = 0
    for cut in [*cuts, len(encoder.data)]:
        recording.add(
            ChunkKind.EVENTS, bytes(encoder.data[at:cut]), offset=at, first=encoder.first, **fields
        )
        at = cut
    return recording


def make_example() -> bytes:
    """Two threads, all kinds of records, a mark, touches."""
    first = (
        Encoder(1100)
        .call(1, 1200, 0x7F0000001000, 100)
        .add(8, size=64)
        .call(3, 1250, 0x7F0000002000, 200)
        .call(7, 1300, 0x7F0000001000, 0)
        .call(4, 1350, 0x7F0000003000, 300)
        .add(9, size=5)
        .call(1, 1400, 0x7F0000100000, 1 << 20)
        .add(10, number=5, size=1 << 20)
        .add(11, number=2, size=3)
        .add(11, number=1, size=1)
        .call(5, 1500, 0x7F0000100000, 0)
    )
    second = Encoder(1150).call(2, 1160, 0x5500000010, 7).call(6, 1700, 0x7F0000002000, 200)
    recording = begin_recording().thread(0)
    recording.thread(1, b"worker", creator=0, ended=True, born=1120, died=1900)
    split_buffer(recording, first, (), thread=0, events=6)
    split_buffer(recording, second, (), thread=1, events=2, dropped=3)
    recording.add(ChunkKind.MARK, b"load rss=5000 pss=4000", written=1600)
    touched = Encoder(0).add(10, number=7, size=40960, flag=3).add(11, number=0, size=10)
    recording.add(ChunkKind.TOUCHES, bytes(touched.data))
    return bytes(recording.clock(3000, 52_000).end(dropped=4).data)
