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
from dballoc.explain import (
    books,
    bounds,
    doublewrite,
    evidence,
    function,
    huge,
    innodb_uncounted,
    labels,
    once,
    outside,
    procedure,
    verdicts,
)
from dballoc.explain.books.account import Account
from dballoc.explain.bounds import Bounds, Room
from dballoc.explain.evidence import Evidence
from dballoc.explain.labels import Labels
from dballoc.explain.ledger import Ledger, ledger
from dballoc.explain.outside import Outside
from dballoc.explain.sampled import Sample, Sampled, nobody
from dballoc.explain.section import Section
from dballoc.explain.verdicts import Moment, Verdict
from dballoc.host import inside, limits
from dballoc.servers import process
from dballoc.servers.credentials import Credentials


@dataclass(frozen=True)
class Explanation:
    """``bounds`` and ``verdict`` are None where the server was not asked. ``seconds``: what looking took; ``taken``: when, Unix
    time; ``answer``: what most of the memory is for, in a sentence; ``verdicts``: what it means, the problems first;
    ``sections``: what else one looks up, if it was asked for; ``reach``: bytes of RSS that its settings let it still grow to;
    ``within``: seconds that the loadable function has taken in the server.
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
    sections: list[Section] = field(default_factory=list)
    reach: int | None = None
    within: float = 0.0

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
                "plain": self.bounds.plain, "worst": self.bounds.worst, "capped": self.bounds.capped, "reach": self.reach,
                "verdict": self.verdict,
            }  # fmt: skip
        if self.sections:
            found["procedure"] = [asdict(part) for part in self.sections]
        return found


def explain(pid: int, who: Credentials | None, whole: bool = False, sample: Sample = nobody) -> Explanation:
    """Look at a live server, ask it if ``who`` is given, and ``sample`` its heap probe if it has one. Failure in one line if it
    cannot be looked at.

    ``whole``: with all that one looks up by hand besides (:mod:`dballoc.explain.procedure`).
    """
    look = outside.look(pid)
    empty = _huge(look)
    notes: list[str] = []
    said, account, sections = _ask(pid, who, whole, notes) if who else (None, None, procedure.unasked("--no-sql: not asked"))
    if said:
        said.heap.extend(
            filter(None, (doublewrite.label(pid, said.variables), once.label(look), *innodb_uncounted.labels(said)))
        )
    found = ledger(look, said, account, _sampled(look, sample, notes))
    found.notes.extend([*notes, *_apart(pid)])
    room = Room(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), _limit(pid))
    allowed = bounds.bounds(said.variables, catalogue()) if said else None
    if whole:
        sections = [*_outside(look), *sections]
    verdict = bounds.verdict(allowed, room, found.rss) if allowed else None
    reach = _reach(allowed, found, said) if allowed and said else None
    known = evidence.gather(look, said, empty, limits_of_verdicts())
    return judged([Explanation(
        found, room, allowed, verdict, look.seconds, look.taken, known, sections=sections if whole else [], reach=reach,
        within=account.took if account else 0.0,
    )])  # fmt: skip


def judged(series: Sequence[Explanation]) -> Explanation:
    """The last of a series, with its answer and its verdicts in the light of the others."""
    last, known = series[-1], limits_of_verdicts()
    found = verdicts.judge([e.moment for e in series], last.bounds, known)
    return replace(last, answer=verdicts.answer(last.ledger, known), verdicts=found)


def _reach(allowed: Bounds, found: Ledger, said: Labels) -> int:
    filled = sum(line.resident for line in found.lines if line.owner in catalogue()["owners"])
    connected = said.status.get("threads_connected", "")
    return allowed.reach(found.rss, filled, int(connected) if connected.isdigit() else 0)


def _sampled(look: Outside, sample: Sample, notes: list[str]) -> Sampled | None:
    try:
        return sample(look)
    except (Failure, UsageError) as error:
        notes.append(str(error))
        return None


def _apart(pid: int) -> list[str]:
    try:
        said = inside.words(pid)
    except OSError:
        return []
    return [said] if said else []


def _outside(look: Outside) -> list[Section]:
    try:
        return procedure.outside(look)
    except OSError as error:
        raise Failure(running.refusal(look.pid, error)) from None


def _huge(look: Outside) -> huge.Huge | None:
    try:
        return huge.look(look)
    except OSError as error:
        raise Failure(running.refusal(look.pid, error)) from None


def _ask(pid: int, who: Credentials, whole: bool, notes: list[str]) -> tuple[Labels | None, Account | None, list[Section]]:
    """The server's own labels, its malloc's account if the loadable function is there, and what else was asked for."""
    try:
        server = process.look(pid, "process")
        # Where it listens tells more than its options do, and needs nothing of it to be run.
        with process.talking(server, [] if process.listening(pid) else process.given(server), who) as cursor:
            said = labels.read(cursor)
            notes.extend(filter(None, [function.leftover(cursor)]))
            return said, _account(cursor, notes), procedure.asked(cursor, said) if whole else []
    except (process.NoWord, UsageError) as error:
        notes.append(f"not asked by SQL: {error}")
        return None, None, procedure.unasked(notes[-1])


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
