"""A library's .bss, and what the kernel has merged with it."""

import os
import struct
import sys
from dataclasses import replace
from pathlib import Path

from dballoc.host.process.handle import Process
from dballoc.process import bss, smaps, snapshot
from dballoc.process.mapping_kind import MappingKind, classify_mappings
from dballoc.process.memory_reader import PAGE

MAPS = """\
774c52000000-774c52010000 r-xp 00000000 fe:00 7                          /lib/libx.so
Rss:                  64 kB
774c52010000-774c52012000 rw-p 00010000 fe:00 7                          /lib/libx.so
Rss:                   8 kB
774c52012000-774c53000000 rw-p 00000000 00:00 0
Rss:                4096 kB
"""


def elf(*loads: tuple[int, int]) -> bytes:
    """The head of a file whose segments begin at these addresses, and are so large in memory."""
    head = (
        b"\x7fELF\x02\x01\x01"
        + bytes(25)
        + struct.pack("<QQIHHH", 64, 0, 0, 64, 56, len(loads) + 1)
        + bytes(6)
    )
    head = head.ljust(64, b"\0") + struct.pack("<IIQQQQQQ", 2, 6, 0, 0x900000, 0, 1, 1 << 40, 8)
    return head + b"".join(
        struct.pack("<IIQQQQQQ", 1, 6, 0, start, 0, 1, size, 4096) for start, size in loads
    )


def test_what_lies_behind_is_somebody_elses() -> None:
    mappings = smaps.parse_smaps(MAPS)
    found = bss.split_off_bss(
        mappings, lambda path: elf((0, 0xFFF0), (0x10100, 0x3000)), lambda a, b: 12288
    )
    data, rest = found[2:]
    assert (data.end, data.rss) == (0x774C52014000, 12288)
    assert (rest.start, rest.end, rest.rss) == (data.end, mappings[2].end, 4096 * 1024 - 12288)
    assert classify_mappings(found, [], (), own_malloc=True) == [
        MappingKind.CODE,
        MappingKind.DATA,
        MappingKind.DATA,
        MappingKind.MALLOC,
    ]
    assert sum(m.rss for m in found) == sum(m.rss for m in mappings)


def test_a_library_without_bss_has_nothing_behind_it() -> None:
    mappings = smaps.parse_smaps(MAPS)
    found = bss.split_off_bss(mappings, lambda path: elf((0, 0x12000)), lambda a, b: 0)
    assert len(found) == 3
    assert classify_mappings(found, [], (), own_malloc=True)[2] is MappingKind.MALLOC
    assert classify_mappings(mappings, [], (), own_malloc=True)[2] is MappingKind.DATA


def test_what_cannot_be_read_stays_as_it_is() -> None:
    def gone(path: str) -> bytes:
        raise FileNotFoundError(path)

    mappings = smaps.parse_smaps(MAPS)
    for read in (gone, lambda path: b"", lambda path: elf()[:80], lambda path: b"#!/bin/sh" * 30):
        assert bss.split_off_bss(mappings, read, lambda a, b: 0) == mappings
    assert bss.split_off_bss(
        [replace(m, start=m.start + PAGE) for m in mappings[2:]], gone, lambda a, b: 0
    )


def test_our_own_executable_ends_where_its_mappings_say() -> None:
    """The interpreter's .bss is at least as large as its headers say, and the walk of ourselves
    still adds up.
    """
    assert bss.list_load_segments(
        Path(os.path.realpath(sys.executable)).read_bytes()[: bss.HEADER_BYTES]
    )
    look = snapshot.take_process_snapshot(Process.own())
    assert sum(m.rss for m in look.mappings_of(MappingKind.DATA)) > PAGE
