"""What the heap probe says: its binary snapshot read. native/probe/snapshot.c draws the layout.
Pure.
"""

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
# More than a call can take.
_LAST_BUCKET = 200


class Damaged(Exception):
    """It is no snapshot, or is cut short, or of another version; the text says which."""


class Stack(NamedTuple):
    """``addresses``: return addresses, the innermost first. ``objects``, ``bytes``, ``variance``
    (of bytes): estimates of what was allocated there since the probe's sums were last reset, from
    so many ``samples``.
    """

    addresses: tuple[int, ...]
    truncated: bool
    objects: float
    bytes: float
    variance: float
    samples: int


class Block(NamedTuple):
    """A sampled block that is alive. ``usable``: bytes, by malloc_usable_size; ``asked``: bytes, as
    asked for; ``interval`` of the sampling, bytes; ``time``: seconds, CLOCK_MONOTONIC; ``thread``:
    as the kernel has it.
    """

    address: int
    usable: int
    asked: int
    interval: int
    time: float
    stack: int
    thread: int

    @property
    def chance(self) -> float:
        """The probability with which it was sampled. native/probe/sample.c says why."""
        return -math.expm1(-(self.asked + 1) / self.interval)

    @property
    def identity(self) -> tuple[int, float]:
        """The same block in two snapshots."""
        return self.address, self.time


class Times(NamedTuple):
    """Calls that were timed. ``size_class`` k: 2^(k-1) to 2^k - 1 bytes, 0 for none; see
    :func:`bucket_start`.
    """

    operation: int
    size_class: int
    bucket: int
    calls: int
    nanoseconds: int


class Waits(NamedTuple):
    """Timed calls whose stack was taken, of one stack and operation: ``calls`` that were not
    stalled, each for
    :attr:`Snapshot.stacks_period` timed ones; all ``stalls``; and the nanoseconds in both.
    """

    stack: int
    operation: int
    calls: int
    nanoseconds: int
    stalls: int
    stalled: int


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """``taken``: Unix time. ``now``, ``began``, ``reset``: seconds, CLOCK_MONOTONIC: of the
    snapshot, the probe's load, and the last reset of its sums. ``cpu``: seconds of the process
    since that. ``lost_blocks``, ``lost_stacks``: samples without room. ``overwritten``: blocks that
    were freed in a way that the probe does not see. ``period``: calls for each timed one;
    ``stacks_period``: timed ones for each whose stack was taken, 0 if none is.
    """

    pid: int
    taken: float
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
    stacks: dict[int, Stack] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    times: list[Times] = field(default_factory=list)
    waits: list[Waits] = field(default_factory=list)
    build_ids: dict[str, str] = field(default_factory=dict)
    maps: str = ""

    @property
    def complete(self) -> float:
        """The share of sampled stacks that reach a thread's start; 1 where there was none."""
        all_ = self.by_pointers + self.by_cfi
        return 1 - self.incomplete / all_ if all_ else 1.0


def read(data: bytes) -> Snapshot:
    """The snapshot in these bytes. Damaged if it is none."""
    if data[:8] != _MAGIC:
        raise Damaged("not a snapshot of the probe")
    head: tuple[int, ...] | None = None
    stacks: dict[int, Stack] = {}
    blocks: list[Block] = []
    times: list[Times] = []
    waits: list[Waits] = []
    build_ids: dict[str, str] = {}
    maps: list[bytes] = []
    at, ended = len(_MAGIC), False
    try:
        while not ended:
            tag, length = struct.unpack_from("=4sI", data, at)
            payload = data[at + 8 : at + 8 + length]
            if len(payload) != length:
                break
            at += 8 + length
            match tag:
                case b"HEAD":
                    head = _HEAD.unpack_from(payload)
                    if head[0] != VERSION:
                        raise Damaged(
                            f"a snapshot of version {head[0]}; this dballoc reads version {VERSION}"
                        )
                case b"STAK":
                    number, depth, truncated, _, objects, size, variance, samples = (
                        _STACK.unpack_from(payload)
                    )
                    addresses = struct.unpack_from(f"={depth}Q", payload, _STACK.size)
                    stacks[number] = Stack(
                        addresses, bool(truncated), objects, size, variance, samples
                    )
                case b"LIVE":
                    address, usable, asked, interval, time, _, stack, thread = _LIVE.unpack(payload)
                    blocks.append(
                        Block(address, usable, asked, interval, time / 1e9, stack, thread)
                    )
                case b"TIME":
                    operation, size_class, bucket, _, calls, nanoseconds = _TIME.unpack(payload)
                    times.append(Times(operation, size_class, bucket, calls, nanoseconds))
                case b"WAIT":
                    waits.append(Waits._make(_WAIT.unpack(payload)))
                case b"BUID":
                    build_id, _, path = payload.decode(errors="replace").partition(" ")
                    build_ids[path] = build_id
                case b"MAPS":
                    maps.append(payload)
                case b"END.":
                    ended = True
    except struct.error:
        pass
    if any(
        t.operation > FREE or t.size_class > 64 or t.bucket > _LAST_BUCKET or not t.calls
        for t in times
    ):
        raise Damaged("the snapshot makes no sense")
    if any(w.operation > FREE or w.stack not in stacks for w in waits):
        raise Damaged("the snapshot makes no sense")
    if not ended or head is None or any(b.stack not in stacks or not b.interval for b in blocks):
        raise Damaged("the snapshot is cut short")
    return Snapshot(
        pid=head[7],
        taken=head[1] / 1e9,
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
        stacks=stacks,
        blocks=blocks,
        times=times,
        waits=waits,
        build_ids=build_ids,
        maps=b"".join(maps).decode(errors="replace"),
    )


def bucket_start(bucket: int) -> int:
    """The least nanoseconds of a time bucket: 0, 1, 2, 3, then four buckets for each doubling."""
    return bucket if bucket < 4 else (4 + bucket % 4) << (bucket // 4 - 1)
