"""The CPUs that servers and their clients had, as they were found while they ran."""

from typing import NamedTuple

import polars as pl

from dballoc.experiment.cpu_list import parse_cpus
from dballoc.questions.compare.campaign_tables import Campaign


class TrialCpus(NamedTuple):
    """The CPUs of a server and of its clients on the same host."""

    server: frozenset[int]
    clients: frozenset[int]


def list_side_cpus(campaign: Campaign, name: str) -> list[TrialCpus]:
    """Return the CPUs of a variant's server and of its clients in its solo trials and turns, each
    pair once; nothing where clients had hosts of their own.
    """
    trials = pl.concat([campaign.trial, campaign.rotation]).filter(
        pl.col("cpus").is_not_null() & pl.col("client_cpus").is_not_null(), variant=name
    )
    pairs = trials.select("cpus", "client_cpus").unique(maintain_order=True)
    return [TrialCpus(*map(parse_cpus, pair)) for pair in pairs.iter_rows()]


def has_own_cpus(campaign: Campaign, name: str) -> bool:
    """Whether a variant's server always had CPUs that its clients did not have."""
    pairs = list_side_cpus(campaign, name)
    return bool(pairs) and not any(pair.server & pair.clients for pair in pairs)
