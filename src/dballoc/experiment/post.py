"""What a published post states of its set-up, as data: the table ``[post]`` of an experiment that
repeats the post. It decides nothing of a campaign; reports compare it with what ran
(:mod:`dballoc.analysis.published.setup.post_differences`).
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dballoc.experiment.quantity_fields import Duration, Size

Topic = Literal[
    "machine",
    "allocator",
    "server",
    "options",
    "load",
    "sequence",
    "CPUs",
    "memory",
    "THP",
    "data",
    "time",
    "statements",
    "transport",
    "warm-up",
]

# When a server is started anew, as sentences that a post's author would agree with.
ONE_START = "one start for all workloads and levels"
START_PER_WORKLOAD = "a start for each workload, its levels back to back"
START_PER_LEVEL = "a start for each workload and level"
Starts = Literal[
    "one start for all workloads and levels",
    "a start for each workload, its levels back to back",
    "a start for each workload and level",
]

# When sysbench's tables are filled.
FILLED_IN_START = "in each start, before its levels"
FILLED_BEFORE = "once, and copied for each start"
Filling = Literal["in each start, before its levels", "once, and copied for each start"]

# The keys of ``[post]`` whose values only a closed list allows.
CLOSED_KEYS = ("connect", "client_host", "sequence", "load", "thp", "tables_filled")

_Count = Annotated[int, Field(ge=1, le=100_000)]
# A setting as people write it in TOML: text, switch or number.
_Setting = str | bool | int | Annotated[float, Field(allow_inf_nan=False)]
_Settings = dict[str, _Setting]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PostCpus(_Table):
    """Logical CPUs: of ``server`` and ``client`` apart, or ``count`` for both; several counts where
    the post has measured on each. ``most_server``, ``most_client``, ``most_count``: how many they
    are at most, where the post states no number. Cores, where the post counts these:
    ``server_cores``, ``client_cores``, ``cores`` for both. ``words``: what is printed in place of
    these numbers.
    """

    server: _Count | None = None
    client: _Count | None = None
    count: _Count | Annotated[list[_Count], Field(min_length=1, max_length=100)] | None = None
    most_server: _Count | None = None
    most_client: _Count | None = None
    most_count: _Count | None = None
    server_cores: _Count | None = None
    client_cores: _Count | None = None
    cores: _Count | None = None
    words: str | None = None

    @model_validator(mode="after")
    def _check_one_way(self) -> Self:
        together = (self.count, self.most_count, self.cores)
        server = (self.server, self.most_server, self.server_cores)
        client = (self.client, self.most_client, self.client_cores)
        if any(together) and any(server + client):
            raise ValueError("give either count or server and client, not both")
        if any(number and most for number, most, _ in (together, server, client)):
            raise ValueError("give either how many CPUs a side has or how many at most, not both")
        return self


class PostOtherwise(_Table):
    """A difference that nothing here could compare: what the post had, and what the run has."""

    post: str
    run: str


class PostProfile(_Table):
    """Under which workload, with how many clients, the post profiled, and for what: for what
    threads wait for (``contention``), or who holds memory (``heap``).
    """

    workload: str
    threads: _Count
    profile: Literal["contention", "heap"] | None = None


class PostLoad(_Table):
    """What queried the post's server, ``driver``: ``NAME VERSION``, and how.
    ``prepared_statements``: true and ``"auto"`` mean that statements are prepared in the server,
    false and ``"disable"`` that they go as text; ``report_interval`` in seconds; ``events``: after
    how many a level ends, 0 where time alone ends it.
    """

    driver: str | None = None
    random: Literal["uniform", "gaussian", "special", "pareto", "zipfian"] | None = None
    prepared_statements: bool | Literal["auto", "disable"] | None = None
    percentile: Annotated[int, Field(ge=1, le=99)] | None = None
    report_interval: Annotated[int, Field(ge=0, le=86_400)] | None = None
    events: Annotated[int, Field(ge=0, le=10**12)] | None = None


class Post(_Table):
    """What the post states, and nothing that it does not: a key left out was not stated.

    ``source``: who and when; ``machine``: in words. ``server``: ``NAME VERSION``. ``options``: of
    the server, of which ``options_complete`` says whether the post states all that were set;
    ``load_options``: of sysbench's script. ``threads``: all levels; ``most_threads``: the highest,
    where only that is stated. ``warmup``: in order, ``a scan of every table``, ``WORKLOAD by 8
    clients for DURATION`` or ``settling for DURATION``. ``load_clients``: how many clients fill the
    tables. ``binary_logs_removed``: when, in words. ``profile_at``: where the post profiled.
    ``statements``: ``WORKLOAD: 10 point selects, 1 simple range of 100, …`` is compared with what
    the workload holds, any other words are printed beside it. ``runs``: of each variant.

    ``variants``: of a variant's name, what the post ran, ``NAME VERSION, SETTING=VALUE, THP MODE``,
    and remarks in brackets, which are not compared; a name that is no variant is of an allocator
    that only the post has run. ``otherwise``: of a topic, differences by hand, by what differs.
    ``reasons``: of a topic, why the run cannot be as the post.
    """

    source: str | None = None
    machine: str | None = None
    cpus: PostCpus | None = None
    memory: Size | None = None
    server: str | None = None
    connect: Literal["socket", "tcp", "named pipe"] | None = None
    client_host: Literal["another", "same"] | None = None
    thp: Literal["always", "madvise", "never"] | None = None
    sequence: Starts | None = None
    binary_logs_removed: str | None = None
    options: _Settings | None = None
    options_complete: bool = True
    load: PostLoad = PostLoad()
    load_options: _Settings | None = None
    tables: Annotated[int, Field(ge=1, le=100_000)] | None = None
    rows: Annotated[int, Field(ge=1, le=10**12)] | None = None
    tables_filled: Filling | None = None
    load_clients: _Count | None = None
    workloads: Annotated[list[str], Field(max_length=1000)] | None = None
    statements: Annotated[list[str], Field(max_length=1000)] = []
    threads: Annotated[list[_Count], Field(max_length=1000)] | None = None
    most_threads: _Count | None = None
    profile_at: PostProfile | None = None
    warmup: Annotated[list[str], Field(max_length=1000)] | None = None
    level: Duration | None = None
    idle: Duration | None = None
    runs: _Count | None = None
    variants: dict[str, str] = {}
    otherwise: dict[Topic, dict[str, PostOtherwise]] = {}
    reasons: dict[Topic, str] = {}
