"""The answer over several hosts in a sentence or two: what is shown, and of what nothing can be.
Pure.
"""

from collections.abc import Sequence

from dballoc.analysis.decisions.verdict import Verdict
from dballoc.analysis.hosts.host_pool import HostPool
from dballoc.analysis.hosts.verdicts_over_hosts import FigureOverHosts
from dballoc.analysis.statistics.mean_over_hosts import FEWEST_HOSTS
from dballoc.numbers import count, listing
from dballoc.report.wording.ratios_as_text import format_ratio

_NO_OWN_VERDICT = (
    "Each host's own figures are below, without a verdict: no campaign has reached its first "
    "interim analysis."
)


def compose_headline(pool: HostPool, figures: Sequence[FigureOverHosts]) -> str:
    """Return the answer: what is shown over the hosts, and no more."""
    hosts = len(pool.hosts)
    if hosts < FEWEST_HOSTS:
        verdicts = {v for figure in figures for f in figure.figures for v in f.verdicts}
        has_own = not verdicts <= {Verdict.NOT_JUDGED}
        return f"{count(hosts, 'host')}: no verdict for all hosts, which takes {FEWEST_HOSTS}. " + (
            "Each host's own verdicts are below." if has_own else _NO_OWN_VERDICT
        )
    questions = [figure for figure in figures if figure.is_judged]
    judged = [figure for figure in questions if not figure.no_verdict]
    unjudged = [figure for figure in questions if figure.no_verdict]
    sentences = [_tell_shown(judged, pool)] if judged else []
    if unjudged:
        sentences.append(f"No verdict on {_list_reasons(unjudged)}.")
    return " ".join(sentences) or f"{count(hosts, 'host')}: nothing that is judged is on all."


def _tell_shown(judged: Sequence[FigureOverHosts], pool: HostPool) -> str:
    """Return what is shown of figures with a verdict; how many hosts it is over once, where that is
    the same for all.
    """
    shown = [f for f in judged if f.verdict in (Verdict.HIGHER, Verdict.LOWER)]
    numbers = {len(figure.figures) for figure in shown or judged}
    places = [_count_hosts(number, pool) for number in sorted(numbers)]
    where = f"Over {places[0] if len(places) == 1 else f'{places[0]} or more'}"
    if not shown:
        return f"{where} no variant is shown to differ from {pool.baseline} in what was judged."
    differences: dict[str, list[str]] = {}
    for figure in shown:
        assert figure.mean
        over = f", {_count_hosts(len(figure.figures), pool)}" if len(places) > 1 else ""
        differences.setdefault(figure.variant, []).append(
            f"{figure.metric.title} {figure.verdict.value} "
            f"({format_ratio(figure.mean.estimate)}{over})"
        )
    parts = [f"{variant}: {listing(words)}" for variant, words in differences.items()]
    return f"{where}, against {pool.baseline}: {'; '.join(parts)}."


def _count_hosts(number: int, pool: HostPool) -> str:
    """Return ``5 hosts``, or ``4 of 5 hosts``."""
    total = count(len(pool.hosts), "host")
    return total if number == len(pool.hosts) else f"{number} of {total}"


def _list_reasons(unjudged: Sequence[FigureOverHosts]) -> str:
    """Return the figures without a verdict, variant by variant, with the reason of each."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for figure in unjudged:
        by_reason.setdefault((figure.variant, figure.no_verdict), []).append(figure.metric.title)
    return "; ".join(
        f"{variant}, {listing(titles)}: {reason}" for (variant, reason), titles in by_reason.items()
    )
