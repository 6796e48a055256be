"""Parse an output of a load generator, whichever it is. Pure."""

from collections.abc import Iterable
from dataclasses import replace

from dballoc.intake.load_outputs import (
    benchmarksql_totals,
    hammerdb_totals,
    mysqlslap_totals,
    sysbench_totals,
    tpcc_mysql_totals,
)
from dballoc.intake.load_outputs.totals import Totals

# sysbench is what is left: it says so of a text that is none of them.
_OTHERS = (hammerdb_totals, tpcc_mysql_totals, benchmarksql_totals, mysqlslap_totals)


def parse_runs(text: str, origin: str) -> list[Totals]:
    """Return the totals of each run in a text. UsageError, ``FILE:LINE: …``, if it is not the
    output of a load generator that import reads, or if it is not whole.
    """
    if "Running the test with following options" not in text:
        for reader in _OTHERS:
            if reader.is_output(text):
                return _drop_repeated_notes(reader.parse_runs(text, origin), origin)
    return sysbench_totals.parse_runs(text, origin)


def _drop_repeated_notes(runs: Iterable[Totals], origin: str) -> list[Totals]:
    """Return runs without the notes, ``FILE:LINE: …``, that an earlier line has already."""
    noted: set[str] = set()
    kept = []
    for run in runs:
        notes = {note.removeprefix(f"{origin}:").partition(": ")[2]: note for note in run.unread}
        fresh = tuple(note for words, note in notes.items() if words not in noted)
        kept.append(replace(run, unread=fresh))
        noted |= notes.keys()
    return kept
