"""What the sections of both kinds of profile share."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from dballoc.analysis.campaign_tables import Campaign
from dballoc.document.model import Embed
from dballoc.profile import flamegraph
from dballoc.profile.model import Profile

# Functions whose names do not fit a column.
_LONGEST = 90

Of = TypeVar("Of")


def list_profiled_workloads(
    campaign: Campaign, workloads: Iterable[str], of: Callable[[str], dict[str, Of]]
) -> Iterator[tuple[str, dict[str, Of], str]]:
    """Yield each workload that has profiles, these by variant, and what its titles end with where
    there are several ``workloads``.
    """
    several = len(set(workloads)) > 1
    for workload in campaign.experiment.workloads:
        if by_variant := of(workload):
            yield workload, by_variant, f", {workload}" if several else ""


def shorten_function_name(function: str) -> str:
    """Return a function's name cut to what a table's column holds."""
    return function if len(function) <= _LONGEST else function[: _LONGEST - 1] + "…"


def make_flame_graph(
    key: str, title: str, profiles: Sequence[tuple[str, Profile]], value: str
) -> Embed:
    """Return a flame graph with a switch between the named profiles."""
    return Embed(
        key,
        title,
        flamegraph.render_fragment(profiles, value, title),
        flamegraph.render_page(profiles, value, title),
    )
