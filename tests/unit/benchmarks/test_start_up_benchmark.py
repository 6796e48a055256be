"""benchmarks/start_up.py: what it runs, what it judges, and that it ends with what it explains."""

import sys
from pathlib import Path

import pytest

from captured_run import run_captured

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from start_up import PROMISED, Command, Figures, list_commands

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "start_up.py"


def test_a_command_that_fails_ends_it_at_once(tmp_path: Path) -> None:
    (tmp_path / "dballoc").mkdir()
    (tmp_path / "dballoc" / "__init__.py").write_text("raise SystemExit('no such package')\n")
    done = run_captured(
        [sys.executable, BENCHMARK, "--rounds", "1", "--beside", tmp_path, "verify"], timeout=120
    )
    assert (done.returncode, done.stderr) == (
        1,
        "start_up: dballoc verify --help: no such package\n",
    )


def test_explain_with_sql_is_among_the_commands_where_there_is_a_server() -> None:
    titles = [command.title for command in list_commands([], 7, None)]
    assert "explain, without SQL" in titles
    *others, with_sql = list_commands([], 7, "/run/s")
    assert [command.title for command in others] == titles
    assert with_sql == Command("explain, with SQL", ["explain", "--socket", "/run/s"], PROMISED)
    promised = {command.title: command.promised for command in others}
    assert promised["explain --help"] == promised["--version"] == PROMISED
    assert promised["bench --help"] is None


@pytest.mark.parametrize(
    ("promised", "elapsed", "misses"),
    [
        (PROMISED, [0.9, 0.2, 3.0], []),
        (PROMISED, [0.9, 0.4, 3.0], ["verify: 0.40 s, later than 0.3 s"]),
        (None, [5.0], []),
    ],
)
def test_a_promise_is_judged_by_the_least_of_the_rounds(
    promised: float | None, elapsed: list[float], misses: list[str]
) -> None:
    command = Command("verify", ["verify"], promised)
    assert command.find_misses(Figures(cpu=[9.0] * len(elapsed), elapsed=elapsed)) == misses
