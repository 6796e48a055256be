"""Traces of other tools: what glibc really writes, what Android documents, and anything else."""

import gzip
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from dballoc.ground.errors import UsageError
from dballoc.trace.figures.live_curve import compute_live_curve
from dballoc.trace.importers import call_rows
from dballoc.trace.importers.glibc_trace import RECORD
from dballoc.trace.importers.import_trace import import_trace
from dballoc.trace.model import NONE, EventKind, Trace

M, C, A, R, F = (
    EventKind.MALLOC,
    EventKind.CALLOC,
    EventKind.ALIGNED,
    EventKind.REALLOC,
    EventKind.FREE,
)

ANDROID = b"""186: malloc 0xb6038060 20
186: free 0xb6038060
187: calloc 0xb609f080 32 4

186: realloc 0xb603e9a0 0xb609f080 12
186: realloc 0xb603eaa0 0x0 12
186: memalign 0x85423660 16 104
186: malloc 0x0 99999
187: thread_done 0x0
"""
TIMED = b"""5: malloc 0x10 20 1000 1040
5: realloc 0x20 0x10 30 1100 1200
6: free 0x20 1300 1350
6: thread_done 0x0 1400
"""

PROGRAM = r"""
#include <mcheck.h>
#include <stdlib.h>
int main(void)
{
    mtrace();
    void *volatile a = malloc(100);
    void *volatile b = calloc(16, 16);
    a = realloc(a, 5000);
    a = realloc(a, 6000);
    free(b);
    b = aligned_alloc(64, 128);
    b = realloc(NULL, 7);
    b = realloc(malloc(3), 0);
    b = malloc(0);
    free(b);
    muntrace();
    return 0;
}
"""


@pytest.fixture
def run(tmp_path: Path):  # type: ignore[no-untyped-def]
    def read(data: bytes, form: str, name: str = "trace.txt") -> Trace:
        path = tmp_path / name
        path.write_bytes(data)
        return import_trace(path, form)  # type: ignore[arg-type]

    return read


def test_what_mtrace_really_writes(tmp_path: Path, run) -> None:  # type: ignore[no-untyped-def]
    source, log = tmp_path / "p.c", tmp_path / "log"
    source.write_text(PROGRAM)
    subprocess.run(["cc", "-w", "-O0", "-o", tmp_path / "p", source], check=True)
    library = "libc_malloc_debug.so.0"  # glibc 2.34 and later have mtrace in there
    subprocess.run(
        [tmp_path / "p"],
        env={**os.environ, "MALLOC_TRACE": str(log), "LD_PRELOAD": library},
        check=True,
        stderr=subprocess.DEVNULL,
    )
    trace = run(log.read_bytes(), "glibc")
    thread = trace.threads[0]
    assert thread.kind.tolist() == [M, M, R, R, F, M, M, M, F, M, F]
    assert trace.objects.size.tolist() == [100, 256, 5000, 6000, 128, 7, 3, 0]
    assert compute_live_curve(trace).bytes.tolist()[-1] == 6000 + 128 + 7
    assert trace.facts.from_start
    assert not trace.compiled.timed
    assert run(gzip.compress(log.read_bytes()), "glibc", "log.gz").facts == trace.facts


def test_a_free_of_what_came_before_makes_it_late(run) -> None:  # type: ignore[no-untyped-def]
    trace = run(
        b"= Start\n@ a b c:(f+0x1)[0x12] - 0x10\n- (nil)\n! 0x10 0x99\n> 0x20 0x5\n", "glibc"
    )
    assert trace.threads[0].kind.tolist() == [F, M]
    assert not trace.facts.from_start


def test_android_without_times(run) -> None:  # type: ignore[no-untyped-def]
    trace = run(ANDROID, "android")
    assert [thread.kind.tolist() for thread in trace.threads] == [[M, F, R, R, A], [C]]
    assert trace.objects.size.tolist() == [20, 12, 12, 104, 128]
    assert trace.objects.alignment.tolist() == [0, 0, 0, 16, 0]
    assert trace.objects.freed_by.tolist() == [0, -1, -1, -1, 0]
    assert not trace.compiled.timed
    assert trace.threads[0].time.tolist() == [0, 1000, 4000, 5000, 6000]
    assert [thread.ended for thread in trace.threads] == [NONE, 8000]


def test_android_with_times(run) -> None:  # type: ignore[no-untyped-def]
    trace = run(TIMED, "android")
    assert trace.compiled.timed
    first, second = trace.threads
    assert (first.time.tolist(), first.completed.tolist()) == ([0, 60], [0, 160])
    assert second.time.tolist() == [260]
    assert [thread.ended for thread in trace.threads] == [NONE, 360]
    assert trace.objects.freed_by.tolist() == [0, 1]


def test_a_number_of_a_thread_that_is_done_may_be_anothers(run) -> None:  # type: ignore[no-untyped-def]
    text = (
        b"5: malloc 0x10 20 1 100\n5: thread_done 0x0 50\n5: malloc 0x20 30 200 201\n"
        b"5: thread_done 0x0\n6: thread_done 0x0 300\n5: free 0x10 400 401\n"
    )
    trace = run(text, "android")
    assert [thread.time.tolist() for thread in trace.threads] == [[0], [100], [300]]
    # Not before the last call; with it where the file does not say.
    assert [thread.ended for thread in trace.threads] == [0, 100, NONE]


def make_records(*rows: tuple[int, ...]) -> bytes:
    records = np.zeros(len(rows) + 1, RECORD)
    records[0]["type"], records[0]["ptr1"], records[0]["size"] = 255, 0x1234, 8
    for record, row in zip(records[1:], rows, strict=True):
        for name, value in zip(
            ("thread", "type", "ptr1", "ptr2", "size", "size2"), row, strict=False
        ):
            record[name] = value
    return records.tobytes()


def test_glibcs_trace(run) -> None:  # type: ignore[no-untyped-def]
    trace = run(
        make_records(
            (7, 1, 0, 0x10, 100),
            (8, 2 | 1 << 8, 0, 0x20, 200),
            (0, 0),
            (8, 3, 0x10),
            (8, 4, 0x20, 0x30, 300),
            (8, 5, 0, 0x40, 400, 64),
            (8, 6, 0, 0x50, 500),
            (8, 8, 12, 0x60, 600, 64),
            (8, 8, 0, 0x60, 600, 128),
            (7, 4 | 1 << 14, 0x30, 0x70, 900),
            (7, 1, 0, 0x70, 900),
            (7, 3, 0x30),
            (7, 1, 0, 0, 2**40),
        )
        + b"torn",
        "glibc",
    )
    assert [thread.kind.tolist() for thread in trace.threads] == [[M, R], [C, F, R, A, A, A]]
    assert trace.objects.size.tolist() == [100, 900, 200, 300, 400, 500, 600]
    assert trace.objects.alignment.tolist() == [0, 0, 0, 0, 64, 4096, 128]
    assert compute_live_curve(trace).bytes.tolist()[-1] == 400 + 500 + 600 + 900


def test_calls_that_failed_change_nothing(run) -> None:  # type: ignore[no-untyped-def]
    """They are written down too, with sizes that no block has; a realloc to nothing is a free."""
    most = 2**64 - 1
    android = (
        f"1: malloc 0x0 {most} 1 2\n1: malloc 0x10 5 3 4\n1: realloc 0x0 0x10 {most} 5 6\n"
        "1: realloc 0x0 0x0 0 7 8\n1: free 0x0 9 10\n1: realloc 0x0 0x10 0 11 12\n"
        "1: thread_done 0x0 13\n"
    )
    glibc = make_records(
        (1, 1, 0, 0, most), (1, 1, 0, 0x10, 5), (1, 4, 0x10, 0, most), (1, 4, 0, 0, 0),
        (1, 3, 0), (1, 4, 0x10, 0, 0),
    )  # fmt: skip
    for trace in (run(android.encode(), "android"), run(glibc, "glibc")):
        [thread] = trace.threads
        assert thread.kind.tolist() == [M, F]
        assert thread.freed.tolist() == [-1, 0]
        assert trace.compiled.unknown_frees == trace.compiled.double_frees == 0


HOSTILE = [
    ("android", b"", "has no call of malloc or free"),
    ("android", b"187: thread_done 0x0\n", "has no call"),
    ("android", b"1: malloc 0x10\n", "line 1: too few or too many numbers"),
    ("android", b"1: malloc 0x10 5 6\n", "too few or too many"),
    ("android", b"1: malloc 0x10 5 9 6\n", "ends before it begins"),
    ("android", b"1: malloc 0x10 -5\n", "line 1: not a number"),
    ("android", b"1: malloc 0x10 " + b"9" * 20 + b"\n", "not a number"),
    ("android", b"1: malloc 0x10 9223372036854775807\n", "no call can have"),
    ("android", b"1: calloc 0x10 4000000000000000000 4000000000000000000\n", "no call can have"),
    ("android", b"1: memalign 0x10 4294967296 1\n", "no call can have"),
    ("android", b"1: realloc 0x10 0x1ffffffffffffffff 1\n", "not an address"),
    ("android", b"1: realloc 0x10 -5 1\n", "not an address"),
    ("android", b"1: free -0x10\n", "not an address"),
    ("android", b"1: realloc 0x10 zzz 1\n", "line 1: "),
    ("android", b"1: mmap 0x10 5\n", "a call that is not known"),
    ("android", b"1: malloc 0x10 5\n1: free 0x10 7 8\n", "line 2: only some lines have times"),
    ("android", b"\xff\xfe\x1b[2J\n", "line 1: not a line of record_allocs"),
    ("android", b"x" * 200_000, "has a line of more than"),
    ("glibc", b"", "has no call"),
    ("glibc", b"= Start\n= End\n", "has no call"),
    ("glibc", b"@ a + 0x10 0x20\nmore\n", "line 2: not a line of mtrace"),
    ("glibc", b"+ 0x10 0x7fffffffffffffff\n", "line 1: a size that no call can have"),
    ("glibc", make_records((1, 9, 1, 1, 1)), "record 1 is of a type that is not known"),
    ("glibc", make_records((1, 1, 0, 16, 2**63)), "a size or an alignment"),
    ("glibc", make_records(), "has no call"),
    ("glibc", make_records().replace(b"\x08\0\0\0", b"\x04\0\0\0"), "32-bit"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "data", "complaint"), HOSTILE)
def test_anything_else_is_refused_in_one_line(run, form: str, data: bytes, complaint: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError, match=complaint) as caught:
        run(data, form)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_calls_and_threads_are_bounded(run, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(call_rows, "MOST_CALLS", 3)
    with pytest.raises(UsageError, match="more than 3 calls"):
        run(ANDROID, "android")
    monkeypatch.setattr(call_rows, "MOST_CALLS", 100)
    monkeypatch.setattr(call_rows, "MOST_THREADS", 1)
    with pytest.raises(UsageError, match="more than 1 threads"):
        run(ANDROID, "android")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for form in ("glibc", "android"):
        with pytest.raises(UsageError, match="cannot be read: No such file"):
            import_trace(tmp_path / "none", form)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="not a plain file"):
            import_trace(tmp_path, form)  # type: ignore[arg-type]
