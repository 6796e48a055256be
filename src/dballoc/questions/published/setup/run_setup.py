"""How an experiment runs, or ran, and one setting of it beside the post's: the form of every
comparison, and its words. Pure.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from dballoc.experiment.model import Experiment
from dballoc.experiment.post import Post, Topic


@dataclass(frozen=True, kw_only=True)
class WorkloadSetup:
    """What a workload is: in words, sysbench's ``script``, its options by their names with ``_``
    (the experiment's among them), whether its statements are prepared in the server, whether it
    ``brings`` tables of its own, and the ``driver`` that runs it, empty where it is not known.
    """

    title: str
    script: str
    options: Mapping[str, str]
    prepared: bool
    brings: bool = False
    driver: str = ""


@dataclass(frozen=True, kw_only=True)
class DuetSetup:
    """How two servers ran at once: the clients of each, and how long a slice of load was."""

    threads: int
    slice_seconds: float


@dataclass(frozen=True, kw_only=True)
class RunSetup:
    """An experiment as it runs. By variant: ``allocators`` and ``servers``, ``NAME VERSION``.
    ``added_options``: what dballoc gives every server beside the experiment's options;
    ``added_environment``: by variant, what it gives its server beside the variant's own settings.
    ``searched``: options whose value is searched for (dballoc fit), whatever the experiment says.
    ``defaults``: of options that dballoc sets, what the server has without them, as far as the
    catalogue knows it. ``workloads``: by name; those of older results are not known. ``blocks``:
    planned, or finished. ``machine``: in words. ``host_cpus``, ``host_memory`` (bytes),
    ``host_thp`` (its mode), ``host_libc`` (``glibc VERSION``): of the machine; empty or None before
    it is known. ``without_thp``: variants whose servers had switched THP off for themselves.
    ``host_cores``: the logical CPUs of each core; nothing where they are not known.
    ``clients_apart``: whether the clients have hosts of their own. ``own_clients``: of variants
    whose clients are to have cores of their own, how many CPUs they had, 0: they were beside the
    server; nothing before it ran.
    ``settled_otherwise``: by variant, for each variable that its server does not have which
    settles, the substitute or "". ``may_settle_otherwise``: before it ran, of the variables that
    settle and that not every server has, which servers do not have them, and the substitute or "".
    ``encryption``: by variant, whether its clients' connections were encrypted, where that is
    known. ``duet``: of a campaign in which no server ran alone.
    """

    experiment: Experiment
    allocators: Mapping[str, str]
    servers: Mapping[str, str]
    added_options: Mapping[str, str] = field(default_factory=dict)
    added_environment: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    searched: frozenset[str] = frozenset()
    defaults: Mapping[str, str] = field(default_factory=dict)
    workloads: Mapping[str, WorkloadSetup] = field(default_factory=dict)
    blocks: int | None = None
    machine: str = ""
    host_libc: str = ""
    host_cpus: int | None = None
    host_memory: int | None = None
    host_thp: str | None = None
    without_thp: frozenset[str] = frozenset()
    host_cores: Sequence[frozenset[int]] = ()
    clients_apart: bool = False
    own_clients: Mapping[str, int] = field(default_factory=dict)
    settled_otherwise: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    may_settle_otherwise: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    encryption: Mapping[str, str] = field(default_factory=dict)
    duet: DuetSetup | None = None


NOT_STATED, NOT_SET, NOT_RUN = "not stated", "not set", "not run"
# What a post has of an option that it does not set, where it states all that it sets.
DEFAULT = "not set, so the server's default"


@dataclass(frozen=True, kw_only=True)
class PostComparison:
    """One setting of the post beside the run's. ``item``: which of the topic's, empty where the
    topic is one setting. ``post`` is :data:`NOT_STATED` where the post says nothing of it.
    ``paragraph``: of the post, where it says so.
    """

    topic: Topic
    item: str
    post: str
    run: str
    differs: bool
    paragraph: str = ""


def compare_text(
    topic: Topic,
    item: str,
    stated: str | None,
    actual: str,
    is_same: Callable[[str, str], bool] = str.__eq__,
) -> PostComparison:
    """Compare two texts; what is not ``stated`` does not differ."""
    differs = stated is not None and not is_same(stated, actual)
    return PostComparison(
        topic=topic, item=item, post=stated or NOT_STATED, run=actual, differs=differs
    )


def compare_setting(
    post: Post,
    topic: Topic,
    item: str,
    actual: str,
    is_same: Callable[[str, str], bool] = str.__eq__,
) -> PostComparison:
    """Compare a setting of the run with what the post states of it in words (``post.states``)."""
    stated = post.states.get(", ".join(filter(None, (topic, item))))
    return compare_text(topic, item, stated, actual, is_same)


def sort_by_topic(comparisons: Iterable[PostComparison]) -> list[PostComparison]:
    """Return the comparisons in the order of topics in which a reader asks."""
    order = {topic: number for number, topic in enumerate(get_args(Topic))}
    return sorted(comparisons, key=lambda compared: order[compared.topic])


def join_words(parts: Iterable[object]) -> str:
    """Return the parts in one line."""
    return ", ".join(map(str, parts))
