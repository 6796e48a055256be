"""Which address space is reserved, which readable, in /proc/PID/maps."""

import mmap
import subprocess
import sys

import pytest

from dballoc.host.process.handle import Process
from dballoc.host.process.maps import parse_maps
from dballoc.instruments import memory_marks
from dballoc.instruments.process_sampler import ProcessGone, ProcessSampler

K = 0x1000


@pytest.mark.parametrize(
    ("permissions", "kind"),
    [
        ("---p", "reserved"), ("---s", "reserved"),
        ("r--p", "read_only"), ("r--s", "read_only"), ("rw-s", "read_only"), ("-w-s", "read_only"),
        ("rw-p", None), ("-w-p", None), ("rwxp", None), ("r-xp", None), ("--xp", None), ("r-xs", None),
    ],
)  # fmt: skip
def test_kinds_of_mappings(permissions: str, kind: str | None) -> None:
    found = memory_marks.sum_mappings(
        parse_maps(f"10000-12000 {permissions} 00000000 00:00 0 [name with spaces]\n")
    )
    assert found == (2 * K if kind == "reserved" else 0, 2 * K if kind == "read_only" else 0)


def test_mappings_add_up() -> None:
    maps = "1000-2000 ---p 0 0:0 0\n2000-4000 ---p 0 0:0 0\n4000-8000 r--p 0 0:0 0 /lib/x.so\n9000-a000 rw-p 0 0:0 0 [heap]\n"
    assert memory_marks.sum_mappings(parse_maps(maps)) == (3 * K, 4 * K)
    assert memory_marks.sum_mappings([]) == (0, 0)


# A process that reserves much and touches little, as MariaDB does since 10.11.12.
RESERVER = """
import ctypes, sys
mmap = ctypes.CDLL(None).mmap
mmap.restype, mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
PRIVATE_ANONYMOUS_NORESERVE = 0x4022
assert mmap(None, 1 << 40, 0, PRIVATE_ANONYMOUS_NORESERVE, -1, 0) not in (None, 2**64 - 1)
print("ready", flush=True)
sys.stdin.read()
"""


def test_reserved_space_of_a_real_process_is_taken_out_of_its_vsz() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RESERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        mark, sampler = (
            memory_marks.take_mark(Process.open(child.pid)),
            ProcessSampler(Process.open(child.pid)),
        )
        sample = sampler.sample()
        sampler.close()
        ended = Process.open(child.pid)
        child.communicate(timeout=10)
    assert mark.reserved >= 1 << 40
    # The two ways of counting, the exact one at marks and the cheap one between them, agree to a
    # few pages.
    cheap = memory_marks.compute_reserved_bytes(sample.vsz, sample.accessible, mark)
    assert abs(cheap - mark.reserved) < 64 * mmap.PAGESIZE
    assert 0 < mark.pss <= mark.rss < 1 << 30
    with pytest.raises(ProcessGone):
        memory_marks.take_mark(ended)


def test_a_mark_of_ourselves_agrees_with_the_sampler() -> None:
    sampler = ProcessSampler(Process.own())
    mark, sample = memory_marks.take_mark(Process.own()), sampler.sample()
    sampler.close()
    assert abs(mark.rss - sample.rss) < 4 << 20
