"""What runs before a workload, on a real server: it settles, and a warm-up is not measured."""

from pathlib import Path

import pytest
from harness import Cli, Experiment, rows


def read_status(out: Path, name: str) -> dict[str, str]:
    """A raw file of SHOW GLOBAL STATUS of the first trial."""
    [trial] = rows(out, "SELECT directory FROM trial WHERE trial = 1")
    text = next((out / "trials" / trial["directory"]).glob(f"status-{name}.tsv")).read_text()
    return dict(line.split("\t", 1) for line in text.splitlines())


@pytest.mark.slow
def test_a_server_settles_and_is_warmed_up_before_a_workload(
    run_cli: Cli, tiny_experiment: Experiment, out: Path
) -> None:
    file = tiny_experiment(
        workloads=["oltp_update_non_index", "oltp_point_select"],
        before={
            "oltp_update_non_index": ["oltp_update_non_index"],
            "oltp_point_select": ["settle", "oltp_point_select"],
        },
        time={"warmup": "1s", "settle": "1s", "level": "2s", "idle": "0s"},
        variant=[{"name": "glibc"}],
        warmup_sql=[],
    )
    done = run_cli("bench", file, "--out", out, "--no-report")
    assert done.status == 0, done.text
    steps = rows(out, "SELECT kind, workload, seconds FROM step WHERE trial = 1 ORDER BY step")
    assert [(s["kind"], s["workload"]) for s in steps] == [
        ("warmup", "oltp_update_non_index"),
        ("level", "oltp_update_non_index"),
        ("sql", None),
        ("warmup", "oltp_point_select"),
        ("level", "oltp_point_select"),
    ]
    assert steps[2]["seconds"] >= 1
    # What it wrote is on disk, and the table was analyzed.
    before, after = (read_status(out, f"03-{moment}") for moment in ("before", "after"))
    dirty = "Innodb_buffer_pool_pages_dirty"
    assert int(before[dirty]) > 0
    assert int(after[dirty]) < int(before[dirty])
    assert int(after["Com_analyze"]) == int(before["Com_analyze"]) + 1
