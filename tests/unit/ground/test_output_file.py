"""Files that the user names: what may be written to, and what is refused, in any directory."""

import contextlib
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dballoc.cli.profile_verbs import profile_files
from dballoc.ground.errors import UsageError
from dballoc.ground.files.output_file import append_to_file, create_file, write_file

STRANGER = 54321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")


def refused(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        write_file(path, "ours")
    with pytest.raises(UsageError, match=str(caught.value)[:60]):
        append_to_file(path, b"ours")
    return str(caught.value)


@pytest.mark.unprivileged
def test_a_file_is_replaced_and_stays_as_private_as_it_was(tmp_path: Path) -> None:
    path, other = tmp_path / "page.html", tmp_path / "other"
    write_file(path, "1")
    path.chmod(0o600)
    os.link(path, other)
    write_file(path, "2é")
    append_to_file(path, b"+")
    assert (path.read_text(), other.read_text()) == ("2é+", "1")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(KeyboardInterrupt), create_file(path):
        raise KeyboardInterrupt
    assert sorted(os.listdir(tmp_path)) == ["other", "page.html"]


@pytest.mark.unprivileged
def test_a_link_is_refused_wherever_it_leads(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("root's")
    for name, target in (("a", "secret"), ("b", "none"), ("c", "/dev/null"), ("d", ".")):
        (tmp_path / name).symlink_to(target)
        assert refused(tmp_path / name).startswith(f"{tmp_path}/{name}: is a link")
    assert (tmp_path / "secret").read_text() == "root's"
    assert not (tmp_path / "none").exists()


@as_root
def test_in_tmp_a_file_of_another_user_is_not_replaced(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    path = tmp_path / "x"
    path.write_text("theirs")
    os.chown(path, STRANGER, STRANGER)
    assert refused(path) == f"{path}: belongs to {STRANGER}; choose another name"
    os.chown(path, 0, 0)
    write_file(path, "ours")
    assert path.read_text() == "ours"


@as_root
def test_a_users_own_file_is_replaced_for_root_and_never_written_into(tmp_path: Path) -> None:
    """``sudo dballoc explain --html page.html``, where the user's own page lies."""
    os.chown(tmp_path, STRANGER, STRANGER)
    path = tmp_path / "x"
    path.write_text("theirs")
    os.chown(path, STRANGER, STRANGER)
    with pytest.raises(UsageError, match="another user's file"):
        append_to_file(path, b"ours")
    with path.open() as before:
        write_file(path, "ours")
        assert before.read() == "theirs"
    assert (path.read_text(), path.stat().st_uid) == ("ours", 0)


@as_root
@pytest.mark.timeout(20)
def test_a_pipe_of_another_user_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")
    os.chown(tmp_path / "x", STRANGER, STRANGER)
    assert refused(tmp_path / "x") == f"{tmp_path}/x: a pipe of {STRANGER}; choose another name"


@pytest.mark.unprivileged
@pytest.mark.timeout(20)
def test_ones_own_pipe_devices_and_descriptors_are_written(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_file(pipe, "piped")
    reader.join()
    assert read == ["piped"]
    write_file(Path("/dev/null"), "x")
    append_to_file(Path("/dev/null"), b"x")
    with pytest.raises(OSError, match="No space left") as caught:
        write_file(Path("/dev/full"), "x")
    assert caught.value.filename == "/dev/full"
    ends = os.pipe()
    write_file(Path(f"/dev/fd/{ends[1]}"), "one ")
    append_to_file(Path(f"/proc/self/fd/{ends[1]}"), b"two")
    assert os.read(ends[0], 100) == b"one two"
    for end in ends:
        os.close(end)
    program = "import sys; from pathlib import Path; from dballoc.ground.files.output_file import write_file; write_file(Path('/dev/stdout'), 'x')"
    target = tmp_path / "redirected"
    with target.open("wb") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True)
    assert target.read_text() == "x"


@pytest.mark.unprivileged
def test_what_cannot_be_written_names_the_path(tmp_path: Path) -> None:
    assert refused(tmp_path) == f"{tmp_path}: a directory; give the name of a file"
    with pytest.raises(FileNotFoundError) as caught:
        write_file(tmp_path / "none" / "x", "")
    assert caught.value.filename == f"{tmp_path}/none"
    with pytest.raises(UsageError, match=f"{tmp_path}/none/x: cannot be written: No such file"):
        profile_files.write_output(tmp_path / "none" / "x", b"")
    with contextlib.chdir(tmp_path):
        write_file(Path("x"), "here")
    assert (tmp_path / "x").read_text() == "here"
