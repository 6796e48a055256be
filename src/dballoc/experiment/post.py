"""What a published post states of its set-up, as data: the table ``[post]`` of an experiment that
repeats the post. It decides nothing of a campaign; reports compare it with what ran
(:mod:`dballoc.questions.published.setup.post_differences`).
"""

import difflib
from collections.abc import Iterator
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


# A key of ``[post]`` that is a statement, and the names below it: ``("options", "log_bin")``.
Statement = tuple[str, ...]

# Statements that are one, and those that have a name each.
_SINGLE = ("machine", "cpus", "memory", "server", "thp", "workloads", "statements", "warmup")
_NAMED = ("options", "load_options", "states", "variants", "notes")
# Where these are empty, nothing is stated.
_OPTIONAL = ("statements", "states", "variants", "notes")


class Post(_PostTable):
    """What the post states, and nothing that it does not: a key left out was not stated.

    ``paragraphs``: of every statement, the paragraph of the post that it is from, so that a reader
    finds it: ``Testing details, 3``. The name is that of a key (``options``, for all below it) or
    of one statement (``options.log_bin``, ``states.load, clients``). ``notes``: what the post
    states and nothing of a run can be compared with, ``TOPIC, ITEM``.

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
    notes: dict[str, str] = {}
    paragraphs: dict[str, str] = {}

    def list_statements(self) -> Iterator[Statement]:
        """Yield every statement; a table without entries is one itself (``options = {}``)."""
        for key in (*_SINGLE, *_NAMED):
            value = getattr(self, key)
            if key in _NAMED and value:
                yield from ((key, name) for name in value)
            elif value is not None and (value or key not in _OPTIONAL):
                yield (key,)
        for topic, differences in self.otherwise.items():
            yield from (("otherwise", topic, item) for item in differences)

    def find_paragraph(self, statement: Statement) -> str:
        """Return the paragraph that a statement, or the nearest key above it, is from; empty where
        none is named.
        """
        for end in range(len(statement), 0, -1):
            if paragraph := self.paragraphs.get(".".join(statement[:end])):
                return paragraph
        return ""

    @model_validator(mode="after")
    def _check_paragraphs(self) -> Self:
        statements = list(self.list_statements())
        for statement in statements:
            if not self.find_paragraph(statement):
                raise ValueError(
                    f"paragraphs: none for {'.'.join(statement)[:100]!r}; name the paragraph of "
                    "the post that it is from"
                )
        names = {".".join(s[:end]) for s in statements for end in range(1, len(s) + 1)}
        if unused := self.paragraphs.keys() - names:
            raise ValueError(f"paragraphs: {min(unused)[:100]!r} is no statement of this post")
        return self

    @field_validator("states")
    @classmethod
    def _check_states(cls, states: dict[str, str]) -> dict[str, str]:
        for name in states.keys() - _STATES:
            [near] = difflib.get_close_matches(name[:100], sorted(_STATES), 1, 0)
            raise ValueError(f'unknown setting {name[:100]!r}; did you mean "{near}"?')
        return states
