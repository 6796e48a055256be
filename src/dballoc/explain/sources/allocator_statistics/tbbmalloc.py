"""tbbmalloc keeps no books that can be asked for."""

from collections.abc import Mapping
from typing import Any

from dballoc.process_memory.heaps.allocator_account import Account, account


def read(said: Mapping[str, Any]) -> Account:
    """Nothing but its own word that there is nothing."""
    return account("tbbmalloc", [], notes=[said["report"]])
