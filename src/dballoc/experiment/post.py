"""What a published post states of its set-up, as data: the table ``[post]`` of an experiment that
repeats the post. It decides nothing of a campaign; reports compare it with what ran
(:mod:`dballoc.questions.published.setup.post_differences`).
"""

import difflib
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from dballoc.experiment.quantity_fields import Size

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

# Settings that a post states in the words in which a report tells the run's, by topic and item.
_STATES = frozenset(
    {
        "load, clients",
        "load, most clients",
        "load, profiled at",
        "load, profiled for",
        "load, driver",
        "load, random numbers",
        "load, statements are",
        "load, sysbench's option percentile",
        "load, report interval",
        "load, events of a level",
        "sequence",
        "sequence, repeats",
        "sequence, binary logs are removed",
        "data, tables",
        "data, rows of a table",
        "data, tables are filled",
        "data, clients that fill them",
        "time, a level",
        "time, idle after the load",
        "transport",
        "transport, client on",
    }
)

# The keys of ``[post]`` that are the same in redacted results: settings in words that name nobody.
CLOSED_KEYS = ("thp", "states")

_Count = Annotated[int, Field(ge=1, le=100_000)]
# A setting as people write it in TOML: text, switch or number.
_Setting = str | bool | int | Annotated[float, Field(allow_inf_nan=False)]
_Settings = dict[str, _Setting]


class _PostTable(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PostCpus(_PostTable):
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


class PostOtherwise(_PostTable):
    """A difference that nothing here could compare: what the post had, and what the run has."""

    post: str
    run: str


class Post(_PostTable):
    """What the post states, and nothing that it does not: a key left out was not stated.

    ``source``: who and when; ``machine``: in words. ``server``: ``NAME VERSION``. ``options``: of
    the server; ``options_complete``: whether the post states all that were set; ``load_options``:
    of sysbench's script. ``warmup``: in order, ``a scan of every table``, ``WORKLOAD by 8 clients
    for DURATION`` or ``settling for DURATION``. ``statements``: ``WORKLOAD: 10 point selects, 1
    simple range of 100, …`` is compared with what the workload holds, any other words are printed
    beside it. ``states``: single settings, ``TOPIC, ITEM``, in the words in which a report tells
    the run's.

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
    thp: Literal["always", "madvise", "never"] | None = None
    options: _Settings | None = None
    options_complete: bool = True
    load_options: _Settings | None = None
    workloads: Annotated[list[str], Field(max_length=1000)] | None = None
    statements: Annotated[list[str], Field(max_length=1000)] = []
    warmup: Annotated[list[str], Field(max_length=1000)] | None = None
    states: dict[str, str] = {}
    variants: dict[str, str] = {}
    otherwise: dict[Topic, dict[str, PostOtherwise]] = {}
    reasons: dict[Topic, str] = {}

    @field_validator("states")
    @classmethod
    def _check_states(cls, states: dict[str, str]) -> dict[str, str]:
        for name in states.keys() - _STATES:
            [near] = difflib.get_close_matches(name[:100], sorted(_STATES), 1, 0)
            raise ValueError(f'unknown setting {name[:100]!r}; did you mean "{near}"?')
        return states
