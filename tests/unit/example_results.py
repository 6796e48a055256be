"""Results directories that no server made, for tests that compare whole campaigns."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from test_report_write import block_row, duet_record, facts, fault, record, variant

from dballoc.experiment import schedule
from dballoc.experiment.model import Experiment
from dballoc.store.results import Results

Make = Callable[..., Path]


def build(
    directory: Path, chosen: Experiment, blocks: int, sql: tuple[str, ...], faulty: tuple[str, ...]
) -> Path:
    """A whole campaign, then changed by ``sql`` behind dballoc's back."""
    directory.mkdir()
    designs = ["solo", "duet"] if chosen.design == "both" else [chosen.design or "solo"]
    results = Results.create(
        directory, facts(chosen, blocks, designs), [variant(v.name) for v in chosen.variant]
    )
    for block in range(1, blocks + 1):
        for p in schedule.order_duets(chosen, block) if "duet" in designs else []:
            sides = [
                fault() if n in faulty else duet_record(chosen, p, i)
                for i, n in enumerate((chosen.baseline, p.variant))
            ]
            results.add_duet(p, chosen.baseline, (sides[0], sides[1]))
        for slot in schedule.order_block(chosen, block) if "solo" in designs else []:
            results.add_trial(slot, fault() if slot.variant in faulty else record(chosen, slot))
        for design in designs:
            results.add_block({"design": design, **block_row(block), "disturbed": None})
    results.close()
    db = sqlite3.connect(directory / "results.sqlite")
    for statement in sql:
        db.execute(statement)
    db.commit()
    db.close()
    return directory
