"""The tables of ``results.sqlite``, each declared by the class of its rows. The schema, the writer,
the hosts' messages and the readers follow from these classes.

Sizes are in bytes, times in seconds, ``t`` in seconds since the trial's start, ``started`` and
``ended`` in seconds since the epoch.
"""

import re
from dataclasses import dataclass, fields
from functools import cache
from types import NoneType
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

_KINDS = {int: "INTEGER", float: "REAL", str: "TEXT"}


@dataclass(frozen=True, kw_only=True)
class StoredColumn:
    """A column. ``kind``: INTEGER, REAL or TEXT; ``choices``: the values that it may have; empty:
    any.
    """

    name: str
    kind: str
    is_optional: bool
    choices: tuple[Any, ...] = ()

    @property
    def sql(self) -> str:
        """The column as CREATE TABLE declares it."""
        choices = ", ".join(map(repr, self.choices))
        check = f" CHECK ({self.name} IN ({choices}))" if choices else ""
        return f"{self.name} {self.kind}{'' if self.is_optional else ' NOT NULL'}{check}"


@dataclass(kw_only=True)
class TableRow:
    """A row of a table. Each field is a column, one with the default None may be NULL, and
    ``Annotated`` lists the values that a column may have. ``KEY``: the columns of the
    table's key; ``NUMBER``: the one before them that has the trial's number, where there is one.
    """

    KEY: ClassVar[tuple[str, ...]] = ()
    NUMBER: ClassVar[tuple[StoredColumn, ...]] = ()

    @classmethod
    @cache
    def list_columns(cls) -> tuple[StoredColumn, ...]:
        """Return the columns of the fields."""
        hints = get_type_hints(cls, include_extras=True)
        return tuple(_make_column(field.name, hints[field.name]) for field in fields(cls))

    @classmethod
    @cache
    def get_table(cls) -> str:
        """Return the table's name: ``step_counter`` for StepCounterRow."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__.removesuffix("Row")).lower()

    @classmethod
    def list_stored(cls) -> tuple[StoredColumn, ...]:
        """Return the columns of the table: those of the fields, after the trial's number."""
        return (*cls.NUMBER, *cls.list_columns())

    @classmethod
    def make_schema(cls) -> str:
        """Return the statement that creates the table."""
        comment = "".join(f"  -- {line.strip()}\n" for line in (cls.__doc__ or "").splitlines())
        columns = ",\n  ".join(column.sql for column in cls.list_stored())
        return f"CREATE TABLE {cls.get_table()} (\n{comment}  {columns},\n  {cls._make_keys()};"

    @classmethod
    def _make_keys(cls) -> str:
        key = ", ".join((*(column.name for column in cls.NUMBER), *cls.KEY))
        return f"PRIMARY KEY ({key})\n) WITHOUT ROWID"


def _make_column(name: str, hint: Any) -> StoredColumn:
    """Return the column of a field: ``str``, ``int | None``, ``Annotated[str, (…)]``."""
    choices = getattr(hint, "__metadata__", ((),))[0]
    types = [part for part in get_args(hint) or (hint,) if isinstance(part, type)]
    kind = next(_KINDS[part] for part in types if part in _KINDS)
    return StoredColumn(name=name, kind=kind, is_optional=NoneType in types, choices=choices)


_NUMBER = StoredColumn(name="trial", kind="INTEGER", is_optional=False)
# One server has the machine; the baseline and a variant run at once; all take turns.
_Design = Annotated[str, ("solo", "duet", "turns")]


@dataclass(kw_only=True)
class CampaignRow(TableRow):
    """A fact of the whole campaign (dballoc.store.facts): a text unchanged, all else as JSON."""

    KEY = ("key",)

    key: str
    value: str


@dataclass(kw_only=True)
class BlockPlace(TableRow):
    """Which attempt at a block."""

    KEY: ClassVar[tuple[str, ...]] = ("design", "block", "attempt")

    design: _Design
    block: int
    attempt: int


@dataclass(kw_only=True)
class VariantRow(TableRow):
    """A variant, resolved on this machine."""

    KEY = ("name",)

    name: str
    allocator: str
    allocator_version: str
    libraries: str  # JSON list of the files preloaded
    environment: str  # JSON: what the server is started with beyond the clean environment
    server: str  # MariaDB 10.11.19
    server_version: str
    engine: str
    command: str  # JSON: argv with placeholders for the paths of a trial
    pool_bytes: int | None = None  # the engine's cache, for peak / pool
    thp: str | None = None  # what was asked for: mode, defrag, sizes; NULL: as the host has it


@dataclass(kw_only=True)
class MeasuredBlock(TableRow):
    """What is measured of an attempt at a block, wherever it runs."""

    started: float
    ended: float
    steal: float  # share of all CPU time
    others: float  # share of all CPU time used by processes that are not ours
    probe_before: float  # seconds of the fixed probe
    probe_after: float
    disturbed: str | None = None  # why it counts as disturbed


@dataclass(kw_only=True)
class BlockRow(MeasuredBlock, BlockPlace):
    """One attempt at a block. A noisy one is followed by the next attempt, which counts instead."""


@dataclass(kw_only=True)
class BlockAheadRow(BlockRow):
    """An attempt at a block that another host finished before the look that comes before it was
    judged (bench --ray). Its row moves to table ``block`` when that is judged, unless it ended the
    design: then the attempt enters no verdict.
    """


@dataclass(kw_only=True)
class HostRow(TableRow):
    """A host of a campaign on several (bench --ray)."""

    KEY = ("host",)

    host: str
    kernel: str  # the boot ID of its kernel: hosts with the same one share their settings
    environment: str  # JSON, as the fact of that name


@dataclass(kw_only=True)
class PlacementRow(BlockPlace):
    """Which host an attempt at a block was given to. One without a row in table ``block`` was cut:
    its host was lost, or dballoc stopped.
    """

    host: str
    client: str | None = None  # the host of its clients; NULL: the same


@dataclass(kw_only=True)
class TrialUnderWayRow(BlockPlace):
    """A trial that a host has under way (bench --ray). Its row goes when the trial is stored or
    given up; one that is left is of a driver that went without a word.
    """

    KEY = ("design", "block", "attempt", "position")

    position: int
    host: str
    kernel: str  # as the host had it then
    started: float


@dataclass(kw_only=True)
class TrialPlace(TableRow):
    """Which trial of a campaign. Those of a duet's or of turns' servers have the same position; the
    baseline's first is A1. The pilot, which sizes the duet, has block 0.
    """

    KEY = ("design", "block", "attempt", "position", "variant", "role")

    design: Annotated[str, ("solo", "duet", "turns", "pilot")]
    block: int
    attempt: int
    position: int
    variant: str
    role: Annotated[str, ("A1", "A2", "V")]
    level: int | None = None  # with levels = "fresh"
    workload: str | None = None  # with sequence = "fresh"
    directory: str


@dataclass(kw_only=True)
class MeasuredTrial(TableRow):
    """What is measured of a trial, wherever it runs."""

    started: float
    ended: float = 0.0
    seconds_planned: float = 0.0  # of it: measuring, warming up or idling on purpose
    outcome: Annotated[str, ("ok", "fault")] = "ok"
    fault: str | None = None  # start, hang, died, oom, client, disk, proof, replication, host lost
    fault_text: str | None = None
    exit_status: int | None = None  # of the server; negative: a signal
    log_tail: str | None = None
    proof: str | None = None  # JSON
    thp: str | None = None  # as achieved
    cpus: str | None = None  # as achieved, of the server
    client_cpus: str | None = None  # the same of its clients, where they ran on this host
    seconds_to_start: float | None = None
    rss_start: int | None = None
    rss_peak: int | None = None
    rss_idle: int | None = None
    server_user: float | None = None  # the server's CPU seconds over its whole life
    server_system: float | None = None


@dataclass(kw_only=True)
class TrialRow(MeasuredTrial, TrialPlace):
    """One server start of one variant."""

    NUMBER = (_NUMBER,)

    @classmethod
    def _make_keys(cls) -> str:
        # SQLite numbers the rows of a table with such a key as they are inserted.
        return f"PRIMARY KEY ({_NUMBER.name}),\n  UNIQUE ({', '.join(cls.KEY)})\n)"


@dataclass(kw_only=True)
class TrialPart(TableRow):
    """A row that belongs to a trial, whose number stands before it in the column ``trial``."""

    NUMBER = (_NUMBER,)


@dataclass(kw_only=True)
class StepRow(TrialPart):
    """A step within a trial. Counters are the server's own, over the window in which the load was
    reported. Latencies are in milliseconds.
    """

    KEY = ("step",)

    step: int
    kind: Annotated[str, ("sql", "warmup", "level", "idle")]
    workload: str | None = None
    threads: int | None = None
    t: float
    seconds: float
    events: int | None = None
    queries: int | None = None
    tps: float | None = None
    qps: float | None = None
    errors: int | None = None
    reconnects: int | None = None
    latency_min: float | None = None  # all latencies in milliseconds
    latency_avg: float | None = None
    latency_max: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    p999: float | None = None
    window: float | None = None  # seconds that the following cover
    window_events: int | None = None
    cpu: float | None = None
    cpu_user: float | None = None
    cpu_system: float | None = None
    voluntary: int | None = None
    involuntary: int | None = None
    written: int | None = None  # bytes sent to storage
    minor_faults: int | None = None
    major_faults: int | None = None
    rss_start: int | None = None
    rss_mean: float | None = None
    rss_peak: int | None = None
    rss_end: int | None = None


@dataclass(kw_only=True)
class SampleRow(TrialPart):
    """What the server used at one moment, about once a second in all steps."""

    KEY = ("t",)

    step: int
    t: float
    rss: int
    vsz: int
    reserved: int  # of vsz: address space that cannot be touched
    swap: int
    cpu: float  # these since the server's start
    cpu_user: float
    cpu_system: float
    minor_faults: int
    major_faults: int
    threads: int
    voluntary: int
    involuntary: int


@dataclass(kw_only=True)
class HostSampleRow(TrialPart):
    """What the whole host did, with every sample of a solo trial: CPU seconds of all its CPUs, and
    context switches, since its boot (/proc/stat).
    """

    KEY = ("t",)

    step: int
    t: float
    user: float  # with nice
    system: float  # with interrupts
    idle: float
    iowait: float
    steal: float
    switches: int
    reschedules: int | None = None  # rescheduling interrupts (/proc/interrupts)


@dataclass(kw_only=True)
class HostStepRow(TrialPart):
    """What the whole host did over a step's window: of a solo trial as the step counts; of a duet
    from the first slice of a workload to the last; of turns with those that warm up.
    """

    KEY = ("step",)

    step: int
    seconds: float | None = None
    own_cpu: float | None = None  # of it, CPU seconds of dballoc's own processes
    user: float
    system: float
    idle: float
    iowait: float
    steal: float
    switches: int


@dataclass(kw_only=True)
class ClientStepRow(TrialPart):
    """What a client on a host of its own did in a step of load (bench --ray with client hosts),
    from its first report to its last.
    """

    KEY = ("step",)

    step: int
    host: str  # the client host
    seconds: float
    cpu: float  # CPU seconds of the client itself
    cpus: int  # CPUs that it could use, by its affinity and its cgroups' quota
    busy: float  # share of the client host's CPU time, steal included
    throttled: float | None = None  # share of the quota's periods in which it was used up
    received: int  # bytes over the interface to the server
    sent: int
    # speed of the slower of both hosts' interfaces, bits a second; NULL: no system tells
    link: int | None = None
    round_trip: float  # seconds of the fastest of some cheap statements, before the load


@dataclass(kw_only=True)
class ClientConnectionRow(TrialPart):
    """Connections that clients made to a trial's server after its start, by its own counts (SHOW
    GLOBAL STATUS), dballoc's own left out. None of a server that had a fault, or that does not
    count this.
    """

    KEY = ()

    tls: str  # the versions of TLS that the server offers; empty: none
    made: int
    encrypted: int


@dataclass(kw_only=True)
class IntervalRow(TrialPart):
    """The load's own report of about a second."""

    KEY = ("t",)

    step: int
    t: float  # its end
    seconds: float
    threads: int
    events: int
    queries: int
    # milliseconds, the percentile of the experiment; none of a client that tells none
    latency: float | None = None
    errors: int
    reconnects: int


@dataclass(kw_only=True)
class HistogramRow(TrialPart):
    """A bucket of a level's latency distribution."""

    KEY = ("step", "ms")

    step: int
    ms: float  # a bucket's upper bound
    count: int


@dataclass(kw_only=True)
class MarkRow(TrialPart):
    """An exact snapshot of memory, at the end of each step and before the first."""

    KEY = ("step",)

    step: int  # 0: after the start
    t: float
    rss: int
    pss: int
    anon_huge: int
    reserved: int
    read_only: int
    mappings: int


@dataclass(kw_only=True)
class LedgerRow(TrialPart):
    """A line of the ledger: where a server's memory was at the end of a solo trial's load, read
    from outside (dballoc explain). The lines add up to RSS; the owner "rest" has the pages that no
    class claims.
    """

    KEY = ("line",)

    line: int
    part: Annotated[str, ("server", "heap", "threads", "files", "rest")]
    owner: str
    resident: int
    size: int


@dataclass(kw_only=True)
class SliceRow(TrialPart):
    """A piece of a slice of a duet's load, a quarter of a second or less; the start of every slice
    is left out. The two servers of a duet swap their halves of the CPUs from each slice of a
    workload to the next.
    """

    KEY = ("workload", "slice", "piece")

    workload: str
    slice: int  # from 0
    piece: int
    half: Annotated[int, (0, 1)]  # 0 or 1: where the server was
    t: float
    seconds: float
    queries: int  # the server's own count
    events: float  # queries over the client's queries per transaction
    cpu: float  # seconds of the server's CPU
    idle: float | None = None  # share of the half's CPU time in which nothing ran there
    steal: float | None = None  # share of it that the hypervisor took; in steps of a clock tick


@dataclass(kw_only=True)
class StepCounterRow(TrialPart):
    """What the CPU and the kernel counted of a server (perf_event_open(2)) in a step of a solo
    trial, over its window; only where the host counts it. Events as perf names them:
    instructions:u, cycles:k, page-faults and so on.
    """

    KEY = ("step", "event")

    step: int
    event: str
    count: int | None = None  # NULL: counted in too little of the time
    running: float  # the share of the server's time in which it was counted


@dataclass(kw_only=True)
class SliceCounterRow(TrialPart):
    """What the CPU and the kernel counted of a server in a piece of a slice."""

    KEY = ("workload", "slice", "piece", "event")

    workload: str
    slice: int
    piece: int
    event: str
    count: int | None = None
    running: float


@dataclass(kw_only=True)
class TurnRow(TrialPart):
    """A turn of a server under the highest level of a workload: it had the machine, while the other
    servers of its rotation were stopped.
    """

    KEY = ("workload", "round")

    workload: str
    round: int  # from 0; each server has a turn in each
    place: int  # from 0: when in the round
    t: float
    seconds: float
    transactions: int  # that its clients ended


@dataclass(kw_only=True)
class ReplicaRow(TrialPart):
    """What a replica did in a step of load on its primary. Its throughput, in table ``step``, is
    what it applied while the load ran.
    """

    KEY = ("step",)

    step: int
    primary_tps: float  # transactions that its primary committed
    behind: int  # transactions that were not applied when the load ended
    lag: float  # seconds: how long ago the primary had been where the replica was then
    waited: float  # seconds until all was applied, or until waiting ended
    left_behind: int  # transactions that were not applied even then


@dataclass(kw_only=True)
class LocalPart(TrialPart):
    """A row that no host sends: of a verb whose trials run on this machine alone."""


@dataclass(kw_only=True)
class ProbeRow(LocalPart):
    """The size of the engine's cache that a trial of ``dballoc fit`` tried."""

    KEY = ()

    asked: int
    pool_bytes: int | None = None  # as the server itself had it; NULL if it was not asked in time


@dataclass(kw_only=True)
class CandidateRow(LocalPart):
    """What a trial of ``dballoc tune`` tried. Its block is the number of the trial in the search;
    the trial's variant is the configuration's name.
    """

    KEY = ()

    stage: Annotated[str, ("replay", "server")]
    base: str  # the variant of the experiment that it changes
    origin: Annotated[str, ("default", "preset", "single", "front", "search", "simpler", "again")]
    parameters: str  # JSON: settings and their values as text


@dataclass(kw_only=True)
class ReplayRow(LocalPart):
    """What ``dballoc replay`` measures of one replay of a trace, beside the trial's and the step's
    columns (there RSS is the heap: the engine's own memory is subtracted). Sizes in bytes.
    """

    KEY = ()

    events: int  # calls of malloc and its family that were replayed
    # in malloc's functions, all threads together, from the calls that were timed
    malloc_seconds: float
    waited: float  # seconds that threads waited for each other, all together
    own_memory: int  # the engine's own, subtracted from all others
    peak_live: int  # the most that was allocated and not freed, as asked for
    end_live: int
    failed: int  # allocations that returned no memory
    lateness: float  # seconds that an event was late at most, where the pace is the recorded one


@dataclass(kw_only=True)
class ReplayPointRow(LocalPart):
    """The heap at a moment of the trace's time."""

    KEY = ("point",)

    point: int  # from 0
    t: float  # seconds since the trace began, in its own time
    heap: int
    live: int


@dataclass(kw_only=True)
class ReplayMarkRow(LocalPart):
    """The heap at a mark of the trace."""

    KEY = ("mark",)

    mark: int  # from 0, as in the fact "replay"
    heap: int
    live: int


@dataclass(kw_only=True)
class ReplayLatencyRow(LocalPart):
    """How long calls took, of a sample of them."""

    KEY = ("operation", "largest")

    operation: str  # malloc, calloc, aligned, realloc, free, free_sized
    largest: int  # bytes: the largest block of the size class; 2^48: no limit
    calls: int
    p50: float | None = None  # ns; none where nothing was sampled
    p99: float | None = None


def _list_tables(cls: type[TableRow]) -> list[type[TableRow]]:
    """Return the classes of tables among a class and those that inherit from it."""
    below = [table for child in cls.__subclasses__() for table in _list_tables(child)]
    return [cls, *below] if cls.__name__.endswith("Row") and cls is not TableRow else below


# By name.
TABLES = {table.get_table(): table for table in _list_tables(TableRow)}
SCHEMA = "\n\n".join(table.make_schema() for table in TABLES.values())
