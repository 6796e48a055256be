"""A live server explained: the ledger of what is there, and beside it what its configuration allows."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from dballoc.allocators import running
from dballoc.catalogue import bounds as catalogue
from dballoc.catalogue import verdicts as limits_of_verdicts
from dballoc.errors import Failure, UsageError
from dballoc.explain import books, bounds, evidence, function, huge, labels, outside, verdicts
from dballoc.explain.books.account import Account
from dballoc.explain.bounds import Bounds, Room
from dballoc.explain.evidence import Evidence
from dballoc.explain.labels import Labels
from dballoc.explain.ledger import Ledger, ledger
from dballoc.explain.verdicts import Moment, Verdict
from dballoc.host import limits
from dballoc.servers import process
from dballoc.servers.credentials import Credentials


@dataclass(frozen=True)
class Explanation:
    """``bounds`` and ``verdict`` are None where the server was not asked. ``seconds``: what looking took; ``taken``: when, Unix
    time; ``answer``: what most of the memory is for, in a sentence; ``verdicts``: what it means, the problems first.
    """

    ledger: Ledger
    room: Room
    bounds: Bounds | None
    verdict: str | None
    seconds: float
    taken: float = 0.0
    evidence: Evidence = field(default_factory=Evidence)
    answer: str = ""
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def moment(self) -> Moment:
        """What verdicts over a series are made of."""
        return Moment(self.taken, self.ledger, self.evidence)

    def as_json(self) -> dict[str, Any]:
        """The ledger's own keys (``rss``, ``lines``, ``rest``, ``unowned``, …), the bounds and the verdicts, in bytes."""
        found = {"taken": self.taken, "seconds": self.seconds, "answer": self.answer} | asdict(self.ledger)
        found |= {"verdicts": [asdict(v) for v in self.verdicts], "evidence": asdict(self.evidence)}
        found |= {"room": asdict(self.room), "bounds": None}
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
    known = evidence.gather(look, said, _huge(look), limits_of_verdicts())
    return judged([Explanation(
        found, room, allowed, bounds.verdict(allowed, room, found.rss) if allowed else None, look.seconds, look.taken, known,
    )])  # fmt: skip


def judged(series: Sequence[Explanation]) -> Explanation:
    """The last of a series, with its answer and its verdicts in the light of the others."""
    last, known = series[-1], limits_of_verdicts()
    found = verdicts.judge([e.moment for e in series], last.bounds, known)
    return replace(last, answer=verdicts.answer(last.ledger, known), verdicts=found)


def _huge(look: outside.Outside) -> huge.Huge | None:
    try:
        return huge.look(look)
    except OSError as error:
        raise Failure(running.refusal(look.pid, error)) from None


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
