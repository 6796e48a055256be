"""Traces of other tools: glibc's mtrace and malloc tracing, Android's record_allocs."""

import tempfile
from pathlib import Path

import numpy as np

from dballoc.ground.errors import UsageError
from dballoc.trace.figures.trace_summary import summarise_trace
from dballoc.trace.importers.glibc_trace import RECORD
from dballoc.trace.importers.import_trace import import_trace
from dballoc.trace.trace_file.check_trace import InvalidTrace, check_sizes, check_trace

OF = (
    "dballoc.trace.importers.android",
    "dballoc.trace.importers.import_trace",
    "dballoc.trace.importers.glibc_trace",
    "dballoc.trace.compilation.compile_recording",
    "dballoc.trace.compilation.match_blocks",
)
PRIVILEGED = False

_MTRACE = b"""= Start
@ /tmp/a:(main+0x1b)[0x11b0] + 0x56231dead4a0 0x64
@ /tmp/a:[0x11d8] < 0x56231dead4a0
@ /tmp/a:[0x11d8] > 0x56231dead620 0x1388
- 0x56231dead620
! 0x10 0x20
= End
"""
_ANDROID = b"""186: malloc 0xb6038060 20
186: free 0xb6038060
187: calloc 0xb609f080 32 4
186: realloc 0xb603e9a0 0xb609f080 12
186: memalign 0x85423660 16 104
187: thread_done 0x0
"""
_TIMED = b"""5: malloc 0x10 20 1000 1040
5: realloc 0x20 0x10 30 1100 1200
6: free 0x20 1300 1350
"""


def _make_records() -> bytes:
    records = np.zeros(9, RECORD)
    records["thread"] = [1, 1, 2, 1, 2, 2, 1, 1, 2]
    records["type"] = [255, 1, 2, 3, 4, 5, 8, 4 | 1 << 14, 3]
    records["ptr1"] = [0x1234, 0, 0, 16, 32, 0, 0, 48, 48]
    records["ptr2"] = [0, 16, 32, 0, 48, 64, 80, 96, 0]
    records["size"] = 8
    records["size2"] = 64
    return records.tobytes()


def seeds() -> list[bytes]:
    return [_MTRACE, _ANDROID, _TIMED, _make_records()]


def fuzz(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "f"
        path.write_bytes(data)
        for form in ("glibc", "android"):
            try:
                trace = import_trace(path, form)  # type: ignore[arg-type]
            except UsageError as error:
                assert "\n" not in str(error), error
                continue
            try:
                check_sizes(trace.objects)
            except InvalidTrace:
                continue
            check_trace(trace.threads, trace.objects)
            summarise_trace(trace)
