"""A variant on each kind of hosts: a mean with a plain 95 % interval, without a verdict. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dballoc.analysis.hosts.group_by_host import Host
from dballoc.analysis.statistics.mean_over_hosts import compute_mean_over_hosts
from dballoc.analysis.statistics.ratio_interval import Ratio, compute_ratio
from dballoc.analysis.tables.baseline_comparison import DESCRIPTIVE_CONFIDENCE


@dataclass(frozen=True, kw_only=True)
class KindFigure:
    """The mean over the ``hosts`` of a kind; of a kind with one host, that host's own figure.
    ``between`` as for :class:`dballoc.analysis.statistics.mean_over_hosts.MeanOverHosts`, None for
    one host.
    """

    kind: str
    hosts: int
    ratio: Ratio
    between: float | None = None


def compute_kinds(logs_by_host: Mapping[Host, Sequence[float]]) -> tuple[KindFigure, ...]:
    """Return the figure of each kind, in the order of their first hosts, from one ln ratio a block
    of each host; none if all hosts are of one kind.
    """
    by_kind: dict[str, list[Sequence[float]]] = {}
    for host, logs in logs_by_host.items():
        by_kind.setdefault(host.kind, []).append(logs)
    if len(by_kind) < 2:
        return ()
    return tuple(_compute_kind(kind, of_kind) for kind, of_kind in by_kind.items())


def _compute_kind(kind: str, logs_by_host: Sequence[Sequence[float]]) -> KindFigure:
    if len(logs_by_host) == 1:
        ratio = compute_ratio(logs_by_host[0], DESCRIPTIVE_CONFIDENCE)
        return KindFigure(kind=kind, hosts=1, ratio=ratio)
    mean = compute_mean_over_hosts(logs_by_host, DESCRIPTIVE_CONFIDENCE, fewest=2)
    return KindFigure(kind=kind, hosts=mean.hosts, ratio=mean, between=mean.between)
