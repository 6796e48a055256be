"""Files that a hostile process names: nothing outside its root, nothing that waits, nothing without
end.
"""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.host.process import open_in_process_root

pytestmark = pytest.mark.unprivileged

SECRET = "of the host"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A host with a file ``canary``, and in it a root whose links try to get there."""
    host = tmp_path_factory.mktemp("host")
    (host / "canary").write_text(SECRET)
    root = host / "root"
    (root / "etc/conf.d").mkdir(parents=True)
    (root / "etc/my.cnf").write_text("[mysqld]\n")
    (root / "canary").write_text("its own")
    (root / "etc/absolute").symlink_to("/canary")
    (root / "etc/up").symlink_to("../../../../../../canary")
    (root / "etc/host").symlink_to(host / "canary")
    (root / "etc/directory").symlink_to("/etc/conf.d")
    (root / "etc/loop").symlink_to("loop")
    (root / "etc/magic").symlink_to("/proc/self/root/etc/passwd")
    os.mkfifo(root / "etc/fifo")
    (root / "etc/zero").write_bytes(b"")
    return host


def read(place: Path, path: str, most: int = 1000) -> str:
    return open_in_process_root.read_file(place / "root", path, most).decode()


@pytest.mark.parametrize(
    "path", ["/etc/absolute", "/etc/up", "/../canary", "/etc/../../canary", "canary"]
)
def test_links_and_dots_stay_inside(place: Path, path: str) -> None:
    assert read(place, path) == "its own"


@pytest.mark.parametrize(
    "path", ["/etc/host", "/etc/magic", "/etc/loop", "/nowhere", "/etc/my.cnf/x", "/etc/\0"]
)
def test_what_leads_out_or_nowhere_is_an_error(place: Path, path: str) -> None:
    with pytest.raises(OSError):  # noqa: PT011  # whatever the number
        read(place, path)


@pytest.mark.parametrize("name", ["fifo", "conf.d"])
def test_what_is_no_regular_file_is_refused_at_once(place: Path, name: str) -> None:
    began = time.monotonic()
    for attempt in (
        lambda: open_in_process_root.read_file(place / "root", f"/etc/{name}", 10),
        lambda: open_in_process_root.read_beginning(place / "root", f"/etc/{name}", 10),
        lambda: open_in_process_root.measure_file(place / "root", f"/etc/{name}"),
        lambda: open_in_process_root.open_link(str(place / "root/etc" / name)),
    ):
        with pytest.raises(OSError, match="not a regular file"):
            attempt()
    assert time.monotonic() - began < 10


def test_a_device_is_not_even_opened() -> None:
    with pytest.raises(OSError, match="not a regular file"):
        open_in_process_root.open_file(Path("/"), "/dev/zero")


def test_a_directory_gives_plain_names_alone(place: Path) -> None:
    with open_in_process_root.open_directory(place / "root", "/etc/directory/..") as directory:
        os.close(open_in_process_root.open_name(directory, "my.cnf"))
        for name in ("absolute", "fifo", "../canary", "..", ""):
            with pytest.raises(OSError):  # noqa: PT011
                open_in_process_root.open_name(directory, name)


def test_sizes_and_numbers_are_bounded(place: Path) -> None:
    assert read(place, "/etc/my.cnf", 9) == "[mysqld]\n"
    with pytest.raises(OSError, match="larger than 8 bytes"):
        read(place, "/etc/my.cnf", 8)
    assert open_in_process_root.read_beginning(place / "root", "/etc/my.cnf", 3) == b"[my"
    assert open_in_process_root.read_beginning(place / "root", "/etc/zero", 3) == b""
    assert open_in_process_root.list_directory(place / "root", "/etc", 3) == sorted(
        open_in_process_root.list_directory(place / "root", "/etc", 3)
    )
    assert len(open_in_process_root.list_directory(place / "root", "/etc", 3)) == 3


def test_no_descriptor_is_left_open(place: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in ("/etc/absolute", "/etc/fifo", "/etc/loop", "/etc/my.cnf"):
        try:
            read(place, path)
        except OSError:
            pass
    assert len(os.listdir("/proc/self/fd")) == before


@given(
    parts=st.lists(
        st.sampled_from(
            ["..", ".", "", "etc", "absolute", "up", "host", "loop", "magic", "canary"]
        ),
        max_size=12,
    )
)
def test_no_path_at_all_reads_the_host(place: Path, parts: list[str]) -> None:
    try:
        assert read(place, "/".join(parts)) != SECRET
    except OSError:
        pass
