"""Which file systems may keep a reader waiting, by the text of /proc/PID/mountinfo."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from dballoc.host.abandonable.blocking_mounts import parse_mounts, read_mounts
from dballoc.host.process.handle import Process
from dballoc.host.process.maps import read_maps

TEXT = r"""
22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
23 22 0:5 / /dev rw,nosuid shared:2 - devtmpfs udev rw
40 22 0:38 / /srv/my\040files rw,nosuid - fuse.sshfs host: rw,user_id=0
41 40 0:39 / /srv/my\040files/fast rw - tmpfs tmpfs rw
42 22 0:40 / /home rw - nfs4 server:/home rw
43 22 0:41 / /var/lib/x rw - overlay overlay rw
nonsense
""".strip()


def test_a_path_lies_on_the_mount_with_the_longest_point() -> None:
    mounts = parse_mounts(TEXT)
    assert mounts.find("/").type == "ext4"
    assert mounts.find("/srv/my").type == "ext4"
    assert mounts.find("/srv/my files/a/b").title == "fuse.sshfs at /srv/my files"
    assert not mounts.find("/srv/my files/fast/b").may_block
    assert mounts.find("/homework/a").type == "ext4"
    assert mounts.find("/home").may_block
    # Its layers may lie on another one.
    assert mounts.find("/var/lib/x/y").may_block


def test_what_is_not_known_may_block() -> None:
    assert parse_mounts("").find("/a/b").may_block
    assert parse_mounts(TEXT).find_blocking_device("00:99")
    assert read_mounts(f"/proc/{2**22 + 1}").by_point == {}


def test_devices_are_those_of_maps() -> None:
    mounts = parse_mounts(TEXT)
    assert mounts.find_blocking_device("103:02") is None
    assert mounts.find_blocking_device("00:00") is None
    found = mounts.find_blocking_device("00:26")
    assert found is not None
    assert found.type == "fuse.sshfs"


def test_our_own_files_are_on_our_own_mounts(tmp_path: Path) -> None:
    mounts = read_mounts("/proc/self")
    assert mounts.by_point
    library = next(line for line in read_maps(Process.own()) if "/libc" in line.path)
    assert library.device in {mount.device for mount in mounts.by_point.values()}


@given(st.text(alphabet="0123456789:/ -\\\n a", max_size=200), st.text(max_size=20))
def test_no_text_breaks_it(text: str, path: str) -> None:
    parse_mounts(text).find(f"/{path}")
