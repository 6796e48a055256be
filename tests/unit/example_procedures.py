"""Results of a procedure that is declared, and procedures by their numbers of blocks."""

import json

from dballoc.questions.compare.measures import list_judged
from dballoc.questions.compare.procedure import Procedure, declare_procedure, declare_shares

SHARES = declare_shares(list_judged(["solo", "duet"]), variants=5, workloads=2)


def declared(planned: int, blocks: int) -> Procedure:
    return declare_procedure(planned, SHARES).after(blocks)


def mark_current(planned: int) -> tuple[str, ...]:
    """The SQL that plans so many blocks, completed one after another."""
    counts = json.dumps({"solo": planned, "duet": planned})
    return (
        f"UPDATE campaign SET value = '{counts}' WHERE key = 'planned_blocks'",
        "UPDATE block SET started = 10 * block, ended = 10 * block + 9, disturbed = NULL",
    )
