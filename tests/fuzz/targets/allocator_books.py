"""What the loadable function answers in a server: an allocator's books, through SQL."""

import json

from example_statistics import GPERFTOOLS, JEMALLOC

from dballoc.evidence.sql import allocator_statistics
from dballoc.process.heaps.allocator_statistics import AllocatorStatistics, apportion_resident

OF = (
    "dballoc.process.heaps.allocator_statistics",
    "dballoc.evidence.sql.allocator_statistics",
)
PRIVILEGED = True

_MALLOC_INFO = """<malloc version="1"><heap nr="0"><sizes/><total type="fast" count="1" size="32"/></heap>
<total type="fast" count="1" size="32"/><total type="rest" count="3" size="9000"/><total type="mmap" count="1" size="4096"/>
<system type="current" size="135168"/></malloc>"""


def seeds() -> list[bytes]:
    said = [
        JEMALLOC,
        GPERFTOOLS,
        {"format": 1, "allocator": "glibc", "malloc_info": _MALLOC_INFO},
        {
            "format": 1,
            "allocator": "mimalloc",
            "current_commit": 9,
            "stats": json.dumps({"malloc_normal": {"current": 7}}),
        },
        {"format": 1, "allocator": "scudo", "allocated": 5, "free": 3},
        {"format": 1, "called": "x"},
    ]
    return [json.dumps(one).encode() for one in said]


def fuzz(data: bytes) -> None:
    text = data.decode(errors="replace")
    for read in (allocator_statistics.parse_statistics, allocator_statistics.parse_trim_answer):
        try:
            found = read(text)
        except allocator_statistics.UnreadableStatistics as error:
            assert "\n" not in str(error), error
            continue
        if isinstance(found, AllocatorStatistics):
            assert all(size >= 0 for _, size in apportion_resident(found, 2**30))
            repr(found).encode()
