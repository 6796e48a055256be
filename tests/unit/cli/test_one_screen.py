"""What ``dballoc explain`` prints by itself fits one screen of 80 columns; its flags unfold the rest."""

from pathlib import Path

import pytest
from example_explanations import HEALTHY, look
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from dballoc.cli.explain_parts.ledger_table import SMALL, fold_small_lines
from dballoc.cli.verb_list import application
from dballoc.explain.ledger.ledger_line import LedgerLine
from dballoc.explain.output import load_snapshots, saved_snapshots

GOLDEN = Path(__file__).parents[2] / "data" / "golden" / "saved.json.gz"
MIB = 1 << 20


def show(path: Path, *flags: str) -> list[str]:
    """The lines that a terminal of 80 columns shows of a saved snapshot."""
    result = CliRunner(env={"COLUMNS": "80"}).invoke(
        application(["explain"]), ["explain", "--from", str(path), *flags]
    )
    assert result.exit_code == 0, result.output
    return [line.rstrip() for line in result.stdout.splitlines()]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A snapshot of a server with nothing wrong."""
    saved_snapshots.save_snapshot(look(), tmp_path / "x.json")
    return tmp_path / "x.json"


def test_a_healthy_server_fits_a_small_terminal(saved: Path) -> None:
    lines = show(saved)
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    [folded] = [line for line in lines if "--all shows them" in line]
    small = [size for size in HEALTHY.values() if size < SMALL * 987]
    assert folded.split()[:4] == [str(len(small)), "lines", "under", "1"]
    assert f"{sum(small):.1f}" in folded


def test_ledger_and_answer_of_a_real_server_fit_a_screen() -> None:
    lines = show(GOLDEN)
    end = next(number for number, line in enumerate(lines) if line.startswith("sum "))
    assert end < 40
    assert lines[3].startswith("No owner has most of the 190 MiB")


@pytest.mark.parametrize("flags", [(), ("--all",), ("--sources",), ("--all", "--sources")])
def test_no_owner_wraps(flags: tuple[str, ...]) -> None:
    [snapshot] = load_snapshots.load_series(GOLDEN)
    lines = show(GOLDEN, *flags)
    shown = [
        line.owner
        for line in snapshot.ledger.lines
        if "--all" in flags or line.resident >= SMALL * snapshot.ledger.rss
    ]
    assert len(shown) > 5
    for owner in shown:
        assert any(line.startswith(f"{owner}  ") and line[-1] in "0123456789%" for line in lines)


def test_the_flags_bring_back_what_is_folded(saved: Path) -> None:
    everything = "\n".join(show(saved, "--all"))
    assert "--all shows them" not in everything
    assert all(f"{owner} " in everything for owner in HEALTHY)
    assert "what the configuration allows" in everything
    assert "what the configuration allows" not in "\n".join(show(saved))
    [snapshot] = load_snapshots.load_series(saved)
    with_sources = " ".join(" ".join(show(saved, "--sources")).split())
    assert "size, MiB" in with_sources
    assert snapshot.ledger.lines[0].source in with_sources


def make_line(number: int, resident: int) -> LedgerLine:
    return LedgerLine(
        group="heap",
        owner=str(number),
        resident=resident,
        size=resident,
        source="",
        confidence="exact",
    )


@given(st.lists(st.integers(0, 1000), max_size=30), st.booleans())
def test_folding_loses_no_byte(sizes: list[int], all_lines: bool) -> None:
    lines = [make_line(number, size) for number, size in enumerate(sizes)]
    rss = max(1, sum(sizes))
    shown, folded = fold_small_lines(lines, rss, all_lines)
    assert sorted(line.resident for line in [*shown, *folded]) == sorted(sizes)
    assert [x.resident for x in shown] == sorted(x.resident for x in shown)[::-1]
    assert len(folded) != 1
    if all_lines:
        assert not folded
    elif folded:
        assert all(line.resident >= SMALL * rss for line in shown)
