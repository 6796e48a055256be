"""What results say of their whole campaign: one object, read from the table ``campaign`` and stored
there as itself. Each field is a row; a text is stored as it is, all else as JSON. Pure.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from dballoc.experiment.cpu_list import parse_cpus
from dballoc.experiment.designs import Design
from dballoc.ground import readers
from dballoc.store.replay_facts import Amount, Count, ReplayFacts, Size, Word

# Unix time of the end of the year 9999, the last that Python's datetime has.
LATEST = 253_402_300_799.0

# Endings after which no more blocks come; after any other the campaign may go on.
FINAL_ENDINGS = ("planned", "decided", "budget")
# The files of an imported campaign's profiles, below its directory, by their number from 1.
IMPORTED_PROFILES = "profiles/{}.profile.json.gz"


def _check_cpus(text: str) -> str:
    parse_cpus(text)
    return text


def _check_designs(designs: tuple[Design, ...]) -> tuple[Design, ...]:
    if not designs or len(set(designs)) != len(designs):
        raise ValueError("is not a list of solo, duet and turns")
    return designs


_Cpus = Annotated[str, AfterValidator(_check_cpus)]
# A design, as a text.
_DesignName = Annotated[str, AfterValidator(Design)]
_Moment = Annotated[float, Field(ge=0, le=LATEST)]
_TrialNumber = Annotated[int, Field(ge=1, le=10**9)]
# The logical CPUs of a core; no processor has cores of more.
_Core = Annotated[tuple[Annotated[int, Field(ge=0, lt=100_000)], ...], Field(max_length=16)]


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A machine, as :func:`dballoc.host.machine_description.describe_machine` found it; None: not
    known. ``memory`` and ``swap`` in bytes.
    """

    host: Word | None = None
    user: Word | None = None
    os: Word | None = None
    kernel: Word | None = None
    boot_id: Word | None = None
    machine: Word | None = None
    cpu: Word | None = None
    cpus: Count | None = None
    cores: Count | None = None
    cpus_of_cores: Annotated[tuple[_Core, ...], Field(max_length=8192)] = ()
    numa_nodes: Count | None = None
    cpus_of_nodes: Annotated[dict[Word, _Cpus], Field(max_length=1024)] = field(
        default_factory=dict
    )
    memory: Size | None = None
    swap: Size | None = None
    hypervisor: bool | None = None
    governor: Word | None = None
    thp: Word | None = None
    thp_defrag: Word | None = None
    thp_sizes: Word | None = None
    aslr: Word | None = None
    overcommit: Word | None = None
    libc: Word | None = None
    python: Word | None = None


@dataclass(frozen=True, kw_only=True)
class ScatterComponents:
    """Standard deviations of ln ratio: between ``start``s, between ``slice``s of a start, between
    pieces of a slice, each of ``seconds``; ``halves``: the mean size of H.
    """

    start: Amount
    slice: Amount
    piece: Amount
    halves: float
    seconds: Amount


@dataclass(frozen=True, kw_only=True)
class SlicePlan:
    """A planned duet. ``slice``: seconds, of which ``discard`` are left out; ``pairs`` of slices in
    a block; ``blocks`` planned, each of about ``block_seconds``; ``half_width``: of the expected
    interval, relative, at the level ``confidence``.
    """

    slice: Amount
    discard: Amount
    pairs: Count
    blocks: Count
    block_seconds: Amount
    half_width: Amount
    confidence: Amount


@dataclass(frozen=True, kw_only=True)
class DuetFacts:
    """How duets are run. ``none``: why there are none. ``halves``: the CPUs of each;
    ``client_halves``: of its clients, where they have CPUs of their own; ``left_out``: the variants
    that are in no duet, and why. By the pilot: ``scatter`` of its starts by estimate,
    ``components`` by workload, ``after_swap``: ln of what a transaction costs just after a swap ÷
    later. ``plan``: None before it is made.
    """

    none: Word | None = None
    halves: tuple[_Cpus, ...] = ()
    client_halves: tuple[_Cpus, ...] = ()
    threads: Count = 0
    left_out: dict[Word, Word] = field(default_factory=dict)
    estimate: Literal["middle", "paired", "undisturbed"] = "middle"
    scatter: dict[Word, float] = field(default_factory=dict)
    components: dict[Word, ScatterComponents] = field(default_factory=dict)
    after_swap: float | None = None
    plan: SlicePlan | None = None


@dataclass(frozen=True, kw_only=True)
class TurnsFacts:
    """How turns are run. ``none``: why there are none. ``in_pairs``: each variant's server takes
    turns with a baseline's alone, instead of all with each other; ``seconds`` of a turn.
    """

    none: Word | None = None
    in_pairs: bool = False
    seconds: Amount = 0.0


@dataclass(frozen=True, kw_only=True)
class CounterFacts:
    """Which ``events`` are counted, without their mode; ``refusal``: why not all of them."""

    events: tuple[Word, ...] = ()
    refusal: Word = ""


@dataclass(frozen=True, kw_only=True)
class WorkloadFacts:
    """A workload, in words. ``group``: of the published tables; ``options``: its own and the
    experiment's; ``brings``: it has tables of its own; ``reads_whole_tables``: each event does.
    """

    title: Word = ""
    driver: Word = ""
    group: Word = ""
    script: Word = ""
    options: dict[Word, Word] = field(default_factory=dict)
    prepared_statements: bool = False
    brings: bool = False
    writes: bool = True
    reads_whole_tables: bool = False


@dataclass(frozen=True, kw_only=True)
class ImportedFile:
    """A file that was imported, as its copy is called."""

    name: Word
    sha256: Word


@dataclass(frozen=True, kw_only=True)
class MachineTrials:
    """A machine, by the files' name of it, and how many of the trials are its own."""

    name: Word
    trials: _TrialNumber


@dataclass(frozen=True, kw_only=True)
class PrivateBytes:
    """The most private bytes of a trial."""

    trial: _TrialNumber
    peak: Size


@dataclass(frozen=True, kw_only=True)
class ProfilePlace:
    """What a profile of call stacks is of, and what its numbers count: waits, waited (seconds),
    wakeups, cpu.
    """

    machine: Word
    variant: Word
    workload: Word
    threads: Annotated[int, Field(ge=1, lt=2**31)]
    counts: Literal["waits", "waited", "wakeups", "cpu"]


@dataclass(frozen=True, kw_only=True)
class ImportedFacts:
    """Where imported results come from. The machines' trials follow each other in their order, as
    the files of ``profiles`` do. ``clients_stated``: whether the files say under how many clients
    they were measured; if not, level 1 stands for an unknown one. ``relative_to``: the variant that
    the files' figures are ratios to, whose own is 1; the column ``qps`` has them.
    """

    files: tuple[ImportedFile, ...]
    machines: Annotated[tuple[MachineTrials, ...], Field(min_length=1)]
    clients_stated: bool = True
    relative_to: Word | None = None
    private: tuple[PrivateBytes, ...] = ()
    profiles: Annotated[tuple[ProfilePlace, ...], Field(max_length=1000)] = ()


@dataclass(frozen=True, kw_only=True)
class DeclaredConfirmation:
    """A campaign of a search's finalists: its ``directory`` below the results directory, and its
    ``experiment``, TOML.
    """

    base: Word
    directory: Annotated[str, Field(pattern=r"^confirmation/[A-Za-z0-9][A-Za-z0-9._+=@-]{0,63}$")]
    finalists: Annotated[tuple[Word, ...], Field(min_length=1, max_length=3)]
    experiment: str


@dataclass(frozen=True, kw_only=True)
class KnobWorth:
    """What a ``knob`` of a ``base`` was worth at a ``stage`` of the search: how many configurations
    that ran had it, and how many that ``failed``; its importance for memory and for cost (shares;
    None with too few trials); the largest likely effect of a value of it on either (``memory``,
    ``cost``: ratios; None if it was not tried), with the ends of its interval and that value; and
    whether the effect of any value is ``measurable``.
    """

    base: Word
    knob: Word
    stage: Literal["replay", "server"] = "server"
    configurations: Count | None = None
    failed: Count | None = None
    memory_share: Amount | None = None
    cost_share: Amount | None = None
    memory: Amount | None = None
    memory_low: Amount | None = None
    memory_high: Amount | None = None
    memory_value: Word | None = None
    cost: Amount | None = None
    cost_low: Amount | None = None
    cost_high: Amount | None = None
    cost_value: Word | None = None
    measurable: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Surveyed:
    """What a workload did in a start of its own, before the search: the server's ``peak`` RSS,
    bytes, None after a fault; its ``longest`` event, seconds.
    """

    peak: Size | None
    longest: Amount


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What results say of their campaign. ``experiment``: TOML; ``started``, ``ended``: Unix time;
    ``kind``: None for results of bench; ``clients``: None on the servers' hosts; ``margin``: the
    share that a variant may lose and count as no worse; ``decided``: after which block each decided
    design ended; ``budget_looks``: after which the budget ended it;
    ``measured_only``: nothing was judged while it ran, so that it is judged once, where it ended.

    Of fit: ``options``: the cache's by variant; ``starts``: first sizes, where a trace gave them.
    Of tune: ``preference``: how finalists are judged, as --prefer takes it; ``confirmations``: None
    before they are chosen; ``survey``: by workload, where trials have not all of them;
    ``searched_workloads``: which ones they have. ``compared_elsewhere``: how many variants
    share the error and are not compared here: of a confirmation, the finalists that the others
    have. ``settled_otherwise``: by variant, for each variable that its
    server does not have which settles, the substitute or "". ``preloads``: by variant, the SHA-256
    of each library that it names by path; ``untried``: what built its fetched allocator, where no
    recipe of dballoc's did.
    """

    dballoc: Word
    identity: Word
    experiment: str
    seed: int
    started: _Moment
    environment: Environment
    designs: Annotated[tuple[Design, ...], AfterValidator(_check_designs)]
    planned_blocks: dict[_DesignName, Count]
    duet: DuetFacts
    turns: TurnsFacts = TurnsFacts()
    server_user: Word = ""
    sysbench: Word | None = None
    kind: Literal["fit", "replay", "tune"] | None = None
    clients: Literal["apart"] | None = None
    margin: Annotated[float, Field(gt=0, lt=1)] | None = None
    workloads: dict[Word, WorkloadFacts] = field(default_factory=dict)
    option_defaults: dict[Word, Word] = field(default_factory=dict)
    counters: CounterFacts | None = None
    settled_otherwise: dict[Word, dict[Word, Word]] = field(default_factory=dict)
    preloads: dict[Word, tuple[Word, ...]] = field(default_factory=dict)
    untried: dict[Word, Word] = field(default_factory=dict)
    decided: dict[_DesignName, Count] = field(default_factory=dict)
    budget_looks: dict[_DesignName, tuple[Count, ...]] = field(default_factory=dict)
    measured_only: bool = False
    ending: Word | None = None
    ended: _Moment | None = None
    replay: ReplayFacts | None = None
    imported: ImportedFacts | None = None
    options: dict[Word, Word] = field(default_factory=dict)
    starts: dict[Word, Size] | None = None
    preference: Word | None = None
    confirmations: Annotated[tuple[DeclaredConfirmation, ...], Field(max_length=100)] | None = None
    knobs: Annotated[tuple[KnobWorth, ...], Field(max_length=10_000)] = ()
    search_seconds: Amount = 0.0
    survey: dict[Word, Surveyed] = field(default_factory=dict)
    searched_workloads: Annotated[tuple[Word, ...], Field(min_length=1)] | None = None
    compared_elsewhere: Annotated[int, Field(ge=0, le=3)] = 0


_TEXTS = frozenset(
    "dballoc identity experiment server_user sysbench kind clients ending preference".split()
)
# Made when something is read: that takes longer than all else that a start imports of the store.
_make_form = cache(TypeAdapter)


def parse_facts(rows: Mapping[str, str]) -> Facts:
    """Return the facts in the rows of the table. Raises Unfit, which names the key, if one is
    missing or malformed.
    """
    values = {}
    for key in Facts.__dataclass_fields__.keys() & rows.keys():
        try:
            is_text = key in _TEXTS
            values[key] = rows[key] if is_text else readers.document(rows[key], finite=False)
        except readers.Unfit as error:
            raise readers.Unfit(f"campaign: {key}: {error}") from None
    facts: Facts = _validate(values, Facts, "campaign")
    if facts.kind not in ("fit", "tune") and (
        missing := [design for design in facts.designs if design not in facts.planned_blocks]
    ):
        raise readers.Unfit(f"campaign: planned_blocks: {missing[0]} is missing")
    if facts.kind == "replay" and facts.replay is None:
        raise readers.Unfit("campaign: replay is missing")
    if Design.DUET in facts.designs and not (facts.duet.halves and facts.duet.threads):
        raise readers.Unfit("campaign: duet: halves or threads are missing")
    if Design.TURNS in facts.designs and not facts.turns.seconds:
        raise readers.Unfit("campaign: turns: seconds are missing")
    return facts


def format_facts(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the rows of facts, given by the names of their fields; none of one that is None."""
    return {
        key: value if key in _TEXTS else json.dumps(value, default=asdict)
        for key, value in facts.items()
        if value is not None
    }


def parse_environment(text: str, place: str) -> Environment:
    """Return a host's environment, from JSON. Raises Unfit, which begins with ``place``."""
    try:
        values = readers.document(text, finite=False)
    except readers.Unfit as error:
        raise readers.Unfit(f"{place}: {error}") from None
    return _validate(values, Environment, place)


def _validate(values: Any, form: type, place: str) -> Any:
    """Return the object that a parsed JSON document describes. As JSON, so that lists become
    tuples, and else no type another.
    """
    try:
        return _make_form(form).validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        raise readers.Unfit(f"{place}: {readers.first_complaint(error)}") from None
