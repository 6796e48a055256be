"""A post's collapse and CPUs beside ours, as one sentence each. Pure."""

import math
from collections.abc import Sequence

from dballoc.analysis.published.collapse_seen import CollapseHere, Outcome, VariantShares
from dballoc.experiment.post import PostCpus
from dballoc.numbers import listing, percent

_VERDICTS = {
    Outcome.SEEN: "is seen here",
    Outcome.ABSENT: "is not seen here",
    Outcome.SHARED: "cannot be told from another cause here, as others fall too",
    Outcome.NOT_MEASURED: "was not looked for with enough clients",
}


def describe_collapse(collapses: Sequence[CollapseHere]) -> str:
    """Return the sentence: whether the collapse is seen here, and throughput with most clients ÷
    best of both; empty for a post without a collapse.
    """
    if not collapses:
        return ""
    workloads: dict[Outcome, list[str]] = {}
    for collapse in collapses:
        workloads.setdefault(collapse.outcome, []).append(collapse.workload)
    if set(workloads) == {Outcome.NOT_MEASURED}:
        few = listing([f"{c.workload} with {_format_clients(c.needed)}" for c in collapses])
        return f"Whether the post's collapse is seen here was not measured: it takes {few}."
    if len(workloads) == 1:
        verdict = _VERDICTS[collapses[0].outcome]
    else:
        verdict = "; ".join(
            f"in {listing(names)} it {_VERDICTS[outcome]}" for outcome, names in workloads.items()
        )
    measured = [c for c in collapses if c.baseline.measured]
    shares = "; ".join(map(_describe_shares, measured))
    noise = " With one block this may be noise." if min(c.blocks for c in measured) < 2 else ""
    colon = "" if len(workloads) == 1 else ":"
    return f"The post's collapse under many clients{colon} {verdict}: {shares}.{noise}"


def _describe_shares(collapse: CollapseHere) -> str:
    """Return ``of its best oltp_read_only throughput nt-heap keeps 93 % with 576 clients (the post:
    11 % with 1,024), segment-heap 95 % (the post: 82 %)``.
    """
    baseline = collapse.baseline
    assert baseline.measured
    post = f"{percent(baseline.published.share, 0)} with {baseline.published.threads:,}"
    return "".join(
        [
            f"of its best {collapse.workload} throughput {baseline.variant} keeps "
            f"{percent(baseline.measured.share, 0)} with "
            f"{_format_clients(baseline.measured.threads)} (the post: {post})",
            *(_describe_other(other) for other in collapse.others if other.measured),
        ]
    )


def _describe_other(other: VariantShares) -> str:
    assert other.measured
    published = percent(other.published.share, 0)
    return f", {other.variant} {percent(other.measured.share, 0)} (the post: {published})"


def _format_clients(number: int) -> str:
    return f"{number:,} client{'' if number == 1 else 's'}"


def describe_published_cpus(
    published: int, stated: PostCpus | None, machine_cpus: Sequence[int]
) -> str:
    """Return the sentence; empty where no machine surely has fewer or more. ``published``: the
    CPUs of the post's figures; ``stated``: what the experiment's post says of them;
    ``machine_cpus``: those of each machine that ran trials.
    """
    least, most = _find_bounds(published, stated)
    has_fewer, has_more = any(n < least for n in machine_cpus), any(n > most for n in machine_cpus)
    if not has_fewer and not has_more:
        return ""
    words = stated.words if stated is not None else None
    numbers = listing([str(number) for number in sorted(set(machine_cpus))])
    by_host = " (by host)" if len(set(machine_cpus)) > 1 else ""
    if has_fewer and has_more:
        change = "more or less contention, and more or fewer arenas"
    else:
        change = f"{'less' if has_fewer else 'more'} contention, and "
        change += f"{'fewer' if has_fewer else 'more'} arenas"
    return (
        f"{words or f'{published} CPUs'} there, {numbers} here{by_host}: {change} where their "
        "number depends on the CPUs."
    )


def _find_bounds(published: int, stated: PostCpus | None) -> tuple[float, float]:
    """Return how many CPUs the post's machine has at least and at most. Words are of CPUs whose
    number is not stated: only fewer than those of the figures are surely fewer, and only more than
    are stated as the most are surely more.
    """
    if stated is None or not stated.words:
        return published, published
    server = stated.server or stated.most_server
    client = stated.client or stated.most_client
    together = stated.most_count or (server and client and server + client)
    return published, together or math.inf
