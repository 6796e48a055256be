"""The model of an experiment, which the file, the flags and the results directory all hold."""

import json
import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from dballoc.experiment.cpu_list import parse_cpus
from dballoc.experiment.designs import Design, DesignChoice, select_designs
from dballoc.experiment.durations_and_sizes import parse_huge_page_size
from dballoc.experiment.flag import BASEDIR_FLAG, ENGINE_FLAG, SERVER_FLAG, Engine, Flag
from dballoc.experiment.post import Post
from dballoc.experiment.quantity_fields import Duration, Size
from dballoc.ground import readers
from dballoc.ground.errors import UsageError


def _check_line(value: str) -> str:
    if readers.one_line(value) != value:
        raise ValueError(f"{readers.shown(value)} has a character that cannot be printed in a line")
    return value


# Printed for the user to paste: names and values of settings, and paths.
Line = Annotated[str, AfterValidator(_check_line)]
# Option and tunable values may be written as TOML numbers; servers and allocators read text.
Text = Annotated[
    str,
    BeforeValidator(
        lambda v: (
            str(v).lower() if isinstance(v, bool) else str(v) if isinstance(v, int | float) else v
        )
    ),
    AfterValidator(_check_line),
]
Options = dict[Line, Text]
ThpMode = Literal["always", "madvise", "never"]
# Whether a page fault may wait for the kernel to make a huge page, and whether one size of them is
# used (``inherit``: as the mode says): Documentation/admin-guide/mm/transhuge.rst.
ThpDefrag = Literal["always", "defer", "defer+madvise", "madvise", "never"]
ThpSizeMode = Literal["always", "inherit", "madvise", "never"]
Profiled = Literal["contention", "heap"]
# Which pages of its blocks a replay touches.
TouchMode = Literal["none", "first", "recorded", "all"]
CounterName = Literal["instructions", "cycles", "task-clock", "page-faults", "context-switches"]

# The name of the malloc that the server was built with; the same as naming no allocator.
BUILTIN = "builtin"

# The workload that fills sysbench's tables from nothing. It ends when they are full, so it has no
# time and no warm-up, and what runs after it in the same server start uses the tables it filled.
LOAD = "load"

# The one workload of a replay: a recorded trace.
REPLAY = "replay"

# In ``before``: not a workload, but a wait until the server has done the work left by writes.
SETTLE = "settle"
# The value of ``warmup_sql`` for a scan of each of sysbench's tables.
SCAN = "scan"

# A load's clients are threads of one process; Linux allows 4,194,304 threads in all.
MOST_CLIENTS = 1_000_000

# Seconds at the start of a duet's slice that do not count: usually, and where the pilot finds that
# the swap has no effect; and the fewest that may count. A reading of the counters is off by a
# millisecond or two.
USUAL_DISCARD = 0.1
SHORT_DISCARD = 0.03
SHORTEST_COUNTED = 0.07

# Seconds of a turn. In shorter ones than the shortest, locks cost less than they do in solo: a stop
# undoes the queue that has formed at them (docs/evidence.md, from benchmarks/turns.py).
USUAL_TURN, SHORTEST_TURN = 0.5, 0.25

# Experiments and variants give directories and chart labels their names.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=@-]{0,63}")


def _check_name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(f"{value!r} is not a name; use letters, digits and ._+=@-, 64 at most")
    return value


Name = Annotated[str, AfterValidator(_check_name)]


class _ExperimentTable(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


# How the load reaches the server; tls: TCP, encrypted.
Connect = Literal["socket", "tcp", "tls"]


class Server(_ExperimentTable):
    """Which build runs, and with what options. ``glibc``: the version of the C library to run it
    on; None: the build's own. ``stands_for``: the unavailable server that it replaces.
    """

    use: Annotated[str, SERVER_FLAG] = "mariadb"
    stands_for: str | None = None
    basedir: Annotated[
        str | None,
        BASEDIR_FLAG,
    ] = None
    glibc: str | None = None
    engine: Annotated[Engine, ENGINE_FLAG] = "innodb"
    options: Annotated[
        Options,
        Flag("--option", "NAME=VALUE", "A my.cnf option of the server; may be given again."),
    ] = {}
    init_options: Options = {}
    connect: Annotated[
        Connect, Flag("--connect", None, "How the load reaches the server; tls: TCP, encrypted.")
    ] = "socket"


class ServerOverride(_ExperimentTable):
    """What a variant changes of ``[server]``. A key left out stays as it is; options are merged.

    ``recipe``: how to make the build that ``basedir`` must name; a variant without ``basedir`` is
    refused with this text.
    """

    use: str | None = None
    stands_for: str | None = None
    recipe: str | None = None
    basedir: str | None = None
    glibc: str | None = None
    engine: Engine | None = None
    options: Options = {}
    init_options: Options = {}
    connect: Connect | None = None


# In place of the client's CPUs: cores that the server does not have.
APART = "apart"


def parse_cpu_counts(text: str) -> list[int]:
    """Parse ``--cpus``: ``4``, or ``4,8,16``. Raises UsageError for anything else."""
    words = [word.strip() for word in text.split(",")]
    if not all(re.fullmatch("[0-9]{1,6}", word) and int(word) for word in words):
        raise UsageError(f"--cpus: {text!r} is not a list of numbers; write it like 4,8,16")
    if len({*map(int, words)}) < len(words):
        raise UsageError(f"--cpus: {text!r} has the same number twice")
    return [int(word) for word in words]


class Cpu(_ExperimentTable):
    """CPU sets of server and client, or the number of CPUs for both. ``client`` :data:`APART`: the
    number, or the set, is the server's alone, and the clients have other cores.
    """

    server: Annotated[
        str | None, Flag("--server-cpus", "LIST", 'CPUs of the server, like "0-3".')
    ] = None
    client: Annotated[
        str | None,
        Flag(
            "--client-cpus",
            "LIST|apart",
            'CPUs of the client, like "4-7"; apart: cores without the server, where there are '
            "enough.",
        ),
    ] = None
    count: Annotated[
        Annotated[int, Field(ge=1, le=100_000)] | None,
        Flag(
            "--cpus",
            "N[,N,…]",
            "Number of CPUs for server and client together; of the server with --client-cpus "
            "apart. Of several numbers, every variant runs on each, and is compared with the "
            "baseline on the same.",
            (str, parse_cpu_counts),
        ),
    ] = None

    @field_validator("server", "client")
    @classmethod
    def _check_cpu_list(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and (info.field_name, value) != ("client", APART):
            parse_cpus(value)
        return value

    @model_validator(mode="after")
    def _check_one_way(self) -> Self:
        if self.count is not None and (self.server or self.client_set):
            raise ValueError("give either count or the sets server and client, not both")
        return self

    @property
    def clients_apart(self) -> bool:
        """Whether the clients have cores that the server does not have, where there are enough."""
        return self.client == APART

    @property
    def client_set(self) -> str | None:
        """The list of the clients' CPUs, where the experiment gives one."""
        return None if self.clients_apart else self.client


class Data(_ExperimentTable):
    """The data that every trial starts from: sysbench's tables, a copy of a data directory, or what
    SQL files create. ``load_clients``: how many clients fill the tables in the workload ``load``;
    None: as many as the highest level has.
    """

    tables: Annotated[int, Field(ge=1, le=1000), Flag("--tables", "N", "sysbench tables.")] = 8
    rows: Annotated[int, Field(ge=1, le=10**12), Flag("--rows", "N", "Rows of each table.")] = (
        100_000
    )
    load_clients: Annotated[int, Field(ge=1, le=1000)] | None = None
    directory: Annotated[
        str | None,
        Flag(
            "--data-directory",
            "DIR",
            "A server's data directory to run on copies of, instead of sysbench's tables.",
            (Path, str),
        ),
    ] = None
    sql: Annotated[
        list[str],
        Flag(
            "--data-sql",
            "FILE",
            "A dump or SQL script, .gz too, to make the data; may be given again.",
            (list[Path], lambda paths: [str(path) for path in paths]),
        ),
    ] = []
    database: Annotated[
        str,
        Field(min_length=1, max_length=64, pattern=r"^[^`/\\\x00]*$"),
        Flag("--database", "NAME", "The database that the load uses."),
    ] = "sbtest"

    @property
    def own(self) -> bool:
        """Whether the data are the user's own, not sysbench's tables."""
        return self.directory is not None or bool(self.sql)

    @model_validator(mode="after")
    def _check_one_source(self) -> Self:
        if self.directory is not None and self.sql:
            raise ValueError("give either a directory or sql, not both")
        return self


class UserWorkload(_ExperimentTable):
    """A workload of the user's own: a sysbench script, a file of SQL statements, or another
    workload with other options. ``replica``: it loads the primary of the server that is measured.
    """

    script: str | None = None
    sql: str | None = None
    use: str | None = None
    options: Options = {}
    prepared: Annotated[int, Field(ge=0, le=10**9)] = 0
    writes: bool = False
    replica: bool = False

    @model_validator(mode="after")
    def _check_one_source(self) -> Self:
        if sum(source is not None for source in (self.script, self.sql, self.use)) != 1:
            raise ValueError(
                "give exactly one of script (Lua), sql (a file of statements) and use (a workload "
                "by name)"
            )
        return self


class Load(_ExperimentTable):
    """How sysbench queries. What sysbench leaves to its defaults is set explicitly here.

    ``prepared_statements`` None: as each workload has it; "auto": what sysbench does by itself
    (``--db-ps-mode=auto``), which is to prepare whatever the server can, so the same as true.
    """

    random: Literal["uniform", "gaussian", "special", "pareto"] = "uniform"
    prepared_statements: Annotated[
        bool | Literal["auto"] | None,
        Flag("--prepared/--no-prepared", None, "Server-side prepared statements.", (bool, bool)),
    ] = None
    percentile: Annotated[int, Field(ge=1, le=99)] = 95
    options: Annotated[
        Options,
        Flag(
            "--load-option", "NAME=VALUE", "An option of the sysbench script; may be given again."
        ),
    ] = {}


class Time(_ExperimentTable):
    """How long each step lasts, and how long a server may take to start or stop. ``settle``: of a
    step ``settle`` in ``before``.
    """

    warmup: Annotated[
        Duration, Flag("--warmup", "TIME", "Load before the first level, not measured.")
    ] = 10.0
    settle: Duration = 10.0
    level: Annotated[Duration, Flag("--level", "TIME", "How long each level is measured.")] = 30.0
    idle: Annotated[Duration, Flag("--idle", "TIME", "Rest after the last level.")] = 10.0
    start: Duration = 120.0
    stop: Duration = 120.0

    @field_validator("level")
    @classmethod
    def _check_length(cls, value: float) -> float:
        if value < 2:
            raise ValueError('a level lasts at least "2s": there is one sample a second')
        return value


class Duet(_ExperimentTable):
    """The duet: two servers at once, each with its own client on its own half of the CPUs, swapped
    after every slice.

    ``threads``: clients a side; None: four for each CPU of a half, 64 at most. ``slice`` and
    ``pairs`` (of slices, in each block): None to let a pilot choose. ``discard``: the start of each
    slice that does not count; None: what the pilot chooses, else :data:`USUAL_DISCARD`.
    ``warmup``: before the first slice; None: as ``time.warmup``. ``estimate``: docs/evidence.md.
    """

    threads: Annotated[int, Field(ge=1, le=MOST_CLIENTS)] | None = None
    slice: Duration | None = None
    pairs: Annotated[int, Field(ge=1, le=10**6)] | None = None
    discard: Annotated[Duration, Field(ge=0, le=2)] | None = None
    warmup: Duration | None = None
    estimate: Literal["middle", "paired", "undisturbed"] = "middle"

    @model_validator(mode="after")
    def _check_counted_part(self) -> Self:
        least = USUAL_DISCARD if self.pairs else SHORT_DISCARD
        discard = least if self.discard is None else self.discard
        if self.slice is not None and round(self.slice - discard, 6) < SHORTEST_COUNTED:
            raise ValueError(
                f'slice lasts at least "{SHORTEST_COUNTED * 1000:.0f}ms" longer than discard, '
                f'which is "{discard * 1000:.0f}ms"'
            )
        return self


class Turns(_ExperimentTable):
    """Turns: all servers at once, each with its clients; one at a time has the machine, for
    ``length`` seconds, while the others are stopped. ``rounds``: the turns of each server in a
    block, None for what the block's time allows; ``warmup``: of load for each before its first turn
    that counts; None: as ``time.warmup``.
    """

    length: Annotated[Duration, Field(ge=SHORTEST_TURN, le=5)] = USUAL_TURN
    rounds: Annotated[int, Field(ge=1, le=10**5)] | None = None
    warmup: Duration | None = None


class Replica(_ExperimentTable):
    """How a replica applies: with how many threads (0: one alone; None: as the server's options
    say, else four), and how long a step waits at most for what its load left to be applied.
    """

    workers: Annotated[int, Field(ge=0, le=1024)] | None = None
    catch_up: Duration = 60.0


class CgroupLimits(_ExperimentTable):
    """The memory cgroup that each server runs in."""

    memory: Annotated[
        Size | None,
        Flag("--memory", "SIZE", "Memory limit of each server (a cgroup), like 2G."),
    ] = None


class TraceFile(_ExperimentTable):
    """A trace: its file as it was named, and the ``sha256`` of its contents, which identifies
    it.
    """

    trace: str
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Fit(_ExperimentTable):
    """``dballoc fit``: the first size of the cache that is tried (None: half of ``limits.memory``),
    or the trace from which each malloc's first size is guessed; the distance of the answer from a
    size that is killed (None: a fiftieth of ``limits.memory``), and the trials without a kill until
    a size counts as surviving.
    """

    start: Annotated[
        Size | None,
        Flag("--start", "SIZE", "The first size of the cache; default: half of the memory."),
    ] = None
    guess: TraceFile | None = None
    tolerance: Annotated[
        Annotated[Size, Field(ge=2**20)] | None,
        Flag(
            "--tolerance",
            "SIZE",
            "Search until the answer is this close to a size that gets killed; default: a "
            "fiftieth of the memory.",
        ),
    ] = None
    repeats: Annotated[
        int,
        Field(ge=1, le=1000),
        Flag(
            "--repeats",
            "N",
            "How many trials a size must survive without an OOM kill; default: 2, which show that "
            "at least 22 % of such trials survive (with 95 % confidence); 14 show 80 %, 29 show "
            "90 %.",
        ),
    ] = 2

    @model_validator(mode="after")
    def _check_one_start(self) -> Self:
        if self.start is not None and self.guess is not None:
            raise ValueError("give either start or guess, not both")
        return self


class TraceReplay(TraceFile):
    """``dballoc replay``: the trace; how fast it is replayed (``fast``: as its order allows;
    ``timed``: at ``speed`` times the recorded pace); which pages of a block are touched; the
    ``window``, in seconds of the trace, whose peak heap is judged (None: all of it); ``max_time``:
    what one replay may take (None: fifty times what is expected, a day at most).
    """

    mode: Literal["fast", "timed"] = "fast"
    speed: Annotated[float, Field(gt=0, le=1000)] = 1.0
    touch: TouchMode = "recorded"
    window: tuple[Annotated[float, Field(ge=0)], Annotated[float, Field(ge=0)]] | None = None
    max_time: Annotated[Duration, Field(gt=0, le=30 * 86_400)] | None = None

    @field_validator("window")
    @classmethod
    def _check_window(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and not value[0] < value[1]:
            raise ValueError("it ends before it begins")
        return value


class Tune(_ExperimentTable):
    """``dballoc tune``: ``aim``, as ``--for`` takes it; ``share`` of the budget that the search may
    take, the rest being the confirmation's; how many ``finalists`` there may be in all;
    ``presets``: whether those of the catalogue are tried first; ``space``: values of the server's
    options to be searched too; ``thp``: whether the host's THP mode is, None: where the host lets
    it; ``leave``: settings that are not to be touched; ``trace``: what the search replays before it
    tries any setting on a server; ``replay``: whether it records a trace itself where none is
    given; ``design`` of the confirmation, None: both, or solo where a duet is not possible; its
    ``blocks``, None: as many as the budget has room for.
    """

    aim: Annotated[
        str,
        Field(max_length=200),
        Flag(
            "--for",
            "memory|speed|CONDITION,…",
            "What to improve: memory (the default) or speed, where the other one may cost 3 %; or "
            "with a bound of your own, like 'rss, cpu<=1.01'.",
        ),
    ] = "memory"
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    finalists: Annotated[int, Field(ge=1, le=3)] = 3
    presets: Annotated[
        bool,
        Flag(
            "--presets/--no-presets",
            None,
            "Try the settings that allocators' authors recommend first.",
        ),
    ] = True
    space: dict[str, Annotated[list[Text], Field(min_length=1, max_length=100)]] = {}
    thp: Annotated[
        bool | None,
        Flag(
            "--thp/--no-thp",
            None,
            "Search the host's THP mode too; it is put back at the end. The default where the "
            "host lets it: as root.",
        ),
    ] = None
    leave: Annotated[
        list[str],
        Flag("--leave", "NAME,…", "Settings of the malloc that are not to be touched."),
    ] = []
    design: DesignChoice | None = None
    blocks: Annotated[int, Field(ge=2, le=1000)] | None = None
    trace: TraceReplay | None = None
    replay: Annotated[
        bool,
        Flag(
            "--replay/--no-replay",
            None,
            "Record the first trial, and begin with replays of that, which take seconds; servers "
            "try first what these put forward. The default.",
        ),
    ] = True


class RecordTrace(_ExperimentTable):
    """The allocations of the baseline are recorded in a start of its own; ``limit``: of the raw
    recording's file, bytes.
    """

    limit: Annotated[Size, Field(ge=2**20, le=2**50)] = 512 * 2**20


class Noise(_ExperimentTable):
    """When a block counts as disturbed: shares of all CPU time, and the slow-down of a fixed CPU
    probe.
    """

    steal: Annotated[float, Field(gt=0)] = 0.05
    others: Annotated[float, Field(gt=0)] = 0.10
    probe: Annotated[float, Field(gt=1)] = 1.3
    repeats: Annotated[
        int,
        Field(ge=0, le=1000),
        Flag(
            "--repeat-noisy",
            "N",
            "How often a block that other work disturbed is measured again.",
        ),
    ] = 2


class ProfileAt(_ExperimentTable):
    """Where each variant is profiled: under which workload (None: under each), at which level
    (None: the highest).
    """

    workload: str | None = None
    threads: Annotated[int, Field(ge=1, le=MOST_CLIENTS)] | None = None


def parse_profile_place(text: str) -> dict[str, str | int]:
    """Parse ``WORKLOAD:CLIENTS``, either of which may be missing. Raises UsageError for another
    form.
    """
    workload, colon, clients = text.rpartition(":") if ":" in text else (text, "", "")
    if (colon and not re.fullmatch("[0-9]{1,9}", clients)) or not text:
        raise UsageError(
            f"--profile-at: {text!r} is not of the form [WORKLOAD][:CLIENTS], like "
            "oltp_read_only:512, oltp_read_only or :512"
        )
    return {
        **({"workload": workload} if workload else {}),
        **({"threads": int(clients)} if clients else {}),
    }


class Variant(_ExperimentTable):
    """One column of the tables: an allocator with its settings on a server.

    ``preload`` without ``allocator`` is an allocator by path; with one, libraries that are
    preloaded before it. ``stands_for``: the unavailable allocator that it replaces;
    ``not_settable``: what the original changes and nothing here can, each in words.

    ``thp``, ``thp_defrag``, ``thp_sizes`` (a mode for each size of huge pages): what the host has
    while it runs; what is left out stays as the host has it.
    """

    name: Name
    stands_for: str | None = None
    not_settable: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=50)] = []
    allocator: str | None = None
    preload: list[Line] = []
    env: Options = {}
    tunables: Options = {}
    thp: ThpMode | None = None
    thp_defrag: ThpDefrag | None = None
    thp_sizes: dict[str, ThpSizeMode] = {}
    server: ServerOverride = ServerOverride()
    cpu: Cpu | None = None

    @field_validator("thp_sizes")
    @classmethod
    def _write_sizes_alike(cls, value: dict[str, ThpSizeMode]) -> dict[str, ThpSizeMode]:
        sizes = {parse_huge_page_size(text): mode for text, mode in value.items()}
        if len(sizes) < len(value):
            raise ValueError("the same size twice")
        return sizes

    def describe_but_cpus(self) -> str:
        """Return all that it is beside its name and CPUs, to be compared with other variants."""
        table = self.model_dump(mode="json", exclude={"name", "cpu", "stands_for"})
        return json.dumps(table, sort_keys=True)

    @property
    def host_settings(self) -> dict[str, str]:
        """What the host must have while it runs, by :mod:`dballoc.host.settings`' names."""
        return {
            **({"thp": self.thp} if self.thp else {}),
            **({"thp_defrag": self.thp_defrag} if self.thp_defrag else {}),
            **{f"thp_{size}": mode for size, mode in self.thp_sizes.items()},
        }

    @property
    def wants_huge_pages(self) -> bool:
        """Whether its server must not switch THP off for itself: what it asks of the host would
        have no effect.
        """
        if self.thp in ("always", "madvise"):
            return True
        if any(mode in ("always", "madvise") for mode in self.thp_sizes.values()):
            return True
        return self.thp is None and bool(self.thp_defrag or self.thp_sizes)


# The factor of --scale.
Share = Annotated[float, Field(gt=0, le=1)]
_Levels = Annotated[
    list[Annotated[int, Field(ge=1, le=MOST_CLIENTS)]], Field(min_length=1, max_length=1000)
]


class FullScale(_ExperimentTable):
    """Parts of an experiment as they were before it was made smaller; None: as they are."""

    server: Server | None = None
    cpu: Cpu | None = None
    limits: CgroupLimits | None = None
    time: Time | None = None
    load: Load | None = None
    workload: dict[Name, UserWorkload] | None = None
    profile_at: ProfileAt | None = None
    variant: Annotated[list[Variant], Field(min_length=1, max_length=1000)] | None = None


class Scaled(_ExperimentTable):
    """What the experiment was before ``factor`` made it smaller; see
    :mod:`dballoc.experiment.scale`.

    ``memory``: the largest of its caches. ``cpus``: how it asked for CPUs, in words. ``left_out``:
    variants that this host has too few CPUs for. ``full``: all else that was larger.
    """

    factor: Share
    rows: Annotated[int, Field(ge=0)]
    threads: _Levels
    level: Duration
    memory: Size | None = None
    cpus: str | None = None
    left_out: list[str] = []
    full: FullScale = FullScale()


class Experiment(_ExperimentTable):
    """Everything that decides what a campaign does. ``design`` None: solo, duet and turns, as far
    as the machine can run them.

    ``warm``: workloads that run unmeasured before the first, instead of each workload's own
    warm-up. ``before``: of a workload, what runs unmeasured right before its first level, instead
    of its own warm-up: workloads, and :data:`SETTLE`. ``warmup_sql``: statements before them;
    "scan": a scan of every table; None: that too, unless there is something else to warm the server
    up. ``published``: the published figures of the catalogue that it repeats; ``no_stand_in``: by
    name, what they have that cannot be fetched or replaced here, and why; ``post``: what their post
    states of its set-up, which decides nothing of the campaign. ``profile``: what each variant is
    profiled for, once, after it was measured; ``profile_at``: where (None: under every workload at
    the highest level). ``counters``: what is counted of the server by perf_event_open(2), where the
    host can. ``small``: the factor that ``--scale small`` stands for. ``record``: whether a trace
    of the baseline's allocations is made beside the figures. ``replay``: of dballoc replay alone,
    which has no server: its one workload is :data:`REPLAY`. ``tune``: of dballoc tune alone.
    """

    name: Name = "experiment"
    baseline: str
    workloads: Annotated[
        list[str],
        Field(min_length=1, max_length=1000),
        Flag("--workloads", "W,W,…", "Names from dballoc list workloads, or .lua and .sql files."),
    ]
    threads: Annotated[_Levels, Flag("--threads", "N,N,…", "Client threads, one level each.")]
    levels: Annotated[
        Literal["rising", "fresh"],
        Flag("--levels", None, "All levels in one server start, or a fresh start for each."),
    ] = "rising"
    sequence: Annotated[
        Literal["cycle", "fresh"],
        Flag(
            "--sequence",
            None,
            "All workloads in one server start, or a fresh start and copy of the data for each.",
        ),
    ] = "cycle"
    warm: list[str] = []
    before: dict[str, Annotated[list[str], Field(min_length=1, max_length=100)]] = {}
    design: Annotated[
        DesignChoice | None,
        Flag(
            "--design",
            None,
            "solo: one server at a time, for levels and memory. duet: two at once, swapped, for "
            "the cost of a transaction. turns: all at once, one after the other with the whole "
            "machine, for throughput. both: solo and duet. Default: all three, or those that the "
            "machine can run.",
        ),
    ] = None
    warmup_sql: Literal["scan"] | list[str] | None = None
    blocks: Annotated[
        Annotated[int, Field(ge=1, le=100_000)] | None,
        Flag("--blocks", "N", "Blocks to run: each runs every variant once."),
    ] = None
    budget: Annotated[
        Duration | None, Flag("--budget", "TIME", "Time for the whole campaign, like 20m.")
    ] = None
    seed: Annotated[int, Flag("--seed", "N", "Seed of the order of trials.")] = 1
    published: Name | None = None
    no_stand_in: dict[str, str] = {}
    profile: Annotated[
        Profiled | None,
        Flag(
            "--profile",
            None,
            "Also profile each variant once, outside what is measured. contention: what its "
            "threads wait for. heap: which code holds its memory, and how long its mallocs take. "
            "none: nothing, whatever the experiment says.",
            (Literal["contention", "heap", "none"], str),
        ),
    ] = None
    profile_at: Annotated[
        ProfileAt | None,
        Flag(
            "--profile-at",
            "[WORKLOAD][:CLIENTS]",
            "Profile under this workload and level alone, like oltp_read_only:512; without it, "
            "under every workload at the highest level.",
            (str, parse_profile_place),
        ),
    ] = None
    counters: Annotated[
        list[CounterName],
        Field(max_length=5),
        Flag(
            "--no-counters",
            None,
            "Do not count the server's instructions and cycles, which bench does where the host "
            "can.",
            (bool, lambda _: []),
        ),
    ] = ["instructions", "cycles"]
    small: Share | None = None
    scaled: Scaled | None = None
    server: Server = Server()
    cpu: Cpu = Cpu()
    data: Data = Data()
    load: Load = Load()
    time: Time = Time()
    duet: Duet = Duet()
    turns: Turns = Turns()
    replica: Replica = Replica()
    limits: CgroupLimits = CgroupLimits()
    fit: Fit = Fit()
    noise: Noise = Noise()
    record: RecordTrace | None = None
    replay: TraceReplay | None = None
    tune: Tune | None = None
    workload: dict[Name, UserWorkload] = {}
    post: Post | None = None
    variant: Annotated[list[Variant], Field(min_length=1, max_length=1000)]

    @field_validator("threads", "workloads", "warm", "counters")
    @classmethod
    def _refuse_duplicates(cls, value: list) -> list:
        if len(set(value)) != len(value):
            raise ValueError("the same value twice")
        return value

    @field_validator("warmup_sql", mode="before")
    @classmethod
    def _check_warmup_sql(cls, value: object) -> object:
        statements = isinstance(value, list) and all(isinstance(text, str) for text in value)
        if value is None or value == SCAN or statements:
            return value
        raise ValueError(f'give a list of statements, or "{SCAN}"')

    @field_validator("threads")
    @classmethod
    def _sort_levels(cls, value: list[int]) -> list[int]:
        return sorted(value)

    @model_validator(mode="after")
    def _check_variant_names(self) -> Self:
        names = [v.name for v in self.variant]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two variants are called {name!r}; give each a name of its own")
        if self.baseline not in names:
            raise ValueError(
                f"baseline {self.baseline!r} is not a variant; there are {', '.join(names)}"
            )
        return self

    @model_validator(mode="after")
    def _check_profile_design(self) -> Self:
        if self.profile and Design.SOLO not in self.designs:
            raise ValueError(
                "profile: variants are profiled in solo trials; set design to both, or leave it out"
            )
        return self

    @property
    def designs(self) -> tuple[Design, ...]:
        """The designs that are wished, if the machine can run them."""
        return select_designs(self.design)

    @model_validator(mode="after")
    def _check_profile_place(self) -> Self:
        if self.profile_at is None:
            return self
        if self.profile is None:
            raise ValueError(
                'profile_at: nothing is profiled; say what, like profile = "contention"'
            )
        if self.profiled_level not in self.threads:
            raise ValueError(
                f"profile_at.threads: {self.profiled_level} is not one of the levels, "
                f"{', '.join(map(str, self.threads))}"
            )
        return self

    @model_validator(mode="after")
    def _check_scan(self) -> Self:
        if self.warmup_sql == SCAN and self.data.own:
            raise ValueError(
                f'warmup_sql: "{SCAN}" is a scan of sysbench\'s tables; give the statements for '
                "data of your own"
            )
        return self

    @model_validator(mode="after")
    def _check_load_order(self) -> Self:
        if LOAD in self.warm:
            raise ValueError(f"warm: {LOAD} is not a warm-up; put it first among workloads")
        if LOAD not in self.workloads:
            return self
        if self.data.own:
            raise ValueError(
                f"workloads: {LOAD} fills sysbench's tables; it cannot fill data of your own"
            )
        if self.sequence == "cycle" and self.workloads[0] != LOAD:
            raise ValueError(f"workloads: {LOAD} comes first: the others use the tables it fills")
        return self

    @model_validator(mode="after")
    def _check_before(self) -> Self:
        for workload, names in self.before.items():
            if workload not in self.workloads:
                raise ValueError(f"before: {workload!r} is not among the workloads")
            if LOAD in (workload, *names):
                raise ValueError(f"before: {LOAD} comes first; nothing can run before it")
        if SETTLE in (*self.workloads, *self.warm, *self.workload):
            raise ValueError(f"{SETTLE} is a step of before, not a workload")
        return self

    @property
    def loads(self) -> list[str]:
        """Every workload that runs, measured or not, each once."""
        before = (name for names in self.before.values() for name in names if name != SETTLE)
        return list(dict.fromkeys([*self.workloads, *self.warm, *before]))

    @property
    def settles(self) -> bool:
        """Whether there is a step in which the server settles."""
        return any(SETTLE in names for names in self.before.values())

    @property
    def duet_warmup(self) -> float:
        """The seconds of load before a duet's first slice."""
        return self.time.warmup if self.duet.warmup is None else self.duet.warmup

    @property
    def turns_warmup(self) -> float:
        """The seconds of load that each server has before its first turn that counts."""
        return self.time.warmup if self.turns.warmup is None else self.turns.warmup

    @property
    def profiled_level(self) -> int:
        """The clients under which variants are profiled."""
        named = self.profile_at.threads if self.profile_at else None
        return self.threads[-1] if named is None else named

    def list_profiled(self, workload: str | None) -> list[str]:
        """Return the workloads under which a server start is profiled: of those that it runs, see
        :meth:`runs`.
        """
        wanted = self.profile_at.workload if self.profile_at else None
        return [w for w in self.runs(workload) if w != LOAD and wanted in (None, w)]

    def runs(self, workload: str | None) -> list[str]:
        """Return the workloads of one server start, in their order: that one alone, or all for
        None.
        """
        return self.workloads if workload is None else [workload]

    def find(self, name: str) -> Variant:
        """Return the variant of that name; KeyError if there is none."""
        for variant in self.variant:
            if variant.name == name:
                return variant
        raise KeyError(name)

    def server_of(self, variant: Variant) -> Server:
        """Return ``[server]`` as this variant has it."""
        over = variant.server
        keys = ("use", "basedir", "glibc", "engine", "connect")
        changed = {k: getattr(over, k) for k in keys if getattr(over, k) is not None}
        if "use" in changed and "basedir" not in changed:
            changed["basedir"] = None
        if over.stands_for or "use" in changed or "basedir" in changed:
            changed["stands_for"] = over.stands_for
        return self.server.model_copy(
            update=changed
            | {
                "options": self.server.options | over.options,
                "init_options": self.server.init_options | over.init_options,
            }
        )

    def cpu_of(self, variant: Variant) -> Cpu:
        """Return ``[cpu]`` as this variant has it."""
        return variant.cpu or self.cpu

    def split_by_cpus(self) -> "list[Experiment]":
        """Return a part for each number of CPUs, the lowest first: its variants, of which one is
        the baseline in all but its CPUs, and so that number's baseline. The experiment itself where
        its variants have one number, or a number has no such baseline.
        """
        counts = {v.name: self.cpu_of(v).count for v in self.variant}
        if len({*counts.values()}) < 2:
            return [self]
        baseline = self.find(self.baseline)
        baselines: dict[int | None, str] = {}
        for variant in (baseline, *self.variant):
            if variant.describe_but_cpus() == baseline.describe_but_cpus():
                baselines.setdefault(counts[variant.name], variant.name)
        numbers = {n for n in counts.values() if n is not None}
        if len(numbers) < 2 or set(counts.values()) != numbers or numbers - baselines.keys():
            return [self]
        return [
            self.model_copy(
                update={
                    "baseline": baselines[number],
                    "variant": [v for v in self.variant if counts[v.name] == number],
                }
            )
            for number in sorted(numbers)
        ]

    def count_compared(self) -> int:
        """Return how many variants are compared with a baseline."""
        return len(self.variant) - len(self.split_by_cpus())
