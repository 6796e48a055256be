"""What MySQL keeps of its doublewrite files."""

from pathlib import Path

import pytest

from dballoc.evidence.files import doublewrite
from dballoc.evidence.sql.server_memory import OwnerMemory
from dballoc.host.process.handle import Process
from dballoc.process.heaps.heap_walk import BlockGroup

MIB = 1 << 20
ESTIMATE = OwnerMemory(owner=doublewrite.OWNER, bytes=48 * MIB, source="x")


def test_three_pages_for_each_of_a_file(tmp_path: Path) -> None:
    for name, size in (
        ("#ib_16384_0.dblwr", 4),
        ("#ib_16384_1.dblwr", 12),
        ("#ib_16384_0.bdblwr", 1),
        ("ibdata1", 12),
    ):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size * MIB)
    found = doublewrite.estimate_doublewrite_pages(
        Process.own(), {"datadir": f"{tmp_path}/", "innodb_doublewrite_dir": ""}
    )
    assert found is not None
    assert found.bytes == 48 * MIB
    elsewhere = {"datadir": "/nowhere/", "innodb_doublewrite_dir": str(tmp_path)}
    assert doublewrite.estimate_doublewrite_pages(Process.own(), elsewhere) == found
    assert (
        doublewrite.estimate_doublewrite_pages(
            Process.own(),
            {"datadir": str(tmp_path.parent), "innodb_doublewrite_dir": tmp_path.name},
        )
        == found
    )


def test_a_server_without(tmp_path: Path) -> None:
    assert doublewrite.estimate_doublewrite_pages(Process.own(), {"datadir": str(tmp_path)}) is None
    assert doublewrite.estimate_doublewrite_pages(Process.own(), {"datadir": "/nowhere"}) is None
    assert doublewrite.estimate_doublewrite_pages(Process.own(), {}) is None
    assert (
        doublewrite.estimate_doublewrite_pages(
            Process(2**22 - 1, 0, Path(f"/proc/{2**22 - 1}")), {"datadir": str(tmp_path)}
        )
        is None
    )


def make_group(size: int, count: int) -> BlockGroup:
    return BlockGroup(size=size, count=count, bytes=size * count)


@pytest.mark.parametrize(
    ("groups", "right"),
    [
        ([], 48 * MIB),  # a malloc whose blocks are not known
        ([make_group(49168, 1024), make_group(8192, 10)], 48 * MIB),
        ([make_group(49168, 512), make_group(8192, 10)], 512 * 49168),
        # A decoy: files of another server's, and no block of that size.
        ([make_group(16 * MIB, 4), make_group(8192, 10)], None),
        # Too little to be among the groups.
        ([make_group(64 * MIB, 4)], 48 * MIB),
    ],
)
def test_files_alone_are_no_memory(groups: list[BlockGroup], right: int | None) -> None:
    confirmed = doublewrite.confirm_by_blocks(ESTIMATE, groups)
    assert (confirmed.bytes if confirmed else None) == right
