"""Large mapped files by name, with what they are for and whether the kernel can take them back."""

from dataclasses import replace

import pytest
from example_server_memory import make_snapshot

from dballoc.catalogue import mapped_files
from dballoc.explain.ledger.ledger import build_ledger
from dballoc.explain.ledger.mapping_lines import describe_file, describe_reclaim
from dballoc.process import smaps
from dballoc.process.mapping_kind import MappingKind

MIB = 1 << 20
# Galera's cache of 192 MiB as it is after writes: all of it is changed and shared.
GCACHE = """\
7fa463e00000-7fa46fe01000 rw-s 00000000 fe:00 9979118                    /var/lib/mysql/galera.cache
Rss:              196612 kB
Shared_Clean:          0 kB
Shared_Dirty:          0 kB
Private_Clean:      1024 kB
Private_Dirty:    195588 kB
Anonymous:             0 kB
VmFlags: rd wr sh mr mw me ms
7fa470000000-7fa470100000 r--s 00000000 fe:00 77                         /usr/share/[red]x (deleted)
Rss:                1024 kB
VmFlags: rd mr mw me
"""


def test_a_large_file_has_a_line_of_its_own() -> None:
    mappings = smaps.parse_smaps(GCACHE)
    look = make_snapshot(mappings=mappings, kinds=[MappingKind.FILE, MappingKind.FILE])
    large, others = build_ledger(look).lines
    assert (large.owner, large.resident) == ("mapped file galera.cache", 196612 << 10)
    assert large.source == "mapped file /var/lib/mysql/galera.cache"
    assert "gcache.size" in large.note
    assert "1.00 MiB taken back at once, 191 MiB written to the file first" in large.note
    assert (others.owner, others.resident) == (MappingKind.FILE, MIB)


def test_one_file_in_pieces_is_one_line_and_the_smallest_of_many_are_together() -> None:
    [mapping, _] = smaps.parse_smaps(GCACHE)
    pieces = [replace(mapping, rss=3 * MIB), replace(mapping, start=1, end=5 * MIB, rss=2 * MIB)]
    many = [replace(mapping, path=f"/d/{n}.MYD", rss=(5 + n) * MIB) for n in range(20)]
    mappings = [*pieces, *many]
    look = make_snapshot(mappings=mappings, kinds=[MappingKind.FILE] * len(mappings))
    ledger = build_ledger(look)
    assert len(ledger.lines) == 11
    assert ledger.rest == 0
    few = make_snapshot(mappings=pieces, kinds=[MappingKind.FILE] * 2)
    assert [(x.owner, x.resident) for x in build_ledger(few).lines] == [
        ("mapped file galera.cache", 5 * MIB)
    ]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"dirty": 0}, "192 MiB taken back at once"),
        ({"anonymous": 196612 << 10}, "192 MiB private copies that can only be swapped out"),
        ({"path": "/dev/shm/x"}, "the kernel can only swap it out"),
        ({"flags": frozenset({"lo"})}, "locked in memory"),
        ({"flags": None}, "after writing what has changed"),
        ({"flags": None, "permissions": "rw-p"}, "not known without smaps"),
    ],
)
def test_whether_the_kernel_can_take_it_back(changed: dict, says: str) -> None:
    [mapping, _] = smaps.parse_smaps(GCACHE)
    assert says in describe_reclaim([replace(mapping, **changed)])


def test_what_files_are_is_known_by_their_names() -> None:
    assert "temptable_max_mmap" in describe_file(
        "/tmp/mysql_temptable.a1B (deleted)", mapped_files()
    )
    assert "gcache.page_size" in describe_file("/d/gcache.page.000001", mapped_files())
    assert describe_file("/d/galera.cache.old", mapped_files()) == ""
    assert all(set(entry) == {"of", "setting"} for entry in mapped_files().values())
