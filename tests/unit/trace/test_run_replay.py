"""What the replay's engine prints, as figures."""

import json
from typing import Any

import pytest

from dballoc.trace.replay.run_replay import parse_figures

MIB = 2**20


def write_document(**changes: Any) -> str:
    """A replay of a moment; a point is times of the trace and the replay, bytes, live bytes."""
    return json.dumps(
        {
            "nanoseconds": 1,
            "clock": 1,
            "peak": [10, 10, 50 * MIB, 0],
            "end": [30, 30, 20 * MIB, 0],
            "cpu": 1,
            "minor_faults": 0,
            "major_faults": 0,
            "failed": 0,
            "failed_size": 0,
            "lateness": 0,
            "waits": [[0, 0, 0], [0, 0, 0]],
            "operations": [],
            "curve": [],
            "marks": [],
            "live_curve": [],
            "live_peak": 0,
            "threads": [],
            **changes,
        }
    )


@pytest.mark.parametrize(
    ("changes", "peak"),
    [
        ({}, 50),
        ({"marks": [[5, 40 * MIB, 0], [20, 55 * MIB, 0]]}, 55),
        ({"marks": [[5, 40 * MIB, 0], [20, 0, 0]]}, 50),  # the last was not reached
        ({"end": [30, 30, 60 * MIB, 0]}, 60),
    ],
)
def test_the_peak_is_no_less_than_what_was_read_exactly(changes: dict[str, Any], peak: int) -> None:
    names = tuple(f"mark {i}" for i in range(len(changes.get("marks", []))))
    figures = parse_figures(write_document(**changes), 3 * MIB, names)
    assert figures.peak_heap == (peak - 3) * MIB
