"""What a reader must know beside the figures over several hosts. Pure."""

from collections.abc import Sequence

from dballoc.analysis.decisions.sequential_test import ERROR
from dballoc.analysis.hosts.host_differences import ALLOCATOR_OF
from dballoc.analysis.hosts.host_pool import HostPool
from dballoc.analysis.hosts.verdicts_over_hosts import FigureOverHosts
from dballoc.analysis.statistics.mean_over_hosts import FEWEST_HOSTS
from dballoc.numbers import count, listing, percent

# Figures that a sentence names one by one; of more it says how many.
_MOST_NAMED = 4


def list_notes(pool: HostPool, figures: Sequence[FigureOverHosts]) -> list[str]:
    """Return a sentence or two for each."""
    judged = [figure for figure in figures if figure.is_judged]
    return [
        *_note_signs(judged),
        *_note_absences(figures),
        *_note_baseline_faults(pool, figures),
        *(_note_versions(pool) if judged else []),
        *_note_machines(pool),
        *_note_method(pool, judged),
    ]


def _note_signs(judged: Sequence[FigureOverHosts]) -> list[str]:
    return [
        f"Hosts differ in sign: {figure.variant}, {figure.metric.title}: higher on "
        f"{listing(figure.higher_on)}; lower on {listing(figure.lower_on)}."
        for figure in judged
        if figure.higher_on and figure.lower_on
    ]


def _note_absences(figures: Sequence[FigureOverHosts]) -> list[str]:
    """Say of each host that lacks figures which ones, and why."""
    lacking: dict[tuple[str, str], list[str]] = {}
    for figure in figures:
        for host, reason in figure.lacking.items():
            title = f"{figure.variant}, {figure.metric.title}"
            lacking.setdefault((host, reason), []).append(title)
    return [
        f"{host} has no figure in "
        f"{'; '.join(titles) if len(titles) <= _MOST_NAMED else f'{len(titles)} comparisons'}: "
        f"{reason}."
        for (host, reason), titles in lacking.items()
    ]


def _note_baseline_faults(pool: HostPool, figures: Sequence[FigureOverHosts]) -> list[str]:
    if not figures or not figures[0].baseline_faults:
        return []
    faults = [f"{k} of {n} on {host}" for host, (k, n) in figures[0].baseline_faults.items()]
    return [
        f"Trials of {pool.baseline}, the baseline, ended in a fault: {listing(faults)}. Their "
        "blocks are in no figure of solo runs, and their pairings in none of the duet's."
    ]


def _note_versions(pool: HostPool) -> list[str]:
    """Name allocators whose versions differ: what is shown is then of several versions at once."""
    notes = []
    for title, by_host in pool.differences:
        if title.startswith(ALLOCATOR_OF):
            hosts: dict[str, list[str]] = {}
            for host, version in by_host.items():
                hosts.setdefault(version, []).append(host)
            versions = [f"{version} on {listing(names)}" for version, names in hosts.items()]
            notes.append(f"Versions of the {title} differ: {'; '.join(versions)}.")
    return notes


def _note_machines(pool: HostPool) -> list[str]:
    several = [
        f"{count(len(host.results), 'campaign')} of {host.name} are one host."
        for host in pool.hosts
        if len(host.results) > 1
    ]
    return several + [
        f"{listing(names)} differ in nothing but their name, and no boot ID tells whether they are "
        "one machine, as containers of one would be. If they are, give the results of one alone."
        for names in pool.alike
    ]


def _note_method(pool: HostPool, judged: Sequence[FigureOverHosts]) -> list[str]:
    with_verdict = [figure for figure in judged if not figure.no_verdict]
    if len(pool.hosts) < FEWEST_HOSTS or not with_verdict:
        return []
    return [
        f"Intervals with a verdict: Student's t on {len(pool.hosts) - 1} degrees of freedom "
        "(fewer where a host lacks the figure), every host with the same weight; "
        f"all {count(len(with_verdict), 'comparison')} together err in {percent(ERROR, 0)}.",
        "Between hosts: the standard deviation of the ratio from host to host, without the "
        "scatter of the blocks. Next host: where one further host like these would lie.",
    ]
