"""A live server explained: the ledger of its memory, what that means, and beside it what its
configuration allows.
"""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pymysql
from pymysql.cursors import Cursor

from dballoc.catalogue import bounds as catalogue
from dballoc.catalogue import suspects as suspects_catalogue
from dballoc.catalogue import verdicts as limits_of_verdicts
from dballoc.evidence.files import doublewrite
from dballoc.evidence.model import Evidence, count_sessions, gather_evidence
from dballoc.evidence.process import my_once_alloc, unwritten_huge_pages
from dballoc.evidence.sql import (
    allocator_statistics,
    innodb_uncounted,
    loadable_function,
    server_memory,
    suspect_counts,
)
from dballoc.evidence.sql.server_memory import ServerMemory
from dballoc.explain.checklist.section import ChecklistSection
from dballoc.explain.ledger import configuration_limits
from dballoc.explain.ledger.configuration_limits import AvailableMemory, Bounds
from dballoc.explain.ledger.ledger import Ledger, build_ledger
from dballoc.explain.verdicts import unowned, verdicts
from dballoc.explain.verdicts.verdict import MemoryVerdict, Moment
from dballoc.ground.errors import Failure, UsageError
from dballoc.host.abandonable import touches
from dballoc.host.process import process_root
from dballoc.host.process.handle import Process
from dballoc.host.process.read_rights import failing_for
from dballoc.host.resources import cgroup_memory, process_limits
from dballoc.process import snapshot as process_snapshot
from dballoc.process.heaps.allocator_statistics import AllocatorStatistics
from dballoc.process.heaps.heap_probe_estimate import AskProbe, ProbeEstimate, ask_no_probe
from dballoc.process.snapshot import ProcessSnapshot
from dballoc.process.usage import ProcessUsage
from dballoc.servers.running import running_server
from dballoc.servers.running.credentials import Credentials
from dballoc.servers.running.running_server import Announce
from dballoc.servers.running.sql_values import describe_refusal

if TYPE_CHECKING:
    from dballoc.explain.checklist.memory_events import EventFilter


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """``bounds`` and ``verdict`` are None where the server was not asked. ``seconds``: how long the
    snapshot took; ``timestamp``: when, Unix time; ``answer``: what most of the memory is for, in a
    sentence; ``verdicts``: what it means, the problems first; ``sections``: the checklist, if it
    was wanted; ``reach``: bytes of RSS that its settings let it still grow to; ``within``: seconds
    that the loadable function has taken in the server; ``usage``: VSZ and CPU time, None of a
    snapshot that an older dballoc saved.
    """

    ledger: Ledger
    room: AvailableMemory
    bounds: Bounds | None
    verdict: str | None
    seconds: float
    timestamp: float = 0.0
    evidence: Evidence = field(default_factory=Evidence)
    answer: str = ""
    verdicts: list[MemoryVerdict] = field(default_factory=list)
    sections: list[ChecklistSection] = field(default_factory=list)
    reach: int | None = None
    within: float = 0.0
    usage: ProcessUsage | None = None

    @property
    def moment(self) -> Moment:
        """What verdicts over a series are made from."""
        return Moment(self.timestamp, self.ledger, self.evidence)

    def as_json(self) -> dict[str, Any]:
        """The ledger's own keys (``rss``, ``lines``, ``rest``, ``unowned``, …), the bounds and the
        verdicts, in bytes.
        """
        document: dict[str, Any] = {
            "taken": self.timestamp,
            "seconds": self.seconds,
            "answer": self.answer,
            **asdict(self.ledger),
            "verdicts": [asdict(verdict) for verdict in self.verdicts],
            "evidence": asdict(self.evidence),
            "room": asdict(self.room),
            "usage": _make_usage_document(self.usage),
            "bounds": None,
        }
        if self.bounds:
            document["bounds"] = asdict(self.bounds) | {
                "plain": self.bounds.plain,
                "worst": self.bounds.worst,
                "capped": self.bounds.capped,
                "reach": self.reach,
                "verdict": self.verdict,
            }
        if self.sections:
            document["procedure"] = [section.as_json() for section in self.sections]
        return document


def _make_usage_document(usage: ProcessUsage | None) -> dict[str, float] | None:
    return asdict(usage) | {"cpu_share": usage.cpu_share} if usage else None


@dataclass(frozen=True, kw_only=True)
class _Answers:
    """What the server said over SQL, with notes on what it did not."""

    labels: ServerMemory | None = None
    statistics: AllocatorStatistics | None = None
    sections: list[ChecklistSection] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def explain(
    process: Process,
    credentials: Credentials | None,
    procedure: "EventFilter | None" = None,
    sample: AskProbe = ask_no_probe,
    announce: Announce | None = None,
) -> Explanation:
    """Take a snapshot of a live server, ask it over SQL if there are ``credentials``, and
    ``sample`` its heap probe if it has one. Raises Failure if its memory cannot be read.

    ``procedure``: what is wanted of all that one would look up by hand besides
    (:mod:`dballoc.explain.checklist.checklist`): these rows of the account summary, and all other
    sections; None for nothing. ``announce``: is told what is waited for, if that takes long.
    """
    snapshot = process_snapshot.take_process_snapshot(process)
    with failing_for(process):
        huge = unwritten_huge_pages.sample_huge_pages(snapshot)
    answers = (
        _ask_server(process, credentials, procedure, announce)
        if credentials
        else _Answers(sections=_explain_missing("--no-sql: not asked"))
    )
    labels = _add_uncounted(answers.labels, snapshot) if answers.labels else None
    sampled, sample_notes = _ask_probe(snapshot, sample)
    attributed = build_ledger(snapshot, labels, answers.statistics, sampled)
    attributed.notes.extend([*answers.notes, *sample_notes, *_list_process_notes(snapshot)])
    surroundings = _read_surroundings(snapshot)
    limit = surroundings.cpus.memory if surroundings.cpus else None
    room = AvailableMemory(surroundings.machine_memory, limit)
    bounds = configuration_limits.compute_bounds(labels.variables, catalogue()) if labels else None
    sections = _gather_sections(snapshot, answers, attributed, labels) if procedure else []
    return judge_series(
        [
            Explanation(
                ledger=attributed,
                room=room,
                bounds=bounds,
                verdict=(
                    configuration_limits.judge_bounds(bounds, room, attributed.rss)
                    if bounds
                    else None
                ),
                seconds=snapshot.seconds,
                timestamp=snapshot.taken_at,
                evidence=gather_evidence(
                    snapshot,
                    labels,
                    huge,
                    limits_of_verdicts(),
                    surroundings,
                    _count_suspects(process, credentials, labels, attributed),
                ),
                sections=sections,
                reach=_compute_reach(bounds, attributed, labels) if bounds and labels else None,
                within=answers.statistics.took if answers.statistics else 0.0,
                usage=snapshot.usage,
            )
        ]
    )


def judge_series(series: Sequence[Explanation]) -> Explanation:
    """Return the last of a series, with its answer and its verdicts in the light of the others."""
    last, limits = series[-1], limits_of_verdicts()
    return replace(
        last,
        answer=verdicts.write_answer(last.ledger, limits),
        verdicts=verdicts.judge_moments([e.moment for e in series], last.bounds, limits),
    )


def _add_uncounted(labels: ServerMemory, snapshot: ProcessSnapshot) -> ServerMemory:
    """Return the labels with those of memory that the server does not count itself."""
    uncounted = (
        doublewrite.confirm_by_blocks(
            doublewrite.estimate_doublewrite_pages(snapshot.process, labels.variables),
            snapshot.heap.groups if snapshot.heap else [],
        ),
        my_once_alloc.measure_once_blocks(snapshot),
        *innodb_uncounted.estimate_uncounted_memory(labels),
    )
    return replace(labels, heap=[*labels.heap, *filter(None, uncounted)])


def _compute_reach(bounds: Bounds, attributed: Ledger, labels: ServerMemory) -> int:
    """Return the bytes of RSS that the settings let the server still grow to."""
    owners = catalogue()["owners"]
    filled = attributed.sum_resident(*owners)
    connected = server_memory.parse_number(labels.status, "threads_connected")
    return bounds.compute_reach(attributed.rss, filled, connected)


def _ask_probe(
    snapshot: ProcessSnapshot, sample: AskProbe
) -> tuple[ProbeEstimate | None, list[str]]:
    """Return the probe's estimate, and a note where it could not be asked."""
    try:
        return sample(snapshot), []
    except (Failure, UsageError) as error:
        return None, [str(error)]


def _list_process_notes(snapshot: ProcessSnapshot) -> list[str]:
    """Return a note if the process is in namespaces of its own, what to know of its malloc, and
    what of it did not answer.
    """
    try:
        note = process_root.describe_namespaces(snapshot.process)
    except OSError:
        note = None
    return [
        *([note] if note else []),
        *snapshot.malloc.describe_idle_settings(),
        *touches.list_notes(),
    ]


def _gather_sections(
    snapshot: ProcessSnapshot,
    answers: _Answers,
    attributed: Ledger,
    labels: ServerMemory | None,
) -> list[ChecklistSection]:
    """Return the checklist: of the process, of the server, and InnoDB against its pool."""
    from dballoc.explain.checklist import checklist  # here: only --procedure needs it

    with failing_for(snapshot.process):
        sections = [*checklist.describe_host_and_process(snapshot), *answers.sections]
    if labels:
        sections.append(checklist.measure_innodb_beyond_pool(attributed, labels))
    return sections


def _explain_missing(why: str) -> list[ChecklistSection]:
    """Return the section that says why the server was not queried."""
    return [ChecklistSection(title="server", source="SQL", missing=why)]


def _talk(
    process: Process, credentials: Credentials, announce: Announce | None = None
) -> AbstractContextManager[Cursor]:
    """Return a connection to the server. Raises UsageError or NoWord if it refuses."""
    server = running_server.look(process, "process")
    # Take the listening socket from /proc: options can lie, and asking for them would run the
    # server's binary.
    options = [] if running_server.listening(process) else running_server.given(server)
    return running_server.talking(server, options, credentials, announce)


def _count_suspects(
    process: Process,
    credentials: Credentials | None,
    labels: ServerMemory | None,
    attributed: Ledger,
) -> dict[str, int]:
    """Return the counts of what may have memory that nobody claims; none where there is little of
    it, or the server does not answer any more.
    """
    if not (
        credentials
        and labels
        and unowned.is_unexplained(attributed, bool(labels.counted), limits_of_verdicts())
    ):
        return {}
    seconds = suspects_catalogue()["thresholds"]["statement"]
    try:
        with _talk(process, credentials) as cursor:
            counts = suspect_counts.query_counts(cursor, labels.mariadb, seconds)
    except (running_server.NoWord, UsageError):
        return {}
    return counts | count_sessions(labels)


def _ask_server(
    process: Process,
    credentials: Credentials,
    procedure: "EventFilter | None",
    announce: Announce | None,
) -> _Answers:
    """Return the server's own labels, its malloc's statistics if the loadable function is
    installed, and the checklist's sections if they are wanted.
    """
    notes: list[str] = []
    try:
        with _talk(process, credentials, announce) as cursor:
            labels = server_memory.query_server_memory(cursor)
            notes.extend(filter(None, [loadable_function.describe_leftover_trim(cursor)]))
            statistics, malloc_notes = _ask_malloc(cursor)
            notes.extend(malloc_notes)
            sections: list[ChecklistSection] = []
            if procedure:
                from dballoc.explain.checklist import checklist  # here: only --procedure needs it

                sections = checklist.query_server_sections(cursor, labels, procedure)
            return _Answers(labels=labels, statistics=statistics, sections=sections, notes=notes)
    except (running_server.NoWord, UsageError) as error:
        notes.append(f"not queried by SQL: {error}")
        return _Answers(sections=_explain_missing(notes[-1]), notes=notes)


def _ask_malloc(cursor: Cursor) -> tuple[AllocatorStatistics | None, list[str]]:
    """Return its statistics from the loadable function, and a note where that failed."""
    try:
        return loadable_function.query_malloc_statistics(cursor), []
    except allocator_statistics.UnreadableStatistics as error:
        return None, [str(error)]
    except pymysql.Error as error:
        return None, [f"the loadable function cannot be called: {describe_refusal(error)}"]


def _read_surroundings(snapshot: ProcessSnapshot) -> Evidence:
    """Read what the host gives a server, as that part of the evidence."""
    try:
        cpus = process_limits.read_limits(snapshot.process, snapshot.cgroups)
    except OSError:
        cpus = None
    return Evidence(
        cgroup=cgroup_memory.read_cgroup_memory(snapshot.cgroups) if snapshot.cgroups else None,
        cpus=cpus,
        online_cpus=os.sysconf("SC_NPROCESSORS_ONLN"),
        machine_memory=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
    )
