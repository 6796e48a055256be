"""The checklist in a saved snapshot, on the page, and on a terminal."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from example_explanations import look

from dballoc.cli.explain_parts import ledger_table
from dballoc.cli.shared.safe_output import Console, clean
from dballoc.explain.checklist.section import Bytes, ChecklistSection, format_cell
from dballoc.explain.explanation import Explanation
from dballoc.explain.output import load_snapshots, page, saved_snapshots
from dballoc.ground.errors import UsageError
from dballoc.process.usage import ProcessUsage

MIB = 1 << 20
WIDE = ("user", "host", "event", *(f"COUNT_{i}" for i in range(9)))
USAGE = ProcessUsage(vsz=4 << 30, reserved=0, cpu_seconds=0.0, running_seconds=1.0)
SECTIONS = [
    ChecklistSection(
        title="process", source="/proc", rows=[("VmRSS", Bytes(900 * MIB)), ("Threads", 7)]
    ),
    ChecklistSection(
        title="sessions",
        source="SELECT <x>",
        columns=("user", "bytes", "share"),
        rows=[("<b>app", Bytes(MIB), 0.5), ("\x1b[31mred", Bytes(0), None)],
        note="others are not shown",
    ),
    ChecklistSection(title="plugins", source="SELECT 1", missing="denied"),
    ChecklistSection(
        title="freed", source="SELECT 2", columns=WIDE, rows=[("a", "b", "c", *range(9))]
    ),
]


def explained() -> Explanation:
    return replace(look(), sections=SECTIONS)


def test_a_saved_checklist_is_read_back(tmp_path: Path) -> None:
    saved_snapshots.save_snapshot(explained(), tmp_path / "x.json")
    [found] = load_snapshots.load_series(tmp_path / "x.json")
    assert found.sections == SECTIONS
    assert isinstance(found.sections[0].rows[0][1], Bytes)
    assert not isinstance(found.sections[0].rows[1][1], Bytes)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda part: part.update(rows=[["one"]]), "not as many cells as there are columns"),
        (lambda part: part.update(rows=[[{"a": 1}, 2]]), "rows"),
        (lambda part: part.update(columns=[]), "columns"),
        (lambda part: part.pop("title"), "title"),
        (lambda part: part.update(bytes=[[1, 2, 3]]), "bytes"),
    ],
)
def test_a_damaged_checklist_is_refused(tmp_path: Path, change: Any, says: str) -> None:
    document = json.loads(json.dumps(saved_snapshots.make_document(explained())))
    change(document["procedure"][0])
    (tmp_path / "x.json").write_text(json.dumps(document))
    with pytest.raises(UsageError, match=says) as refused:
        load_snapshots.load_series(tmp_path / "x.json")
    assert "\n" not in str(refused.value)


def test_the_page_has_the_procedure() -> None:
    first, last = (
        replace(
            explained(), timestamp=time, usage=replace(USAGE, cpu_seconds=cpu, running_seconds=time)
        )
        for time, cpu in ((100.0, 10.0), (110.0, 15.0))
    )
    written = page.render_explanation([first, last])
    # A number and its per cent sign stay together.
    assert "VSZ 4.00 GiB; CPU 50.0\u00a0% now, 13.6\u00a0% since its start." in written
    assert 'id="chart-vsz"' in written
    assert '<section id="procedure">' in written
    assert '<td class="number">1.00 MiB</td>' in written
    assert "&lt;b&gt;app" in written
    assert "<b>app" not in written
    assert "others are not shown" in written
    assert '<section id="procedure">' not in page.render_explanation([look()])


def test_a_terminal_obeys_nothing_in_it() -> None:
    said = io.StringIO()
    ledger_table.print_checklist(Console(file=said, width=100), clean(SECTIONS))
    text = said.getvalue()
    assert "\x1b" not in text
    assert "\\x1b[31mred" in text
    assert "900 MiB" in text
    assert "· others are not shown" in text
    # A row of a table that is too wide is a list.
    assert "row 1" in text
    assert "COUNT_8" in text


def test_cells() -> None:
    assert [format_cell(x) for x in (None, Bytes(-MIB), 12345, 0.25, "x")] == [
        "",
        "−1.00 MiB",
        "12,345",
        "0.25",
        "x",
    ]
