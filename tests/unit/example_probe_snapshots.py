"""Snapshots of the heap probe, written as native/probe/snapshot.c writes them."""

import struct
from collections.abc import Iterable, Mapping

from dballoc.profile.heap.probe_snapshot import VERSION, SampledBlock

MAPS = """55d000000000-55d000001000 r--p 00000000 08:01 1 /usr/sbin/server
55d000001000-55d000009000 r-xp 00001000 08:01 1 /usr/sbin/server
7f0000000000-7f0000001000 rw-p 00000000 00:00 0
7f0000010000-7f0000020000 r-xp 00002000 08:01 2 /usr/lib/libc.so.6 (deleted)
"""


def block(tag: bytes, payload: bytes = b"") -> bytes:
    return tag + struct.pack("=I", len(payload)) + payload


def head(version: int = VERSION, interval: int = 1024, reset: float = 10.0) -> bytes:
    words = [
        version,
        2_000_000_000_000_000_000,
        30 * 10**9,
        5 * 10**9,
        int(reset * 1e9),
        9 * 10**9,
        4 * 10**9,
        77,
        interval,
    ]
    return block(b"HEAD", struct.pack("=20Q", *words, 1, 2, 3, 90, 9, 1, 1024, 20, 5, 6, 32))


def stack(
    number: int,
    addresses: Iterable[int],
    size: float = 0.0,
    samples: int = 0,
    truncated: bool = False,
) -> bytes:
    pcs = list(addresses)
    words = struct.pack(
        "=4I3dQ", number, len(pcs), truncated, 0, size / 100, size, size * 10, samples
    )
    return block(b"STAK", words + struct.pack(f"={len(pcs)}Q", *pcs))


def live(b: SampledBlock) -> bytes:
    words = (b.address, b.usable, b.requested, b.interval, int(b.time * 1e9))
    return block(b"LIVE", struct.pack("=5Qd2I", *words, b.usable / b.chance, b.stack, b.thread))


def timed(operation: int, size_class: int, bucket: int, calls: int, nanoseconds: int) -> bytes:
    return block(
        b"TIME", struct.pack("=4I2Q", operation, size_class, bucket, 0, calls, nanoseconds)
    )


def waited(
    stack: int, operation: int, calls: int, nanoseconds: int, stalls: int, stalled: int
) -> bytes:
    return block(
        b"WAIT", struct.pack("=2I4Q", stack, operation, calls, nanoseconds, stalls, stalled)
    )


def snapshot(*parts: bytes, end: bool = True, build_ids: Mapping[str, str] | None = None) -> bytes:
    ids = [block(b"BUID", f"{value} {path}".encode()) for path, value in (build_ids or {}).items()]
    maps = [block(b"MAPS", MAPS[:100].encode()), block(b"MAPS", MAPS[100:].encode())]
    return b"".join([b"DBALLOCP", head(), *parts, *ids, *maps, *([block(b"END.")] if end else [])])
