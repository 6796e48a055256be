"""Whether a machine runs an experiment's turns: of all servers, or in pairs."""

from collections.abc import Callable
from typing import Any

import pytest

from dballoc.campaign.preparation.prepare_turns import pair_servers, prepare_turns
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import UsageError
from dballoc.load import workload
from dballoc.load.sysbench_command import Sysbench

MakeExperiment = Callable[..., Experiment]


def prepare(experiment: Experiment, host_mode: str | None = "madvise") -> Any:
    bench = Sysbench(None, "1.0.20", None, workload.settle(experiment))  # type: ignore[arg-type]
    return prepare_turns(experiment, bench, host_mode)


def test_all_servers_take_turns(experiment: MakeExperiment) -> None:
    turns = prepare(experiment())
    assert (turns.in_pairs, turns.servers_at_once) == (False, 4)
    assert (pair_servers(turns).in_pairs, pair_servers(turns).servers_at_once) == (True, 2)


def test_thp_is_switched_off_for_those_that_want_none(experiment: MakeExperiment) -> None:
    chosen = experiment(
        variant=[{"name": "glibc", "thp": "always"}, {"name": "never", "thp": "never"}]
    )
    shared = prepare(chosen).share(chosen, ["glibc", "never", "glibc"])
    assert (dict(shared.settings), shared.switched_off) == (
        {"thp": "always"},
        (False, True, False),
    )


def test_modes_that_are_never_together_take_turns_in_pairs(experiment: MakeExperiment) -> None:
    variants = [
        {"name": "glibc", "thp": "never"},
        {"name": "a", "thp": "always"},
        {"name": "b", "thp": "madvise"},
    ]
    assert prepare(experiment(variant=variants)).in_pairs


def test_what_the_baseline_cannot_be_beside_takes_none(experiment: MakeExperiment) -> None:
    variants = [{"name": "glibc", "thp": "madvise"}, {"name": "a", "thp": "always"}]
    with pytest.raises(UsageError, match=r"a cannot be alive beside glibc: .*; use --design solo"):
        prepare(experiment(variant=variants))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"wait_timeout": 5}, "wait_timeout = 5 may run out while its server is stopped"),
        ({"innodb-lock-wait-timeout": 1}, "innodb-lock-wait-timeout = 1 may run out"),
        ({"max_execution_time": 2000}, "max_execution_time = 2000 may run out"),
        ({"wait_timeout": 28800}, None),
        ({"max_statement_time": 0}, None),
    ],
)
def test_an_option_that_could_run_out_refuses_turns(
    experiment: MakeExperiment, options: dict[str, int], words: str | None
) -> None:
    chosen = experiment(server={"options": options})
    if words is None:
        prepare(chosen)
        return
    with pytest.raises(UsageError, match=words):
        prepare(chosen)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"workloads": ["load"]}, "ends by itself"),
        ({"workloads": ["replica"]}, "a replica has a primary beside it"),
        ({"sequence": "fresh"}, "all workloads in one start"),
    ],
)
def test_loads_that_turns_cannot_have(
    experiment: MakeExperiment, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        prepare(experiment(**changes))
