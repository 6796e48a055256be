"""The CPUs of a post's machine beside those of the machines that ran the trials, as one sentence.
Pure.
"""

import math
from collections.abc import Sequence

from dballoc.experiment.post import PostCpus
from dballoc.numbers import listing


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
