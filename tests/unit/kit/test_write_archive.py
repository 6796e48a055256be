"""A kit's archive: the same tree, the same bytes; nothing in it that leads out."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from dballoc.ground.errors import UsageError
from dballoc.kit.write_archive import write_archive


def pack(tree: Path) -> tuple[bytes, dict[str, int]]:
    file = io.BytesIO()
    sizes = write_archive(tree, file, 1_000_000_000)
    return file.getvalue(), sizes


def make_tree(place: Path) -> Path:
    (place / "store/libraries").mkdir(parents=True)
    (place / "run").write_text("#!/bin/sh\n")
    (place / "run").chmod(0o700)
    (place / "store/libraries/libc.so.6").write_bytes(os.urandom(100_000))
    (place / "python").mkdir()
    (place / "python/link").symlink_to("../run")
    return place


def test_members_have_one_owner_one_time_and_two_modes(tmp_path: Path) -> None:
    content, sizes = pack(make_tree(tmp_path / "t"))
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = {m.name: m for m in archive.getmembers()}
    assert list(members) == [
        "dballoc-kit", "dballoc-kit/python", "dballoc-kit/python/link", "dballoc-kit/run",
        "dballoc-kit/store", "dballoc-kit/store/libraries", "dballoc-kit/store/libraries/libc.so.6",
    ]  # fmt: skip
    assert {(m.uid, m.gid, m.uname, m.mtime) for m in members.values()} == {
        (0, 0, "", 1_000_000_000)
    }
    assert members["dballoc-kit/run"].mode == 0o755
    assert members["dballoc-kit/store/libraries/libc.so.6"].mode == 0o644
    assert sizes["store/libraries"] > 90_000 > sizes["run"]


def test_the_same_tree_gives_the_same_bytes(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "t")
    first, _ = pack(tree)
    os.utime(tree / "run", (1, 1))
    (tree / "run").chmod(0o755)
    assert pack(tree)[0] == first


@pytest.mark.parametrize("target", ["/etc/passwd", "../../out"])
def test_a_link_that_leads_out_is_refused(tmp_path: Path, target: str) -> None:
    tree = make_tree(tmp_path / "t")
    (tree / "python/bad").symlink_to(target)
    with pytest.raises(UsageError, match="a link that leads out of the kit"):
        pack(tree)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "t")
    os.mkfifo(tree / "pipe")
    with pytest.raises(UsageError, match="neither a file nor a directory"):
        pack(tree)
