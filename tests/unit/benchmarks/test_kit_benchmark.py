"""The benchmark of kits sees what differs, and what changed outside the kit's directory."""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import kit

from dballoc.store.rows import BlockRow, StepRow, TrialRow, VariantRow

TRIAL = {"design": "solo", "position": 1, "variant": "glibc", "role": "A1", "outcome": "ok"}


def make_results(directory: Path, rss: int, cut: bool = False, **trial: object) -> Path:
    """Results with a trial, and a report of them. ``cut``: and one of an attempt that was cut."""
    (directory / "csv").mkdir(parents=True)
    (directory / "csv/trials.csv").write_text(f"variant,rss\nglibc,{rss}\n")
    (directory / "report.md").write_text(f"# Report\n{rss} bytes\n## Memory\n")
    columns = {**TRIAL, "block": 1, "attempt": 1, "directory": "t", **trial}
    columns |= {"started": rss, "ended": rss, "seconds_planned": 1, "rss_peak": rss}
    with closing(sqlite3.connect(directory / "results.sqlite")) as db:
        for table in (BlockRow, TrialRow, StepRow, VariantRow):
            db.execute(table.make_schema())
        db.execute("INSERT INTO block VALUES ('solo', 1, 1, ?, ?, 0, 0, 1, 1, NULL)", [rss, rss])
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        db.execute(f"INSERT INTO trial ({names}) VALUES ({marks})", list(columns.values()))
        if cut:
            db.execute(
                f"INSERT INTO trial ({names}) VALUES ({marks})",
                list({**columns, "attempt": 2, "directory": "u"}.values()),
            )
        db.execute(
            "INSERT INTO step (trial, step, kind, workload, threads, t, seconds, tps) "
            "VALUES (1, 0, 'level', 'w', 4, 0, 1, ?)", [rss],
        )  # fmt: skip
        db.commit()
    return directory


def test_figures_make_no_difference_and_rows_do(tmp_path: Path) -> None:
    here = kit.read_outcome(make_results(tmp_path / "here", 100))
    there = kit.read_outcome(make_results(tmp_path / "there", 101))
    assert kit.list_differences(here, there) == []
    other = kit.read_outcome(make_results(tmp_path / "other", 100, variant="jemalloc"))
    assert [line[:1] for line in kit.list_differences(here, other)] == ["-", "+"]


def test_a_trial_of_an_attempt_that_was_cut_does_not_count(tmp_path: Path) -> None:
    here = kit.read_outcome(make_results(tmp_path / "here", 100))
    resumed = kit.read_outcome(make_results(tmp_path / "resumed", 100, cut=True))
    assert sum(here.rows.values()) == 1
    assert kit.list_differences(here, resumed) == []


def test_another_order_differs_unless_the_block_was_repeated(tmp_path: Path) -> None:
    here = kit.read_outcome(make_results(tmp_path / "here", 100))
    there = kit.read_outcome(make_results(tmp_path / "there", 100, position=2))
    assert len(kit.list_differences(here, there)) == 2
    assert kit.list_differences(kit.forget_order(here), kit.forget_order(there)) == []


def test_a_missing_heading_or_column_is_told(tmp_path: Path) -> None:
    here = kit.read_outcome(make_results(tmp_path / "here", 100))
    results = make_results(tmp_path / "there", 100)
    (results / "report.md").write_text("# Report\n")
    (results / "csv/trials.csv").write_text("variant\nglibc\n")
    assert kit.list_differences(here, kit.read_outcome(results)) == [
        "- ('## Memory',)", "- ('trials.csv', 'variant,rss')", "+ ('trials.csv', 'variant')",
    ]  # fmt: skip


def test_all_that_changed_is_told_but_the_machines_lock() -> None:
    lines = [
        "3a4,5",
        "> /run/dballoc d 700 0 4096 1.0 1.0",
        "> /run/dballoc/lock f 600 0 0 1.0 1.0",
        "< /run d 755 0 4096 1.0 1.0",
        "> /run d 755 0 4096 2.0 2.0",
        "< /var/cache d 755 0 4096 1.0 1.0",
        "> /var/cache d 755 0 4096 2.0 2.0",
        "> /var/cache/dballoc d 700 0 4096 2.0 2.0",
    ]
    assert kit.list_changes(lines) == ["/var/cache", "/var/cache/dballoc"]
