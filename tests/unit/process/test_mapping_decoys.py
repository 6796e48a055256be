"""Every kind of mapping beside one that looks like it by one sign."""

from dataclasses import replace

import pytest
from example_server_memory import make_server_memory, make_snapshot

from dballoc.evidence.sql.server_memory import LOGS, POOL
from dballoc.explain.ledger.ledger import build_ledger
from dballoc.process import smaps
from dballoc.process.mapping_kind import MappingKind, classify_mappings
from dballoc.process.smaps import MemoryMapping

MIB = 1 << 20


def parse(*lines: str) -> list[MemoryMapping]:
    """Mappings of smaps, each written as ``start-end permissions offset device inode path|flags``,
    all of them resident.
    """
    text = ""
    for line in lines:
        head, _, flags = line.partition("|")
        start, end = (int(word, 16) for word in head.split()[0].split("-"))
        text += f"{head}\nRss: {(end - start) >> 10} kB\nVmFlags: {flags}\n"
    return smaps.parse_smaps(text)


LIBRARY = "7f0000000000-7f0000200000 r-xp 00000000 fe:00 7 /usr/lib/libx.so|rd ex mr mw me"
# The state of getrandom(3) in the vDSO, as MySQL 9.7 on glibc 2.43 and Linux 6.18 has it.
VDSO = "7f1000000000-7f1000001000 rw-p 00000000 00:00 0|rd wr mr mw me nr wf dd dp"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        # Left out of core dumps: the pool, and no secret of a library.
        ("7f1000000000-7f1010000000 rw-p 00000000 00:00 0|rd wr mr mw me ac dd", MappingKind.POOL),
        (VDSO, MappingKind.MALLOC),
        (
            "7f1000000000-7f1000008000 rw-p 00000000 00:00 0|rd wr mr mw me lo ac dd",
            MappingKind.MALLOC,
        ),
        (
            "7f1000000000-7f1000100000 rw-s 00000000 00:10 8 anon_inode:[io_uring]|dd",
            MappingKind.KERNEL,
        ),
        # A file that is executed, and one that is read.
        ("7f1000000000-7f1000100000 r--s 00000000 fe:00 8 /var/lib/x.so|rd", MappingKind.FILE),
        (
            "7f1000000000-7f1000100000 rw-p 00000000 fe:00 7 /usr/lib/libx.so|rd wr",
            MappingKind.DATA,
        ),
        (
            "7f1000000000-7f1000100000 rw-p 00000000 fe:00 8 /usr/lib/liby.so|rd wr",
            MappingKind.FILE,
        ),
        # Behind a library: its .bss, and what is too large for one.
        ("7f0000200000-7f0000300000 rw-p 00000000 00:00 0|rd wr", MappingKind.DATA),
        ("7f0000200000-7f0040200000 rw-p 00000000 00:00 0|rd wr", MappingKind.MALLOC),
        # Named by its user.
        ("7f1000000000-7f1000100000 rw-p 00000000 00:00 0 [anon:stack]|rd wr", MappingKind.STACK),
        (
            "7f1000000000-7f1000100000 rw-p 00000000 00:00 0 [anon:tcmalloc]|rd wr",
            MappingKind.MALLOC,
        ),
        ("7f1000000000-7f1000100000 rw-s 00000000 00:01 8 /memfd:x|rd wr", MappingKind.KERNEL),
        # Stacks with their guards inside, merged into one mapping (glibc 2.42).
        ("7f1000000000-7f1001000000 rw-p 00000000 00:00 0|rd wr gu ac nh", MappingKind.OLD_STACK),
        ("7f1000000000-7f1001000000 rw-p 00000000 00:00 0|rd wr ac nh", MappingKind.MALLOC),
        ("7f1000000000-7f1000800000 rw-p 00000000 00:00 0|rd wr ac", MappingKind.MALLOC),
    ],
)
def test_a_kind_follows_from_several_signs(line: str, kind: MappingKind) -> None:
    assert classify_mappings(parse(LIBRARY, line), [], (), own_malloc=True)[-1] is kind


@pytest.mark.parametrize(
    ("before", "flags", "kind"),
    [
        (" ---p", "rd wr ac", MappingKind.STACK),  # a guard of its own, before Linux 6.7
        (None, "rd wr ac nh gu", MappingKind.STACK),
        # A coroutine, or a handler of signals, whose stack is a block of malloc's.
        (None, "rd wr ac", MappingKind.MALLOC),
        (None, "rd wr ac dd", MappingKind.POOL),
    ],
)
def test_a_stack_pointer_alone_makes_no_stack(
    before: str | None, flags: str, kind: MappingKind
) -> None:
    guard = [f"7f0ffffff000-7f1000000000{before} 00000000 00:00 0|mr mw me"] if before else []
    mappings = parse(*guard, f"7f1000000000-7f1040000000 rw-p 00000000 00:00 0|{flags}")
    assert classify_mappings(mappings, [0x7F1000001000], (), own_malloc=True)[-1] is kind


def test_no_size_makes_a_stack_where_the_kernel_marks_them() -> None:
    lines = []
    for at, flags in ((0x7F1000000000, "rd wr ac nh"), (0x7F2000000000, "rd wr ac")):
        lines += [
            f"{at - 4096:x}-{at:x} ---p 00000000 00:00 0|mr mw me",
            f"{at:x}-{at + 8 * MIB:x} rw-p 00000000 00:00 0|{flags}",
        ]
    mappings = parse(*lines)
    kinds = classify_mappings(mappings, [0x7F1000001000], (), own_malloc=True)
    assert (kinds[1], kinds[3]) == (MappingKind.STACK, MappingKind.MALLOC)
    # An old kernel marks none: the size tells.
    bare = [replace(m, flags=frozenset({"rd"})) for m in mappings]
    kinds = classify_mappings(bare, [0x7F1000001000], (), own_malloc=True)
    assert (kinds[1], kinds[3]) == (MappingKind.STACK, MappingKind.OLD_STACK)


POOL_MAPPING = "7f2000000000-7f2010000000 rw-p 00000000 00:00 0|rd wr mr mw me ac dd"
LOG_BUFFER = "7f3000000000-7f3001000000 rw-p 00000000 00:00 0|rd wr mr mw me ac dd"
# The three buffers of an index build (innodb_sort_buffer_size), kept from core dumps, too.
SORT = "7f4000000000-7f4000300000 rw-p 00000000 00:00 0|rd wr mr mw me ac dd"
VARIABLES = {
    "innodb_buffer_pool_size": str(256 * MIB),
    "innodb_log_buffer_size": str(16 * MIB),
    "innodb_buffer_pool_chunk_size": str(128 * MIB),
}


@pytest.mark.parametrize(
    ("lines", "right"),
    [
        ((POOL_MAPPING, LOG_BUFFER, SORT), {POOL: 256, LOGS: 16, MappingKind.MALLOC: 3}),
        ((POOL_MAPPING,), {MappingKind.POOL: 256}),
        # A pool that no flag tells (MySQL's) beside what looks like one: by what it has filled.
        ((LOG_BUFFER, SORT), {POOL: 2, LOGS: 16, MappingKind.MALLOC: 1}),
        ((VDSO, SORT), {POOL: 2, MappingKind.MALLOC: 1}),
    ],
)
def test_a_pool_has_the_configured_size(lines: tuple[str, ...], right: dict[str, int]) -> None:
    mappings = parse(*lines)
    look = make_snapshot(
        mappings=mappings, kinds=classify_mappings(mappings, [], (), own_malloc=True)
    )
    labels = make_server_memory(
        version="9.7.4",
        variables=VARIABLES,
        mapped_caches={POOL: 256 * MIB},
        filled={POOL: 2 * MIB},
    )
    ledger = build_ledger(look, labels)
    assert {line.owner: round(line.resident / MIB) for line in ledger.lines} == right
    assert ledger.rest == 0
