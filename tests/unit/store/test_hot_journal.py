"""A report of a directory whose writer was killed in the middle of a transaction."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from example_results import BARE_FACTS, INTERRUPTED_WRITER

from dballoc.store.results import FILE, Results


def test_an_open_transaction_is_rolled_back_for_a_reader(tmp_path: Path) -> None:
    Results.create(tmp_path, BARE_FACTS, []).close()
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_WRITER, os.fspath(tmp_path / FILE)], check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / (FILE + "-journal")).exists()
    results = Results.open(tmp_path, read_only=True)
    assert results.facts() == BARE_FACTS
    results.close()
