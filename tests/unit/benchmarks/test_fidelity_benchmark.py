"""The benchmark of fidelity replays as the verb does, and tells heaps at their peak and at rest."""

import argparse
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from dballoc.experiment import experiment_file

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import replay_fidelity
from replay_fidelity import ALLOCATORS, MIB, SERVERS, Cell, make_experiment


@pytest.mark.parametrize(("mode", "idle"), [("fast", 0.05), ("timed", 15)])
def test_its_arguments_make_an_experiment(mode: Any, idle: float) -> None:
    rest = ["15s"] if mode == "timed" else []
    model = make_experiment(Path("oltp.trace"), "ab" * 32, 7, 2, mode, *rest)
    assert [variant.name for variant in model.variant] == list(ALLOCATORS)
    assert (model.blocks, model.time.idle) == (2, idle)
    assert model.replay
    assert (model.replay.mode, model.replay.touch) == (mode, "recorded")


def test_real_servers_rest_after_the_load() -> None:
    args = argparse.Namespace(clients=16, seconds=20, idle=15)
    table = replay_fidelity.make_table(SERVERS["mariadb"], 1, args, ALLOCATORS)
    assert experiment_file.build_experiment(table, "fidelity").time.idle == 15


def test_heaps_at_rest_are_what_is_not_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there was no rest there is no figure."""
    rows = {"variant": ["glibc", "jemalloc", "glibc"], "rss_idle": [90.0, 80.0, None]}
    campaign: Any = SimpleNamespace(good=pl.DataFrame(rows))
    monkeypatch.setattr(replay_fidelity, "list_outside", lambda _: [9, 11])
    assert list(replay_fidelity.list_real_idle(campaign)) == [("glibc", 80.0), ("jemalloc", 70.0)]


def test_the_table_has_heaps_at_rest() -> None:
    rested = Cell(
        server="S",
        allocator="glibc",
        real=(100 * MIB, 100 * MIB),
        replayed=(101 * MIB,),
        timed=(102 * MIB,),
        control=(),
        real_idle=(50 * MIB,),
        timed_idle=(52 * MIB,),
    )
    never = Cell(
        server="S", allocator="jemalloc", real=(90 * MIB,), replayed=(90 * MIB,), timed=(),
        control=(),
    )  # fmt: skip
    lines = list(replay_fidelity.format_cells([rested, never]))
    assert len({line.count("|") for line in lines}) == 1
    assert lines[2].endswith("| +1.0% | +2.0% |  | 50.0 | +4.0% |")
    assert lines[3].endswith("| +0.0% |  |  |  |  |")
    summary = list(replay_fidelity.format_summary([rested, never]))
    assert "- Idle heap, at the recorded pace: median error 4.0%, worst 4.0% (1 cells)." in summary
