"""The benchmark of fidelity replays as the verb does."""

import sys
from pathlib import Path

import pytest

from dballoc.cli.shared.experiment_from_replay import build_replay_experiment

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from replay_fidelity import ALLOCATORS, make_arguments


@pytest.mark.parametrize("mode", ["fast", "timed"])
def test_its_arguments_make_an_experiment(mode: str) -> None:
    arguments = make_arguments(Path("oltp.trace"), 2, mode)
    model = build_replay_experiment(arguments, "ab" * 32, 7)
    assert [variant.name for variant in model.variant] == list(ALLOCATORS)
    assert (model.blocks, model.time.idle) == (2, 0.05)
    assert model.replay
    assert (model.replay.mode, model.replay.touch) == (mode, "recorded")
