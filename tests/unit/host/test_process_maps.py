"""Lines of /proc/PID/maps, and names in them that a process has chosen."""

import os

import pytest

from dballoc.host.process import maps
from dballoc.host.process.handle import Process

LINE = "55d000001000-55d000003000 r-xp 00001000 08:01 77      /usr/sbin/server (deleted)"


def test_a_line() -> None:
    line = maps.parse_line(LINE)
    assert line is not None
    assert (line.start, line.end, line.size) == (0x55D000001000, 0x55D000003000, 0x2000)
    assert (line.permissions, line.offset, line.inode) == ("r-xp", 0x1000, 77)
    assert line.path == "/usr/sbin/server (deleted)"


def test_a_line_ends_at_a_newline_alone() -> None:
    name = "/tmp/a\x0bb\x85c\u2028d  "
    [line, anonymous] = maps.parse_maps(f"1000-2000 r--p 0 0:0 9 {name}\n2000-3000 rw-p 0 0:0 0 \n")
    assert (line.path, anonymous.path) == (name, "")


@pytest.mark.parametrize("text", ["", "Rss: 4 kB", "2000-1000 r--p 0 0:0 0", "1000-2000 r-- 0"])
def test_what_is_no_line_is_left_out(text: str) -> None:
    assert maps.parse_line(text) is None
    assert maps.parse_maps(f"{LINE}\n{text}\n") == maps.parse_maps(LINE)


def test_a_live_process() -> None:
    assert os.path.realpath("/proc/self/exe") in maps.list_mapped_files(Process.own())
    with pytest.raises(OSError, match="No such"):
        maps.read_maps(Process.open(2**22 + 1))
