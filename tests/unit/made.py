"""Results directories that no server made, for tests that compare whole campaigns."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from test_report_write import facts, fault, record, variant

from dballoc.experiment import schedule
from dballoc.experiment.model import Experiment
from dballoc.store.results import Results

Make = Callable[..., Path]


def build(directory: Path, chosen: Experiment, blocks: int, sql: tuple[str, ...], faulty: tuple[str, ...]) -> Path:
    """A whole campaign, then changed by ``sql`` behind dballoc's back."""
    directory.mkdir()
    results = Results.create(directory, facts(chosen, blocks), [variant(v.name) for v in chosen.variant])
    for block in range(1, blocks + 1):
        for slot in schedule.block(chosen, block):
            results.add_trial(slot, fault() if slot.variant in faulty else record(chosen, slot))
        results.add_block({
            "block": block, "attempt": 0, "started": 1.0, "ended": 9.0, "steal": 0.0, "others": 0.5, "probe_before": 0.07,
            "probe_after": 0.07, "disturbed": None,
        })  # fmt: skip
    results.close()
    db = sqlite3.connect(directory / "results.sqlite")
    for statement in sql:
        db.execute(statement)
    db.commit()
    db.close()
    return directory
