"""A report of a directory whose writer was killed in the middle of a transaction."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from example_results import BARE_FACTS

from dballoc.store.results import FILE, Results

# Writes more than SQLite's page cache holds, so that pages of the open transaction reach the file,
# then dies.
WRITER = """
import os, signal, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA cache_size = 1")
db.execute("BEGIN IMMEDIATE")
db.executemany("INSERT INTO campaign VALUES (?, ?)", [(f"k{i}", "x" * 1000) for i in range(2000)])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_open_transaction_is_rolled_back_for_a_reader(tmp_path: Path) -> None:
    Results.create(tmp_path, BARE_FACTS, []).close()
    done = subprocess.run([sys.executable, "-c", WRITER, os.fspath(tmp_path / FILE)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / (FILE + "-journal")).exists()
    results = Results.open(tmp_path, read_only=True)
    assert results.facts() == BARE_FACTS
    results.close()
