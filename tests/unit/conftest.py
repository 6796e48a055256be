"""Experiments for tests that need no server."""

from collections.abc import Callable
from typing import Any

import pytest

from dballoc.experiment.model import Experiment

MakeExperiment = Callable[..., Experiment]


@pytest.fixture(scope="session")
def experiment() -> MakeExperiment:
    """``experiment(threads=[1], …)``: a small valid experiment with these keys changed."""

    def make(**changes: Any) -> Experiment:
        table: dict[str, Any] = {
            "name": "small",
            "baseline": "glibc",
            "workloads": ["oltp_read_only"],
            "threads": [1, 4],
            "variant": [{"name": "glibc"}, {"name": "jemalloc", "allocator": "jemalloc"}, {"name": "tuned"}],
        }
        return Experiment.model_validate(table | changes)

    return make
