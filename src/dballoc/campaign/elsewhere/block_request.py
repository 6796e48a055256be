"""What a host is asked for: one attempt at one block, as JSON. It holds no password."""

from typing import Annotated

from pydantic import Field

from dballoc.campaign.elsewhere.client.load_messages import HostRequest
from dballoc.campaign.elsewhere.client.remote_load import ClientPlace
from dballoc.campaign.trial.duet_trial import Slices
from dballoc.campaign.trial.turns_trial import Rounds
from dballoc.experiment import secret_names
from dballoc.experiment.designs import Design
from dballoc.experiment.model import Experiment
from dballoc.store.rows import VariantRow

# Columns of table variant that must be the same on all hosts: their rows are one row there.
SAME_ON_ALL_HOSTS = ("allocator", "allocator_version", "server", "server_version", "engine", "thp")

_Text = Annotated[str, Field(max_length=10_000)]
_Count = Annotated[int, Field(ge=0, le=10**9)]
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Seconds = Annotated[float, Field(ge=0, le=1e6)]


class BlockRequest(HostRequest):
    """One attempt at one block. ``slices``: those of a duet, ``rounds``: those of turns, chosen by
    the driver; ``variants``: those columns of each variant that must be the same on the host;
    ``sysbench``: the version of the driver's, which must be that of all hosts; ``earlier_probes``:
    seconds of the fixed probe in the blocks that ran there before; ``client``: where the load comes
    from, None for the same host; ``fetched``: what the driver has fetched for it
    (:mod:`dballoc.campaign.elsewhere.fetch_like_driver`).
    """

    ASKER = "block"

    design: Design
    block: Annotated[int, Field(ge=1, le=10**9)]
    attempt: _Count
    slices: Slices | None = None
    rounds: Rounds | None = None
    variants: dict[_Text, dict[_Text, _Text | None]]
    sysbench: _Text
    earlier_probes: Annotated[list[_Seconds], Field(max_length=100_000, default_factory=list)]
    client: ClientPlace | None = None
    fetched: Annotated[
        dict[_Text, dict[_Text, _Digest]], Field(max_length=100, default_factory=dict)
    ]


def select_common_columns(row: VariantRow) -> dict[str, str | None]:
    """Return the columns of a variant's row that must be the same on all hosts."""
    return {name: getattr(row, name) for name in SAME_ON_ALL_HOSTS}


def find_difference(
    asked_rows: dict[str, dict[str, str | None]], rows: dict[str, dict[str, str | None]]
) -> str | None:
    """Return in words the first difference between the driver's variants and a host's; None if
    there is none. Pure.
    """
    for name, columns in asked_rows.items():
        for column, value in columns.items():
            if (here_too := rows.get(name, {}).get(column)) != value:
                return (
                    f"variant {name}: {column.replace('_', ' ')} {here_too or 'none'}, on the "
                    f"driver {value or 'none'}"
                )
    return None


def describe_other_sysbench(version: str, of_driver: str) -> str | None:
    """Return in words that a host's sysbench has another version than the driver's, which the
    report names; None if it has not. Pure.
    """
    if version == of_driver:
        return None
    return f"sysbench {version}, on the driver {of_driver}; hosts of a campaign must have the same"


def find_secret(experiment: Experiment) -> str | None:
    """Return the name of a setting whose value is a secret, for experiments are sent to hosts as
    they are; None if there is none. Pure.
    """
    tables = [experiment.server.options, experiment.server.init_options, experiment.load.options]
    for variant in experiment.variant:
        tables += [variant.server.options, variant.server.init_options]
        tables += [variant.env, variant.tunables]
    tables += [workload.options for workload in experiment.workload.values()]
    if isinstance(experiment.warmup_sql, list):
        tables += [{"warmup_sql": statement} for statement in experiment.warmup_sql]
    return next(
        (
            name
            for table in tables
            for name, value in table.items()
            if secret_names.hide_value(name, value) != value
        ),
        None,
    )
