"""How an experiment runs, or ran: what is compared with the set-up of the post that it repeats.
Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dballoc.experiment.model import Experiment


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
    ``clients_apart``: whether the clients have hosts of their own.
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
    settled_otherwise: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    may_settle_otherwise: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    encryption: Mapping[str, str] = field(default_factory=dict)
    duet: DuetSetup | None = None
