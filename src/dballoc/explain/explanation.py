"""A live server explained: the ledger of what is there, and beside it what its configuration
allows.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from dballoc.catalogue import bounds as catalogue
from dballoc.catalogue import verdicts as limits_of_verdicts
from dballoc.errors import Failure, UsageError
from dballoc.explain.attribution import configuration_limits
from dballoc.explain.attribution.configuration_limits import Bounds, Room
from dballoc.explain.attribution.ledger import Ledger, ledger
from dballoc.explain.checklist import checklist
from dballoc.explain.checklist.section import Section
from dballoc.explain.sources import (
    allocator_statistics,
    doublewrite,
    innodb_uncounted,
    loadable_function,
    my_once_alloc,
    server_memory,
)
from dballoc.explain.sources.server_memory import Labels
from dballoc.explain.verdicts import evidence, thp_waste, verdicts
from dballoc.explain.verdicts.evidence import Evidence
from dballoc.explain.verdicts.verdicts import Moment, Verdict
from dballoc.host import process_root
from dballoc.host.resources import process_limits
from dballoc.process_memory import malloc_bindings, process_snapshot
from dballoc.process_memory.heaps.allocator_account import Account
from dballoc.process_memory.heaps.heap_probe_estimate import Sample, Sampled, nobody
from dballoc.process_memory.process_snapshot import Outside
from dballoc.servers.running import running_server
from dballoc.servers.running.credentials import Credentials


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """``bounds`` and ``verdict`` are None where the server was not asked. ``seconds``: what looking
    took; ``taken``: when, Unix time; ``answer``: what most of the memory is for, in a sentence;
    ``verdicts``: what it means, the problems first; ``sections``: what else one looks up, if it was
    asked for; ``reach``: bytes of RSS that its settings let it still grow to; ``within``: seconds
    that the loadable function has taken in the server.
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
        """The ledger's own keys (``rss``, ``lines``, ``rest``, ``unowned``, …), the bounds and the
        verdicts, in bytes.
        """
        found = {"taken": self.taken, "seconds": self.seconds, "answer": self.answer} | asdict(
            self.ledger
        )
        found |= {"verdicts": [asdict(v) for v in self.verdicts], "evidence": asdict(self.evidence)}
        found |= {"room": asdict(self.room), "bounds": None}
        if self.bounds:
            found["bounds"] = asdict(self.bounds) | {
                "plain": self.bounds.plain,
                "worst": self.bounds.worst,
                "capped": self.bounds.capped,
                "reach": self.reach,
                "verdict": self.verdict,
            }
        if self.sections:
            found["procedure"] = [asdict(part) for part in self.sections]
        return found


def explain(
    pid: int, who: Credentials | None, whole: bool = False, sample: Sample = nobody
) -> Explanation:
    """Look at a live server, ask it if ``who`` is given, and ``sample`` its heap probe if it has
    one. Failure in one line if it cannot be looked at.

    ``whole``: with all that one looks up by hand besides
    (:mod:`dballoc.explain.checklist.checklist`).
    """
    look = process_snapshot.look(pid)
    empty = _huge(look)
    notes: list[str] = []
    said, account, sections = (
        _ask(pid, who, whole, notes)
        if who
        else (None, None, checklist.unasked("--no-sql: not asked"))
    )
    if said:
        said.heap.extend(
            filter(
                None,
                (
                    doublewrite.label(pid, said.variables),
                    my_once_alloc.label(look),
                    *innodb_uncounted.labels(said),
                ),
            )
        )
    found = ledger(look, said, account, _sampled(look, sample, notes))
    found.notes.extend([*notes, *_apart(pid)])
    room = Room(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), _limit(pid))
    allowed = configuration_limits.bounds(said.variables, catalogue()) if said else None
    if whole:
        sections = [*_outside(look), *sections]
    verdict = configuration_limits.verdict(allowed, room, found.rss) if allowed else None
    reach = _reach(allowed, found, said) if allowed and said else None
    known = evidence.gather(look, said, empty, limits_of_verdicts())
    return judged(
        [
            Explanation(
                ledger=found,
                room=room,
                bounds=allowed,
                verdict=verdict,
                seconds=look.seconds,
                taken=look.taken,
                evidence=known,
                sections=sections if whole else [],
                reach=reach,
                within=account.took if account else 0.0,
            )
        ]
    )


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
        said = process_root.words(pid)
    except OSError:
        return []
    return [said] if said else []


def _outside(look: Outside) -> list[Section]:
    try:
        return checklist.outside(look)
    except OSError as error:
        raise Failure(malloc_bindings.refusal(look.pid, error)) from None


def _huge(look: Outside) -> thp_waste.Huge | None:
    try:
        return thp_waste.look(look)
    except OSError as error:
        raise Failure(malloc_bindings.refusal(look.pid, error)) from None


def _ask(
    pid: int, who: Credentials, whole: bool, notes: list[str]
) -> tuple[Labels | None, Account | None, list[Section]]:
    """The server's own labels, its malloc's account if the loadable function is there, and what
    else was asked for.
    """
    try:
        server = running_server.look(pid, "process")
        # Where it listens tells more than its options do, and needs nothing of it to be run.
        with running_server.talking(
            server, [] if running_server.listening(pid) else running_server.given(server), who
        ) as cursor:
            said = server_memory.read(cursor)
            notes.extend(filter(None, [loadable_function.leftover(cursor)]))
            return said, _account(cursor, notes), checklist.asked(cursor, said) if whole else []
    except (running_server.NoWord, UsageError) as error:
        notes.append(f"not asked by SQL: {error}")
        return None, None, checklist.unasked(notes[-1])


def _account(cursor: Cursor, notes: list[str]) -> Account | None:
    try:
        return loadable_function.ask(cursor)
    except allocator_statistics.Unreadable as error:
        notes.append(str(error))
    except pymysql.Error as error:
        notes.append(f"the loadable function cannot be called: {error.args[-1]}")
    return None


def _limit(pid: int) -> int | None:
    try:
        return process_limits.read(pid).memory
    except OSError:
        return None
