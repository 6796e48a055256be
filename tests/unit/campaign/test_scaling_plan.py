"""The shipped experiment `scaling`: what it plans for sixteen CPUs, which need not be here."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.example_cpu_trees import EMULATED, list_cpus, write_tree

from dballoc.campaign.ways.solo import estimate_solo
from dballoc.cli.shared.experiment_from_flags import experiment
from dballoc.experiment.designs import Design
from dballoc.experiment.model import Experiment
from dballoc.host.resources import choose_cpus, cores


def estimate(model: Experiment) -> Any:
    """What it plans where servers are there, and nothing of the data is written."""
    setting: Any = SimpleNamespace(
        experiment=model,
        designs=model.designs,
        contents=SimpleNamespace(tables=True),
        reuses_data=True,
        has_replica=False,
        margin=None,
    )
    return estimate_solo(setting)


def test_eight_minutes_have_four_blocks() -> None:
    model = experiment(None, "scaling", {})
    assert [v.name for v in model.variant] == [
        f"{malloc}_{cpus}cpu"
        for cpus in (4, 16)
        for malloc in ("glibc", "glibc-2-arenas", "jemalloc", "tcmalloc")
    ]
    assert (model.workloads, model.threads) == (["oltp_point_select"], [64, 1024])
    assert model.designs == (Design.SOLO,)
    planned = estimate(model)
    # Of each number of CPUs four mallocs, and glibc twice.
    assert planned.trials == 10
    assert planned.blocks >= 4
    assert planned.blocks * planned.seconds <= 8 * 60


def test_two_hours_have_the_full_grid() -> None:
    model = experiment(None, "scaling", {"budget": "2h"})
    assert {model.cpu_of(v).count for v in model.variant} == {4, 8, 16}
    assert {v.allocator for v in model.variant} == {"glibc", "jemalloc", "tcmalloc", "mimalloc"}
    assert len(model.variant) == 15
    assert (model.workloads, model.threads) == (
        ["oltp_point_select", "oltp_read_only"], [16, 64, 256, 1024],
    )  # fmt: skip
    planned = estimate(model)
    assert planned.blocks >= 4
    assert planned.blocks * planned.seconds <= 2 * 3600


def test_clients_have_cores_of_their_own_beside_few_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "SYSTEM", write_tree(tmp_path / "cpu", EMULATED))
    monkeypatch.setattr(choose_cpus, "list_available_cpus", lambda: list_cpus(EMULATED))
    model = experiment(None, "scaling", {})
    sides = {
        count: choose_cpus.choose_cpus(model.cpu_of(model.find(f"glibc_{count}cpu")))
        for count in (4, 16)
    }
    few, many = sides[4], sides[16]
    assert few.server
    assert few.clients
    assert len(few.server) == 4 <= len(few.clients)
    assert not few.server & few.clients
    assert many.server == many.clients == list_cpus(EMULATED)
    assert many.together


def test_flags_make_it_small() -> None:
    model = experiment(None, "scaling", {"cpu.count": [1, 2], "threads": [8, 16]})
    assert [part.baseline for part in model.split_by_cpus()] == ["glibc_1cpu", "glibc_2cpu"]
    assert {model.cpu_of(v).client for v in model.variant} == {"apart"}
