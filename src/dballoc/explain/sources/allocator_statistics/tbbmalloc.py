"""tbbmalloc has no statistics to query."""

from collections.abc import Mapping
from typing import Any

from dballoc.process_memory.heaps.allocator_statistics import AllocatorStatistics, make_statistics


def parse_statistics(answer: Mapping[str, Any]) -> AllocatorStatistics:
    """Return no holdings, and its report as a note."""
    return make_statistics("tbbmalloc", [], notes=[answer["report"]])
