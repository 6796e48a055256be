"""scudo's account: what is allocated. Its figure of what is free counts from 0 in every thread, and tells nothing."""

from collections.abc import Mapping
from typing import Any

from dballoc.explain.books.account import LIVE_ALL, Account, Holding, account


def read(said: Mapping[str, Any]) -> Account:
    """Live blocks are counted by their size classes, rounding included."""
    notes = []
    if "modulo" in said:
        notes.append(
            f"this scudo counts in 32 bits: what it says is live may be {said['modulo'] >> 30} GiB more, or a multiple"
        )
    return account("scudo", [Holding(LIVE_ALL, said["allocated"])], notes=notes)
