"""Parse the heap probe's binary snapshots. native/probe/snapshot.c draws their layout. Pure."""

import math
import struct
from dataclasses import dataclass, field
from typing import NamedTuple

VERSION = 1
_MAGIC = b"DBALLOCP"
_HEAD = struct.Struct("=20Q")
_STACK = struct.Struct("=4I3dQ")
_LIVE = struct.Struct("=5Qd2I")
_TIME = struct.Struct("=4I2Q")
_WAIT = struct.Struct("=2I4Q")
MALLOC, FREE = 0, 1
# The bucket of a time that is longer than a call can take.
_LAST_BUCKET = 200


class Damaged(Exception):
    """Not a snapshot, or one that is cut short, or of another version; the text says which."""


class SampledStack(NamedTuple):
    """A call stack. ``addresses``: return addresses, the innermost first; ``objects``, ``bytes``,
    ``variance`` (of bytes): estimates of what was allocated there since the probe's sums were last
    reset, from so many ``samples``.
    """

    addresses: tuple[int, ...]
    truncated: bool
    objects: float
    bytes: float
    variance: float
    samples: int


class SampledBlock(NamedTuple):
    """A sampled block that is alive. ``usable``: bytes, by malloc_usable_size; ``requested``: bytes
    that the program asked for; ``interval``: the sampling interval, bytes; ``time`` of the
    allocation: seconds, CLOCK_MONOTONIC; ``stack``: number of its call stack; ``thread``: the
    kernel's thread ID.
    """

    address: int
    usable: int
    requested: int
    interval: int
    time: float
    stack: int
    thread: int

    @property
    def chance(self) -> float:
        """The probability with which it was sampled. native/probe/sample.c says why."""
        return -math.expm1(-(self.requested + 1) / self.interval)

    @property
    def identity(self) -> tuple[int, float]:
        """Address and time: equal for the same block in two snapshots."""
        return self.address, self.time


class TimedCalls(NamedTuple):
    """Calls that were timed. ``size_class`` k: 2^(k-1) to 2^k - 1 bytes, class 0: 0 bytes;
    ``bucket`` of their time: see :func:`compute_bucket_start`.
    """

    operation: int
    size_class: int
    bucket: int
    calls: int
    nanoseconds: int


class StackTimes(NamedTuple):
    """Timed calls whose stack was recorded, of one stack and operation: ``calls`` that did not
    stall, each for :attr:`Snapshot.stacks_period` timed ones, and their ``nanoseconds``; all
    ``stalls``, and the nanoseconds ``stalled`` in them.
    """

    stack: int
    operation: int
    calls: int
    nanoseconds: int
    stalls: int
    stalled: int


@dataclass(frozen=True, kw_only=True)
class ProbeTables:
    """A probe's tables: the stacks by number, and the build-id of each file by its path."""

    stacks: dict[int, SampledStack] = field(default_factory=dict)
    blocks: list[SampledBlock] = field(default_factory=list)
    times: list[TimedCalls] = field(default_factory=list)
    waits: list[StackTimes] = field(default_factory=list)
    build_ids: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Snapshot(ProbeTables):
    """A snapshot of a probe's tables. ``taken_at``: Unix time. ``now``, ``began``, ``reset``: when
    the snapshot was taken, the probe was loaded and its sums were last reset, seconds,
    CLOCK_MONOTONIC. ``cpu``: seconds of CPU that the process has used since the reset.
    ``lost_blocks``, ``lost_stacks``: samples that did not fit into a table. ``overwritten``: blocks
    that were freed in a way that the probe does not see. ``period``: calls for each timed one;
    ``stacks_period``: timed calls for each whose stack was recorded, 0 if none is.
    """

    pid: int
    taken_at: float
    now: float
    began: float
    reset: float
    cpu: float
    interval: int
    lost_blocks: int
    lost_stacks: int
    overwritten: int
    by_pointers: int
    by_cfi: int
    incomplete: int
    period: int
    stacks_period: int = 0
    maps: str = ""

    @property
    def complete(self) -> float:
        """The share of sampled stacks that reach a thread's start; 1 if there are none."""
        stacks = self.by_pointers + self.by_cfi
        return 1 - self.incomplete / stacks if stacks else 1.0


@dataclass(kw_only=True)
class _Records:
    """What the records of a snapshot hold. ``ended``: the last one says that nothing is missing."""

    head: tuple[int, ...] | None = None
    tables: ProbeTables = field(default_factory=ProbeTables)
    maps: list[bytes] = field(default_factory=list)
    ended: bool = False

    def add(self, tag: bytes, payload: bytes) -> None:
        """Add a record. Raises Damaged if it is of another version, struct.error if it is too
        short.
        """
        match tag:
            case b"HEAD":
                self.head = _HEAD.unpack_from(payload)
                if self.head[0] != VERSION:
                    raise Damaged(
                        f"a snapshot of version {self.head[0]}; this dballoc reads version "
                        f"{VERSION}"
                    )
            case b"STAK":
                number, stack = _parse_stack(payload)
                self.tables.stacks[number] = stack
            case b"LIVE":
                self.tables.blocks.append(_parse_block(payload))
            case b"TIME":
                operation, size_class, bucket, _, calls, nanoseconds = _TIME.unpack(payload)
                self.tables.times.append(
                    TimedCalls(operation, size_class, bucket, calls, nanoseconds)
                )
            case b"WAIT":
                self.tables.waits.append(StackTimes._make(_WAIT.unpack(payload)))
            case b"BUID":
                build_id, _, path = payload.decode(errors="replace").partition(" ")
                self.tables.build_ids[path] = build_id
            case b"MAPS":
                self.maps.append(payload)
            case b"END.":
                self.ended = True

    def check(self) -> tuple[int, ...]:
        """Return the head. Raises Damaged if records contradict each other, or one is missing."""
        tables = self.tables
        if any(
            t.operation > FREE or t.size_class > 64 or t.bucket > _LAST_BUCKET or not t.calls
            for t in tables.times
        ) or any(w.operation > FREE or w.stack not in tables.stacks for w in tables.waits):
            raise Damaged("the snapshot makes no sense")
        complete = all(b.stack in tables.stacks and b.interval for b in tables.blocks)
        if not self.ended or self.head is None or not complete:
            raise Damaged("the snapshot is cut short")
        return self.head


def parse_snapshot(data: bytes) -> Snapshot:
    """Parse a snapshot. Raises Damaged if these bytes are not one."""
    records = _read_records(data)
    head = records.check()
    return Snapshot(
        pid=head[7],
        taken_at=head[1] / 1e9,
        now=head[2] / 1e9,
        began=head[3] / 1e9,
        reset=head[4] / 1e9,
        cpu=(head[5] - head[6]) / 1e9,
        interval=head[8],
        lost_blocks=head[9],
        overwritten=head[10],
        lost_stacks=head[11],
        by_pointers=head[12],
        by_cfi=head[13],
        incomplete=head[14],
        period=head[15],
        stacks_period=head[19],
        maps=b"".join(records.maps).decode(errors="replace"),
        **vars(records.tables),
    )


def _read_records(data: bytes) -> _Records:
    """Read records up to the last, or as far as they are whole."""
    if data[:8] != _MAGIC:
        raise Damaged("not a snapshot of the probe")
    records = _Records()
    offset = len(_MAGIC)
    try:
        while not records.ended:
            tag, length = struct.unpack_from("=4sI", data, offset)
            payload = data[offset + 8 : offset + 8 + length]
            if len(payload) != length:
                break
            offset += 8 + length
            records.add(tag, payload)
    except struct.error:
        pass
    return records


def _parse_stack(payload: bytes) -> tuple[int, SampledStack]:
    number, depth, truncated, _, objects, size, variance, samples = _STACK.unpack_from(payload)
    addresses = struct.unpack_from(f"={depth}Q", payload, _STACK.size)
    return number, SampledStack(addresses, bool(truncated), objects, size, variance, samples)


def _parse_block(payload: bytes) -> SampledBlock:
    address, usable, requested, interval, time, _, stack, thread = _LIVE.unpack(payload)
    return SampledBlock(
        address=address,
        usable=usable,
        requested=requested,
        interval=interval,
        time=time / 1e9,
        stack=stack,
        thread=thread,
    )


def compute_bucket_start(bucket: int) -> int:
    """Return the least nanoseconds of a time bucket: 0, 1, 2, 3, then four buckets for each
    doubling.
    """
    return bucket if bucket < 4 else (4 + bucket % 4) << (bucket // 4 - 1)
