"""tbbmalloc has no statistics to query."""

from collections.abc import Mapping
from typing import Any

from dballoc.process_memory.heaps.allocator_account import Account, account


def parse_statistics(answer: Mapping[str, Any]) -> Account:
    """Return no holdings, and its report as a note."""
    return account("tbbmalloc", [], notes=[answer["report"]])
