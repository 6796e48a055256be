"""Judge the variants of several hosts' campaigns as one question: the mean over hosts with its
interval and verdict, beside each host's own figure. Pure.

The family is a campaign's: memory's and speed's shares of the 5 % over its variants and workloads,
all spent at once, for there is one look. All completed blocks of each host are used, also those
after the look at which its own campaign is judged.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions.comparability import pair_campaigns
from dballoc.analysis.decisions.sequential_test import declare_replay_shares, declare_shares
from dballoc.analysis.decisions.verdict import Verdict, judge_interval
from dballoc.analysis.hosts.host_pool import Host, HostPool
from dballoc.analysis.statistics.mean_over_hosts import (
    FEWEST_HOSTS,
    MeanOverHosts,
    compute_mean_over_hosts,
)
from dballoc.analysis.statistics.ratio_interval import Ratio, compute_ratio
from dballoc.analysis.tables.baseline_comparison import (
    DESCRIPTIVE_CONFIDENCE,
    Comparisons,
    Metric,
    collect_logs,
    compare_with_baseline,
    count_faults,
    list_metrics,
)


@dataclass(frozen=True, kw_only=True)
class HostFigure:
    """A variant ÷ baseline on one host, with that host's plain 95 % interval. ``verdicts``: those
    of its own campaigns.
    """

    host: Host
    ratio: Ratio
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, kw_only=True)
class FigureOverHosts:
    """A variant in one metric over hosts. ``mean`` is None below two hosts; ``is_judged``: whether
    the metric has a verdict at all; ``faults``: (trials with a fault, trials) by the host's name;
    ``kinds``: the mean of each kind of hosts, where there are several and that one has two hosts.
    """

    variant: str
    metric: Metric
    figures: tuple[HostFigure, ...]
    mean: MeanOverHosts | None
    is_judged: bool
    faults: dict[str, tuple[int, int]]
    kinds: dict[str, MeanOverHosts]

    @property
    def no_verdict(self) -> str:
        """Why there is no verdict; empty if there is one."""
        if self.faults:
            names = ", ".join(f"{k} of {n} on {host}" for host, (k, n) in self.faults.items())
            return f"trials ended in a fault: {names}"
        if len(self.figures) < FEWEST_HOSTS:
            return f"{len(self.figures)} hosts have it, and a verdict for all takes {FEWEST_HOSTS}"
        return "" if self.is_judged else "descriptive"

    @property
    def verdict(self) -> Verdict:
        """The verdict by the interval; not judged where there is none."""
        if self.no_verdict or self.mean is None:
            return Verdict.NOT_JUDGED
        return judge_interval(self.mean)

    @property
    def higher_on(self) -> tuple[str, ...]:
        """The hosts whose own interval lies wholly above 1."""
        return tuple(f.host.name for f in self.figures if f.ratio.low > 1)

    @property
    def lower_on(self) -> tuple[str, ...]:
        """The hosts whose own interval lies wholly below 1."""
        return tuple(f.host.name for f in self.figures if f.ratio.high < 1)


def judge_over_hosts(pool: HostPool) -> list[FigureOverHosts]:
    """Return the figures of all variants but the baseline, metric by metric."""
    errors = _declare_errors(pool)
    host_comparisons = {
        host: [compare_with_baseline(c) for c in host.campaigns] for host in pool.hosts
    }
    judged: list[FigureOverHosts] = []
    others = [name for name in pool.variants if name != pool.baseline]
    for metric in list_metrics(pool.first):
        by_host = {host: _collect_host_logs(pool, host, metric) for host in pool.hosts}
        for variant in others:
            logs = {host: of[variant] for host, of in by_host.items() if of.get(variant)}
            error = errors.get(metric.measure)
            judged.append(_judge_variant(variant, metric, logs, error, host_comparisons))
    return judged


def _judge_variant(
    variant: str,
    metric: Metric,
    logs: dict[Host, list[float]],
    error: float | None,
    host_comparisons: dict[Host, list[Comparisons]],
) -> FigureOverHosts:
    confidence = DESCRIPTIVE_CONFIDENCE if error is None else 1 - error
    kinds: dict[str, list[Sequence[float]]] = {}
    for host, of_host in logs.items():
        kinds.setdefault(host.kind, []).append(of_host)
    return FigureOverHosts(
        variant=variant,
        metric=metric,
        figures=tuple(
            HostFigure(
                host=host,
                ratio=compute_ratio(of_host, DESCRIPTIVE_CONFIDENCE),
                verdicts=tuple(_find_verdict(c, variant, metric) for c in host_comparisons[host]),
            )
            for host, of_host in logs.items()
        ),
        mean=compute_mean_over_hosts(list(logs.values()), confidence) if len(logs) > 1 else None,
        is_judged=error is not None,
        faults=_count_faults(variant, host_comparisons),
        kinds={
            kind: compute_mean_over_hosts(of_kind, DESCRIPTIVE_CONFIDENCE)
            for kind, of_kind in kinds.items()
            if len(kinds) > 1 and len(of_kind) > 1
        },
    )


def _find_verdict(comparisons: Comparisons, variant: str, metric: Metric) -> Verdict:
    try:
        return comparisons.find(variant, metric).verdict
    except KeyError:
        return Verdict.NOT_JUDGED


def _declare_errors(pool: HostPool) -> dict[str, float]:
    """Return what one comparison may err, by measure; one that is not there has no verdict."""
    first = pool.first
    variants, workloads = len(pool.variants), len(first.experiment.workloads)
    shares = (
        declare_replay_shares(variants, workloads, judges_memory=first.has_whole_heap)
        if first.is_replay
        else declare_shares(first.designs, variants, workloads)
    )
    return {measure: share.of_each for measure, share in shares.items()}


def _collect_host_logs(pool: HostPool, host: Host, metric: Metric) -> dict[str, list[float]]:
    """Return the blocks' ln ratios of all campaigns of a host that can be compared in a metric."""
    logs: dict[str, list[float]] = {}
    for campaign in host.campaigns:
        if not _is_comparable(pool.first, campaign, metric):
            continue
        for variant, values in collect_logs(campaign, metric).items():
            logs.setdefault(variant, []).extend(values)
    return logs


def _is_comparable(first: Campaign, other: Campaign, metric: Metric) -> bool:
    if other is first:
        return True
    if metric not in list_metrics(other):
        return False
    pairing = pair_campaigns(first, other)
    if metric.design == "duet":
        return not pairing.no_duet
    if metric.workload is not None:
        return not pairing.no_speed
    return not (pairing.no_memory if metric.question == "memory" else pairing.no_idle)


def _count_faults(variant: str, hosts: Iterable[Host]) -> dict[str, tuple[int, int]]:
    faults = {}
    for host in hosts:
        counts = [count_faults(campaign).get(variant, (0, 0)) for campaign in host.campaigns]
        if failed := sum(k for k, _ in counts):
            faults[host.name] = failed, sum(n for _, n in counts)
    return faults
