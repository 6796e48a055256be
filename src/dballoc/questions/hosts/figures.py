"""Judge the variants of several hosts' campaigns as one question: the mean over hosts with its
interval and verdict, beside each host's own figure. Pure.

The family is a campaign's: memory's and speed's shares of the 5 % over its variants and workloads,
all spent at once, for there is one look. All completed blocks of each host are used, also those
after the look at which its own campaign is judged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dballoc.ground.numbers import count
from dballoc.questions.compare.baseline_comparison import (
    Comparisons,
    collect_logs,
    compare_with_baseline,
    list_metrics,
)
from dballoc.questions.compare.measures import Metric
from dballoc.questions.compare.procedure import declare_shares
from dballoc.questions.compare.verdict import Verdict, judge_ratio
from dballoc.questions.hosts.host_pool import HostPool, PooledHost
from dballoc.questions.statistics.mean_over_hosts import (
    FEWEST_HOSTS,
    MeanOverHosts,
    compute_mean_over_hosts,
)
from dballoc.questions.statistics.ratio_interval import DESCRIPTIVE_CONFIDENCE, Ratio, compute_ratio

# (trials with a fault, trials) by the host's name.
Faults = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class HostFigure:
    """A variant ÷ baseline on one host, with that host's plain 95 % interval. ``among_all``: with
    one that shares the 5 % with those of the other hosts (Bonferroni). ``verdicts``: those of its
    own campaigns.
    """

    host: PooledHost
    ratio: Ratio
    among_all: Ratio
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, kw_only=True)
class FigureOverHosts:
    """A variant in one metric over hosts. ``mean`` is None below two hosts; ``is_judged``: whether
    the metric has a verdict at all; ``faults``: the variant's; ``lacking``: why a host has no
    figure, by its name; ``kinds``: the mean over each kind of hosts, where there
    are several, with a plain 95 % interval; of a kind with one host, that host's own figure.
    """

    variant: str
    metric: Metric
    figures: tuple[HostFigure, ...]
    mean: MeanOverHosts | None
    is_judged: bool
    faults: Faults
    baseline_faults: Faults
    lacking: Mapping[str, str]
    kinds: Mapping[str, MeanOverHosts]

    @property
    def no_verdict(self) -> str:
        """Why there is no verdict; empty if there is one."""
        if self.faults:
            names = ", ".join(f"{k} of {n} on {host}" for host, (k, n) in self.faults.items())
            return f"trials ended in a fault: {names}"
        if len(self.figures) < FEWEST_HOSTS:
            hosts = count(len(self.figures), "host has", "hosts have")
            return f"{hosts} it, and a verdict for all takes {FEWEST_HOSTS}"
        return "" if self.is_judged else "descriptive"

    @property
    def verdict(self) -> Verdict:
        """The verdict by the interval; not judged where there is none."""
        if self.no_verdict or self.mean is None:
            return Verdict.NOT_JUDGED
        return judge_ratio(self.mean)

    @property
    def higher_on(self) -> tuple[str, ...]:
        """The hosts that are shown to be above 1; for all hosts together this errs in 5 %."""
        return tuple(
            f.host.name for f in self.figures if judge_ratio(f.among_all) is Verdict.HIGHER
        )

    @property
    def lower_on(self) -> tuple[str, ...]:
        """The hosts that are shown to be below 1, likewise."""
        return tuple(f.host.name for f in self.figures if judge_ratio(f.among_all) is Verdict.LOWER)


def judge_over_hosts(pool: HostPool) -> list[FigureOverHosts]:
    """Return the figures of all variants but the baseline, metric by metric."""
    errors = _declare_errors(pool)
    comparisons = {
        host: [compare_with_baseline(campaign) for campaign in host.campaigns]
        for host in pool.hosts
    }
    faults = {variant: _count_faults(variant, comparisons) for variant in pool.variants}
    judged: list[FigureOverHosts] = []
    for metric in list_metrics(pool.first):
        by_host = {host: _collect_host_logs(host, metric) for host in pool.hosts}
        for variant in pool.variants:
            if variant == pool.baseline:
                continue
            logs = {host: of_host.get(variant, []) for host, of_host in by_host.items()}
            present = {host: of_host for host, of_host in logs.items() if of_host}
            error = errors.get(metric.measure.name)
            confidence = DESCRIPTIVE_CONFIDENCE if error is None else 1 - error
            judged.append(
                FigureOverHosts(
                    variant=variant,
                    metric=metric,
                    figures=_describe_hosts(variant, metric, present, comparisons),
                    mean=_average(present, confidence),
                    is_judged=error is not None,
                    faults=faults[variant],
                    baseline_faults=faults[pool.baseline],
                    lacking={
                        host.name: _explain_absence(
                            host, metric, {name: faults[name] for name in (pool.baseline, variant)}
                        )
                        for host, of_host in logs.items()
                        if not of_host
                    },
                    kinds=_average_kinds(present),
                )
            )
    return judged


def _average(logs: Mapping[PooledHost, Sequence[float]], confidence: float) -> MeanOverHosts | None:
    return compute_mean_over_hosts(list(logs.values()), confidence) if len(logs) > 1 else None


def _average_kinds(logs: Mapping[PooledHost, Sequence[float]]) -> dict[str, MeanOverHosts]:
    """Return the mean over each kind, in the order of their first hosts; none if all are of one."""
    by_kind: dict[str, list[Sequence[float]]] = {}
    for host, of_host in logs.items():
        by_kind.setdefault(host.kind, []).append(of_host)
    if len(by_kind) < 2:
        return {}
    return {
        kind: compute_mean_over_hosts(of_kind, DESCRIPTIVE_CONFIDENCE, fewest=2)
        if len(of_kind) > 1
        else MeanOverHosts(
            **vars(compute_ratio(of_kind[0])),
            hosts=1,
            between=None,
            next_host=None,
        )
        for kind, of_kind in by_kind.items()
    }


def _describe_hosts(
    variant: str,
    metric: Metric,
    logs: Mapping[PooledHost, Sequence[float]],
    comparisons: Mapping[PooledHost, Sequence[Comparisons]],
) -> tuple[HostFigure, ...]:
    shared = 1 - (1 - DESCRIPTIVE_CONFIDENCE) / max(1, len(logs))
    return tuple(
        HostFigure(
            host=host,
            ratio=compute_ratio(of_host),
            among_all=compute_ratio(of_host, shared),
            verdicts=tuple(_find_verdict(c, variant, metric) for c in comparisons[host]),
        )
        for host, of_host in logs.items()
    )


def _find_verdict(comparisons: Comparisons, variant: str, metric: Metric) -> Verdict:
    try:
        return comparisons.find(variant, metric).verdict
    except KeyError:
        return Verdict.NOT_JUDGED


def _declare_errors(pool: HostPool) -> dict[str, float]:
    """Return what one comparison may err, by measure; one that is not there has no verdict."""
    first = pool.first
    variants = len(pool.variants) + first.facts.compared_elsewhere
    shares = declare_shares(first.judged, variants, len(first.experiment.workloads))
    return {measure: share.of_each for measure, share in shares.items()}


def _collect_host_logs(host: PooledHost, metric: Metric) -> dict[str, list[float]]:
    """Return the blocks' ln ratios of all campaigns of a host that can be pooled in a metric."""
    logs: dict[str, list[float]] = {}
    for results in host.results:
        if not results.obstacles.get(metric):
            for variant, values in collect_logs(results.campaign, metric).items():
                logs.setdefault(variant, []).extend(values)
    return logs


def _count_faults(variant: str, comparisons: Mapping[PooledHost, Sequence[Comparisons]]) -> Faults:
    """Return a variant's faults on the hosts where it has any."""
    faults = {}
    for host, of_host in comparisons.items():
        counts = [c.faulty.get(variant, (0, 0)) for c in of_host]
        if failed := sum(k for k, _ in counts):
            faults[host.name] = failed, sum(n for _, n in counts)
    return faults


def _explain_absence(host: PooledHost, metric: Metric, faults: Mapping[str, Faults]) -> str:
    """Return why a host has no figure. ``faults``: of the baseline and the variant, by name."""
    obstacles = [results.obstacles.get(metric, ()) for results in host.results]
    if all(obstacles):
        return "; ".join(dict.fromkeys(text for reasons in obstacles for text in reasons))
    failed = [
        f"{k} of {n} trials of {name} ended in a fault"
        for name, of_name in faults.items()
        for k, n in [of_name.get(host.name, (0, 0))]
        if k
    ]
    return "; ".join(failed) or "no block has it and the baseline's"
