"""What the socket of a heap probe answers: a process that is taken over may answer anything."""

from example_probe_snapshots import MAPS, block, head, live, stack, timed, waited

from dballoc.profile.heap import heap_profile, probe_snapshot
from dballoc.profile.heap.probe_snapshot import SampledBlock

OF = ("dballoc.profile.heap.probe_snapshot", "dballoc.profile.heap.heap_profile")
PRIVILEGED = True


def seeds() -> list[bytes]:
    whole = b"DBALLOCP" + b"".join(
        [
            head(),
            stack(1, [0x55D000001100, 0x7F0000010500], 1e6, 9),
            stack(2, [0x55D000002000], truncated=True),
            live(SampledBlock(4096, 112, 100, 1024, 12.0, 1, 78)),
            live(SampledBlock(8192, 5000, 4999, 1024, 22.0, 2, 78)),
            timed(0, 7, 20, 5, 900),
            timed(1, 0, 3, 2, 9),
            waited(1, 0, 4, 700, 1, 650),
            block(b"BUID", b"aabbcc /usr/sbin/server"),
            block(b"MAPS", MAPS.encode()),
            block(b"END."),
        ]
    )
    return [whole]


def fuzz(data: bytes) -> None:
    try:
        found = probe_snapshot.parse_snapshot(data)
    except probe_snapshot.Damaged:
        return
    maps = heap_profile.parse_mappings(found)
    assert all(m.start <= m.end for m in maps)
    stacks = heap_profile.resolve_stacks(found.stacks, lambda address: ())
    made = heap_profile.make_profile(found, stacks, "heap")
    made.total(heap_profile.LIVE)
