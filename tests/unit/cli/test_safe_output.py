"""What others call themselves, on a terminal and in a spreadsheet: shown, and obeyed by neither."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import unicodedata
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest
from example_explanations import look
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from captured_run import run_captured
from dballoc.cli.explain_parts import confirmed_server_changes, ledger_table
from dballoc.cli.explain_parts.explain_request import LedgerView
from dballoc.cli.shared import safe_output
from dballoc.cli.shared.campaign_display import PlainDisplay
from dballoc.document import csv as csv_cells
from dballoc.evidence.sql import loadable_function
from dballoc.evidence.sql.loadable_function import TrimResult
from dballoc.experiment.schedule import Slot
from dballoc.servers.running.credentials import Credentials
from dballoc.store.results import TrialRecord
from dballoc.store.rows import MeasuredTrial

EVIL = "my\x1b[31msqld\x1b]0;title\x07\x9b2J\u202egnp.\nfake: line\r\x08[red]x[/red][link=http://x]y[/link]:bomb:\ud800\u2028"
SHOWN = r"my\x1b[31msqld\x1b]0;title\x07\u009b2J\u202egnp.\nfake: line\r\x08[red]x[/red][link=http://x]y[/link]:bomb:\ud800\u2028"
OBEYED = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def obeyed(text: str) -> set[str]:
    return {c for c in text if unicodedata.category(c) in OBEYED and c not in "\n\t"}


def test_the_name_of_a_foe() -> None:
    assert safe_output.safe(EVIL) == SHOWN
    assert safe_output.safe("Zürich – 中文 ✓ é") == "Zürich – 中文 ✓ é"
    assert tomllib.loads(f'x = "{safe_output.safe("a" + chr(0x85) + chr(0x202E))}"') == {
        "x": "a\x85\u202e"
    }


@given(st.text())
def test_whatever_it_is(text: str) -> None:
    assert not obeyed(safe_output.safe(text))
    assert "\n" not in safe_output.safe(text)
    assert not obeyed(safe_output.safe_lines(text))
    safe_output.safe(text).encode()


@dataclass(frozen=True)
class Named:
    name: str
    rows: list[tuple[str, int]]
    more: dict[str, str]
    later: str = field(default="", init=False)


class Pair(NamedTuple):
    one: str
    other: int


def test_everything_in_a_thing() -> None:
    found = safe_output.clean(Named(EVIL, [(EVIL, 3)], {EVIL: EVIL}))
    assert found == Named(SHOWN, [(SHOWN, 3)], {SHOWN: SHOWN})
    assert safe_output.clean(Pair(EVIL, 1)) == Pair(SHOWN, 1)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_console_lets_nothing_through(terminal: bool) -> None:
    out = io.StringIO()
    console = safe_output.Console(
        file=out, force_terminal=terminal, width=400, color_system="truecolor" if terminal else None
    )
    table = Table(EVIL)
    table.add_row(EVIL)
    table.add_row(Text(EVIL, style="bold"))
    console.print(EVIL)
    console.print(Text(EVIL, style="red"))
    console.print(table)
    text = re.sub(r"\x1b\[[\d;]*m", "", out.getvalue())
    assert not obeyed(text)
    assert text.count("[red]x[/red][link=http://x]y[/link]:bomb:") == 5
    if terminal:
        assert "\x1b[31mmy" in out.getvalue(), "our own colours stay"


def test_an_explanation_of_a_foe() -> None:
    found = look()
    ledger = replace(
        found.ledger,
        executable=EVIL,
        lines=[replace(x, owner=EVIL) for x in found.ledger.lines],
        notes=[EVIL],
    )
    out = io.StringIO()
    ledger_table.print_explanation(
        safe_output.Console(file=out, width=400),
        safe_output.clean(replace(found, ledger=ledger, answer=EVIL)),
        LedgerView(all_lines=True),
    )
    assert not obeyed(out.getvalue())
    assert out.getvalue().count(SHOWN) == 3 + len(ledger.lines)
    assert not [line for line in out.getvalue().splitlines() if line.startswith("fake: line")]


def test_a_fault_is_one_line() -> None:
    out = io.StringIO()
    with PlainDisplay(safe_output.Console(file=out, width=400)) as display:
        slot = Slot(block=1, attempt=0, position=0, variant="glibc", role="A1")
        fault = MeasuredTrial(started=0.0, outcome="fault", fault="died", fault_text=EVIL)
        display.trial_finished(slot, [TrialRecord(trial=fault)])
    assert out.getvalue().count("\n") == 1
    assert SHOWN in out.getvalue()


def test_a_process_by_a_foes_name(tmp_path: Path) -> None:
    """The whole way: verify on a program that is called so, and an error that names such a file."""
    # Without line ends, which /proc/PID/maps writes otherwise or which Python's splitlines takes
    # for its own.
    name = re.sub("[/\ud800\r\n\u2028]", "", EVIL)
    program = tmp_path / name
    shutil.copy(os.path.realpath(sys.executable), program)
    process = subprocess.Popen(
        [program, "-c", "import time; print(1, flush=True); time.sleep(600)"],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONHOME": sys.base_prefix},
    )
    try:
        assert process.stdout
        assert process.stdout.readline() == b"1\n"
        done = run_captured(
            [sys.executable, "-m", "dballoc", "verify", str(process.pid)], env=os.environ
        )
    finally:
        process.kill()
        process.wait()
    assert done.returncode == 0, done.stderr
    assert not obeyed(done.stdout)
    assert r"my\x1b[31msqld" in done.stdout
    assert not [line for line in done.stdout.splitlines() if line.startswith("fake")]
    done = run_captured([sys.executable, "-m", "dballoc", "report", name])
    assert done.returncode == 2
    assert not obeyed(done.stderr)
    assert done.stderr.count("\n") == 1


FORMULAS = [
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    '=HYPERLINK("http://x")',
    "-",
    "--skip-x",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_is_text(text: str) -> None:
    assert csv_cells.escape_formula(text) == f"'{text}"


@pytest.mark.parametrize("cell", [-1.5, 3, None, "-1.5", "+3", "-2e-3", "1=1", "glibc", ""])
def test_numbers_and_words_stay(cell: object) -> None:
    assert csv_cells.escape_formula(cell) == cell


def test_a_table_of_formulas(tmp_path: Path) -> None:
    frame = pl.DataFrame({"variant": FORMULAS, "=ratio": [-0.5] * len(FORMULAS)})
    csv_cells.escape_formulas(frame).write_csv(tmp_path / "x.csv")
    with (tmp_path / "x.csv").open(newline="") as f:
        head, *rows = csv.reader(f)
    assert head == ["variant", "'=ratio"]
    assert rows == [[f"'{text}", "-0.5"] for text in FORMULAS]


def test_json_stays_json() -> None:
    assert not obeyed(json.dumps(EVIL))


def test_what_is_confirmed_is_not_written_by_the_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The plugin directory is what the server says."""
    confirmed_server_changes._confirm("--install-function", [f"copy it into /{EVIL}"], yes=True)
    printed = capsys.readouterr().out
    assert not obeyed(printed.replace("\n", ""))
    assert printed.count("\n") == 2


def test_what_trim_called_is_not_written_by_the_server(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trimmed = TrimResult(called=EVIL, before=1, after=1, seconds=1.0)
    monkeypatch.setattr(loadable_function, "read_installation", lambda pid, credentials: None)
    monkeypatch.setattr(loadable_function, "trim_malloc", lambda pid, credentials: trimmed)
    confirmed_server_changes.trim_heap(1, Credentials(user="me"), yes=True)
    assert not obeyed(capsys.readouterr().out.replace("\n", ""))
