"""The one writer of outputs: whose a directory must be, and that nothing in it leads elsewhere."""

import contextlib
import os
import socket
import stat
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.ground.errors import UsageError
from dballoc.ground.files import caller_umask, output_directory
from dballoc.ground.files.output_directory import DirectoryStatus, OutputDirectory, find_fault

# Whose user ID nobody has.
STRANGER = 54321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")


@pytest.fixture
def umask(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """``umask(0o027)``: the caller's, while the process has 0077 as in every verb."""
    before = os.umask(0o077)

    def remember(mask: int) -> None:
        monkeypatch.setattr(caller_umask._Caller, "umask", mask)

    yield remember
    os.umask(before)


def judge(
    *,
    owner: int = 1000,
    mode: int = 0o755,
    has_acl: bool = False,
    is_group_private: bool = False,
    caller: int = 1000,
) -> str:
    status = DirectoryStatus(
        owner=owner, mode=mode, has_acl=has_acl, is_group_private=is_group_private
    )
    return find_fault(status, caller, Path("my r"), "--out") or ""


def refused(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        OutputDirectory.open(path)
    return str(caught.value)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_whose_directory_it_must_be() -> None:
    assert judge() == judge(mode=0o700) == judge(owner=0, caller=0) == ""
    assert judge(caller=0).endswith("with --out, or run: chown root: 'my r'")
    assert "sudo chown " in judge(caller=1001)
    # umask 0002 with a group for each user: Ubuntu's and Fedora's default.
    assert judge(mode=0o2775, is_group_private=True) == ""
    for mode in (0o775, 0o757, 0o777, 0o772):
        assert "other users may write in it: run: chmod go-w 'my r'" in judge(mode=mode), oct(mode)
    assert "chmod" in judge(mode=0o757, is_group_private=True)
    # The group's permissions of an access control list are the most that it gives to anyone.
    assert "setfacl -b 'my r'" in judge(mode=0o775, is_group_private=True, has_acl=True)
    assert judge(has_acl=True) == ""
    # Nobody is told to take the rights from /tmp.
    assert judge(mode=0o1777) == ("everybody may write in it: give --out a new directory below it")


def test_a_group_with_other_members_is_others(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)
    os.chown(tmp_path, -1, os.getgid())
    with OutputDirectory.open(tmp_path):
        pass
    tmp_path.chmod(0o707)
    assert "chmod go-w" in refused(tmp_path)


@as_root
def test_a_group_of_unknown_members_is_others(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)
    os.chown(tmp_path, -1, STRANGER)
    assert "chmod go-w" in refused(tmp_path)


@as_root
def test_another_users_directory_is_refused_with_what_mends_it(tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.mkdir()
    os.chown(path, STRANGER, STRANGER)
    text = refused(path)
    assert text.startswith(f"{path}: belongs to {STRANGER}, and root writes results only into")
    command = text.rpartition("run: ")[2]
    subprocess.run(["sh", "-c", command], check=True)
    with OutputDirectory.open(path) as directory:
        directory.write("x", "1")
    assert (path / "x").read_text() == "1"


def test_an_access_control_list_that_lets_others_write(tmp_path: Path) -> None:
    # linux/posix_acl_xattr.h: a version, then entries of tag, permissions, user ID.
    owner, user, group, mask, other = (0x01, 7), (0x02, 7), (0x04, 5), (0x10, 7), (0x20, 5)
    entries = [struct.pack("<HHI", *entry, STRANGER) for entry in (owner, user, group, mask, other)]
    try:
        os.setxattr(tmp_path, "system.posix_acl_access", struct.pack("<I", 2) + b"".join(entries))
    except OSError:
        pytest.skip("no access control lists on this file system")
    assert "run: setfacl -b" in refused(tmp_path)
    tmp_path.chmod(0o755)  # its mask, now: nobody but the owner may write
    OutputDirectory.open(tmp_path).close()


@pytest.mark.unprivileged
def test_parents_are_made_and_the_callers_umask_holds(
    tmp_path: Path, umask: Callable[[int], None]
) -> None:
    umask(0o027)
    path = tmp_path / "a" / "b"
    with OutputDirectory.open(path) as directory:
        directory.write("report.html", "é")
        directory.write("secret", b"1", private=True)
        directory.open_subdirectory("csv").close()
        directory.open_subdirectory("cache", private=True).close()
        directory.append("series").close()
        os.close(directory.open_lock("lock"))
    modes = {p.name: mode_of(p) for p in (path.parent, path, *path.iterdir())}
    assert modes == {
        "a": 0o750,
        "b": 0o750,
        "report.html": 0o640,
        "secret": 0o600,
        "csv": 0o750,
        "cache": 0o700,
        "series": 0o640,
        "lock": 0o600,
    }
    assert (path / "report.html").read_bytes() == "é".encode()


@pytest.mark.unprivileged
def test_what_we_make_is_accepted_again_whatever_the_umask(
    tmp_path: Path, umask: Callable[[int], None]
) -> None:
    umask(0)
    for _ in range(2):
        with (
            OutputDirectory.open(tmp_path / "r") as directory,
            directory.open_subdirectory("csv") as below,
        ):
            below.write("x.csv", "1")
    assert mode_of(tmp_path / "r/csv/x.csv") == 0o666


@pytest.mark.unprivileged
def test_a_directory_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert refused(tmp_path / "link").startswith(f"{tmp_path}/link: is a link")
    with OutputDirectory.open(tmp_path) as directory, pytest.raises(UsageError, match="is a link"):
        directory.open_subdirectory("link")
    (tmp_path / "nowhere").symlink_to("none")
    assert "is a link" in refused(tmp_path / "nowhere")
    assert not (tmp_path / "none").exists()


@pytest.mark.unprivileged
def test_what_has_a_files_name_is_replaced_not_written_through(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("root's")
    path = tmp_path / "r"
    path.mkdir()
    (path / "link").symlink_to(elsewhere)
    os.link(elsewhere, path / "hard")
    os.mkfifo(path / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(path)  # sun_path is short
        listener.bind("socket")
    with OutputDirectory.open(path) as directory:
        for name in ("link", "hard", "fifo", "socket"):
            directory.write(name, "ours")
            assert stat.S_ISREG((path / name).lstat().st_mode)
            assert (path / name).read_text() == "ours"
        (path / "directory").mkdir()
        with pytest.raises(IsADirectoryError) as caught:
            directory.write("directory", "ours")
    assert caught.value.filename == f"{path}/directory"
    assert elsewhere.read_text() == "root's"
    assert not [name for name in os.listdir(path) if name.startswith(".")]


@pytest.mark.unprivileged
@pytest.mark.timeout(20)
def test_what_is_written_in_place_is_a_file_of_ours(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("root's")
    path = tmp_path / "r"
    path.mkdir()
    (path / "link").symlink_to(elsewhere)
    os.link(elsewhere, path / "hard")
    os.mkfifo(path / "fifo")
    (path / "directory").mkdir()
    with OutputDirectory.open(path) as directory:
        for name in ("link", "hard", "fifo", "directory"):
            for open_in_place in (directory.open_lock, directory.append):
                with pytest.raises(UsageError, match=f"{path}/{name}: "):
                    open_in_place(name)
        for _ in range(2):
            with directory.append("series") as file:
                file.write(b"1")
    assert elsewhere.read_text() == "root's"
    assert (path / "series").read_text() == "11"


@as_root
def test_a_file_of_another_user_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("theirs")
    os.chown(tmp_path / "lock", STRANGER, STRANGER)
    with (
        OutputDirectory.open(tmp_path) as directory,
        pytest.raises(UsageError, match=f"lock: belongs to {STRANGER}"),
    ):
        directory.open_lock("lock")


@pytest.mark.unprivileged
def test_nothing_behind_a_link_is_removed(tmp_path: Path) -> None:
    keep = tmp_path / "keep"
    keep.mkdir()
    (keep / "file").touch()
    path = tmp_path / "r"
    deep = path / "-rf"
    deep.mkdir(parents=True)
    (deep / "link").symlink_to(keep)
    (path / "link").symlink_to(keep)
    for _ in range(300):  # deeper than a path may be long, and than Python's stack
        deep = deep / ("d" * 10)
    subprocess.run(["mkdir", "-p", deep], check=True)
    with OutputDirectory.open(path) as directory:
        for name in ("-rf", "link", "none"):
            directory.remove(name)
        assert directory.list_names() == []
        directory.make_fresh_subdirectory("link").close()
    assert (keep / "file").exists()
    assert (path / "link").is_dir()


@pytest.mark.unprivileged
def test_it_is_the_directory_that_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with OutputDirectory.open(path) as directory:
        path.rename(tmp_path / "moved")
        (tmp_path / "other").mkdir()
        path.symlink_to("other")
        directory.write("x", "1")
        directory.open_subdirectory("csv").close()
        directory.append("y").close()
    assert sorted(os.listdir(tmp_path / "moved")) == ["csv", "x", "y"]
    assert not os.listdir(tmp_path / "other")


@pytest.mark.unprivileged
def test_half_a_file_is_not_left(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("old")
    with OutputDirectory.open(tmp_path) as directory:
        with pytest.raises(KeyboardInterrupt), directory.create_file("x"):
            raise KeyboardInterrupt
        with pytest.raises(OSError, match="No space") as caught, directory.create_file("x"):
            raise OSError(28, "No space left on device")
        # As after kill -9.
        (tmp_path / ".dballoc-partial-0").touch()
        assert directory.list_names() == ["x"]
    assert caught.value.filename == f"{tmp_path}/x"
    assert (tmp_path / "x").read_text() == "old"
    assert len(os.listdir(tmp_path)) == 2


@pytest.mark.unprivileged
@given(name=st.text(alphabet=st.sampled_from("./\0\n a\udcff'-"), max_size=6))
def test_no_name_leads_out(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    top = tmp_path_factory.mktemp("top")
    with OutputDirectory.open(top / "r") as directory:
        for act in (
            lambda: directory.write(name, "x"),
            lambda: directory.remove(name),
            lambda: directory.open_subdirectory(name).close(),
            lambda: directory.remove(name),
            lambda: directory.append(name).close(),
        ):
            with contextlib.suppress(OSError):
                act()
    assert os.listdir(top) == ["r"]
    assert all(entry == name for entry in os.listdir(top / "r"))


def test_a_users_name_or_number() -> None:
    assert output_directory.name_user(0) == "root"
    assert output_directory.name_user(STRANGER) == str(STRANGER)
