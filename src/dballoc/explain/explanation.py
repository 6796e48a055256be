"""A live server explained: the ledger of what is there, and beside it what its configuration allows."""

import os
from dataclasses import asdict, dataclass
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from dballoc.catalogue import bounds as catalogue
from dballoc.errors import UsageError
from dballoc.explain import books, bounds, function, labels, outside
from dballoc.explain.books.account import Account
from dballoc.explain.bounds import Bounds, Room
from dballoc.explain.labels import Labels
from dballoc.explain.ledger import Ledger, ledger
from dballoc.host import limits
from dballoc.servers import process
from dballoc.servers.credentials import Credentials


@dataclass(frozen=True)
class Explanation:
    """``bounds`` and ``verdict`` are None where the server was not asked. ``seconds``: what looking took."""

    ledger: Ledger
    room: Room
    bounds: Bounds | None
    verdict: str | None
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """The ledger's own keys (``rss``, ``lines``, ``rest``, ``unowned``, …) and the bounds, in bytes."""
        found = asdict(self.ledger) | {"room": asdict(self.room), "bounds": None}
        if self.bounds:
            found["bounds"] = asdict(self.bounds) | {
                "plain": self.bounds.plain, "worst": self.bounds.worst, "verdict": self.verdict,
            }  # fmt: skip
        return found


def explain(pid: int, who: Credentials | None) -> Explanation:
    """Look at a live server, and ask it if ``who`` is given. Failure in one line if it cannot be looked at."""
    look = outside.look(pid)
    notes: list[str] = []
    said, account = _ask(pid, who, notes) if who else (None, None)
    found = ledger(look, said, account)
    found.notes.extend(notes)
    room = Room(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), _limit(pid))
    allowed = bounds.bounds(said.variables, catalogue()) if said else None
    return Explanation(found, room, allowed, bounds.verdict(allowed, room, found.rss) if allowed else None, look.seconds)


def _ask(pid: int, who: Credentials, notes: list[str]) -> tuple[Labels | None, Account | None]:
    """The server's own labels, and its malloc's account of itself if the loadable function is there."""
    try:
        server = process.look(pid, "process")
        with process.talking(server, process.given(server), who) as cursor:
            return labels.read(cursor), _account(cursor, notes)
    except (process.NoWord, UsageError) as error:
        notes.append(f"not asked by SQL: {error}")
    return None, None


def _account(cursor: Cursor, notes: list[str]) -> Account | None:
    try:
        return function.ask(cursor)
    except books.Unreadable as error:
        notes.append(str(error))
    except pymysql.Error as error:
        notes.append(f"the loadable function cannot be called: {error.args[-1]}")
    return None


def _limit(pid: int) -> int | None:
    try:
        return limits.read(pid).memory
    except OSError:
        return None
