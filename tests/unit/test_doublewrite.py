"""What MySQL keeps of its doublewrite files."""

import os
from pathlib import Path

from dballoc.explain.sources import doublewrite

MIB = 1 << 20


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
        os.getpid(), {"datadir": f"{tmp_path}/", "innodb_doublewrite_dir": ""}
    )
    assert found is not None
    assert found.bytes == 48 * MIB
    elsewhere = {"datadir": "/nowhere/", "innodb_doublewrite_dir": str(tmp_path)}
    assert doublewrite.estimate_doublewrite_pages(os.getpid(), elsewhere) == found
    assert (
        doublewrite.estimate_doublewrite_pages(
            os.getpid(), {"datadir": str(tmp_path.parent), "innodb_doublewrite_dir": tmp_path.name}
        )
        == found
    )


def test_a_server_without(tmp_path: Path) -> None:
    assert doublewrite.estimate_doublewrite_pages(os.getpid(), {"datadir": str(tmp_path)}) is None
    assert doublewrite.estimate_doublewrite_pages(os.getpid(), {"datadir": "/nowhere"}) is None
    assert doublewrite.estimate_doublewrite_pages(os.getpid(), {}) is None
    assert doublewrite.estimate_doublewrite_pages(2**22 - 1, {"datadir": str(tmp_path)}) is None
