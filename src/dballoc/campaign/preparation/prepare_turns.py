"""Decide how this machine runs an experiment's turns: with all servers alive at once, or each
variant's beside a baseline's alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dballoc.campaign.preparation.prepare_duet import (
    SharedHost,
    refuse_unsuitable_loads,
    share_host,
)
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import UsageError
from dballoc.load.sysbench_command import Sysbench

# Options whose time runs on while a server is stopped, by how many of their units a second has; 0
# is no limit.
_CLOCKS = {
    "wait_timeout": 1,
    "interactive_timeout": 1,
    "net_read_timeout": 1,
    "net_write_timeout": 1,
    "lock_wait_timeout": 1,
    "innodb_lock_wait_timeout": 1,
    "innodb_fatal_semaphore_wait_threshold": 1,
    "idle_transaction_timeout": 1,
    "idle_write_transaction_timeout": 1,
    "max_statement_time": 1,
    "max_execution_time": 1000,
    "rocksdb_lock_wait_timeout": 1,
}
# Such a time is at least so many times what a server may be stopped for.
_AMPLE = 10


@dataclass(frozen=True, kw_only=True)
class PreparedTurns:
    """The turns of a campaign on this machine. ``in_pairs``: whether a rotation is of a baseline's
    and one other server, instead of all; ``servers_at_once``: how many are alive at once then;
    ``host_mode``: the host's THP mode.
    """

    in_pairs: bool
    servers_at_once: int
    host_mode: str | None

    def share(self, experiment: Experiment, names: Sequence[str]) -> SharedHost:
        """Return what the servers of a rotation, the baseline's first, have of the host."""
        shared = share_host([experiment.find(name) for name in names], self.host_mode)
        assert isinstance(shared, SharedHost)
        return shared


def prepare_turns(
    experiment: Experiment, sysbench: Sysbench, host_mode: str | None
) -> PreparedTurns:
    """Decide how this machine runs the experiment's turns, if memory is no limit. Raises UsageError
    if it cannot.
    """
    refuse_unsuitable_loads(experiment, sysbench, "turns load their servers")
    for name in experiment.workloads:
        work = sysbench.workload(name)
        if work.driver != "sysbench":
            raise UsageError(
                f"{name}: turns count each transaction as it ends, which HammerDB does not tell; "
                "use --design solo"
            )
        if work.program or work.backup:
            raise UsageError(
                f"{name}: it runs a program beside its clients, which would not stop with them in "
                "turns; use --design solo"
            )
    parts = experiment.split_by_cpus()
    turns = PreparedTurns(
        in_pairs=False,
        servers_at_once=max(len(part.variant) for part in parts) + 1,
        host_mode=host_mode,
    )
    for part in parts:
        baseline = part.find(part.baseline)
        for variant in part.variant:
            if isinstance(why := share_host([baseline, variant], host_mode), str):
                raise UsageError(
                    f"{variant.name} cannot be alive beside {baseline.name}: {why}; use --design "
                    "solo"
                )
        if isinstance(share_host([baseline, *part.variant], host_mode), str):
            turns = pair_servers(turns)
    _check_clocks(experiment, (turns.servers_at_once - 1) * experiment.turns.length)
    return turns


def pair_servers(turns: PreparedTurns) -> PreparedTurns:
    """Return the turns of pairs, which take the least memory."""
    return replace(turns, in_pairs=True, servers_at_once=2)


def _check_clocks(experiment: Experiment, stopped: float) -> None:
    """Raise UsageError if an option's time may run out while its server is stopped for so many
    seconds at a time.
    """
    for variant in experiment.variant:
        for name, value in experiment.server_of(variant).options.items():
            units = _CLOCKS.get(name.replace("-", "_"))
            if units is None or not str(value).isdecimal() or not int(value):
                continue
            seconds = int(value) / units
            if seconds < _AMPLE * stopped:
                raise UsageError(
                    f"{variant.name}: {name} = {value} may run out while its server is stopped, "
                    f"for {stopped:g} s at a time; use --design solo, or {_AMPLE * stopped:g} s "
                    "or more"
                )
