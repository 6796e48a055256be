"""What HammerDB, tpcc-mysql, BenchmarkSQL and mysqlslap print: read rightly, or refused by line."""

import re
from pathlib import Path

import pytest
from example_load_outputs import benchmarksql, hammerdb, mysqlslap, tpcc_mysql

from dballoc.ground.errors import UsageError
from dballoc.intake.import_results import import_results
from dballoc.intake.load_outputs import parse_outputs
from dballoc.intake.load_outputs.totals import Totals
from dballoc.questions.compare.campaign_tables import load_campaign

OLD_HAMMERDB = re.sub(
    r"achieved (\d+) NOPM from (\d+) MariaDB TPM",
    r"achieved \2 MySQL TPM at \1 NOPM",
    hammerdb(),
)


def parse_one(text: str) -> Totals:
    (run,) = parse_outputs.parse_runs(text, "f")
    return run


@pytest.mark.parametrize(
    ("text", "figures", "left_out"),
    [
        (hammerdb(), (4, 200.0, None, 120.0), ["NOPM is left out: TPM has all"]),
        (OLD_HAMMERDB, (4, 200.0, None, 120.0), ["NOPM is left out: TPM has all"]),
        (
            tpcc_mysql(),
            (16, 23.02, None, 100.0),
            ["a password is in it", "TpmC is left out: it has new"],
        ),
        (
            benchmarksql(),
            (8, 6000.5 / 60, None, 300.0),
            ["the load was limited: limitTxnsPerMin=300", "tpmC is left out"],
        ),
        (mysqlslap(), (10, None, 1250.0, 8.0), ["the mean of several iterations"]),
    ],
    ids=["HammerDB", "HammerDB 3", "tpcc-mysql", "BenchmarkSQL", "mysqlslap"],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_run(
    text: str, figures: tuple[float | None, ...], left_out: list[str], line_end: str
) -> None:
    run = parse_one(text.replace("\n", line_end))
    assert (run.threads, run.tps, run.qps, run.seconds) == tuple(map(pytest.approx, figures))
    assert [re.sub(r"^f:\d+: ", "", line)[: len(words)] for line, words in zip(
        run.unread, left_out, strict=True
    )] == left_out  # fmt: skip


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        (hammerdb(1) + hammerdb(2) + hammerdb(2), [1, 2, 2]),
        (tpcc_mysql(8) + tpcc_mysql(16), [8, 16]),
        (benchmarksql(1) + "some words\n" + benchmarksql(4), [1, 4]),
        (mysqlslap(5) + mysqlslap(10), [5, 10]),
    ],
    ids=["HammerDB", "tpcc-mysql", "BenchmarkSQL", "mysqlslap"],
)
def test_several_runs_in_a_file(text: str, levels: list[int]) -> None:
    runs = parse_outputs.parse_runs(text, "f")
    assert [run.threads for run in runs] == levels
    assert runs[0].unread
    assert not any(run.unread for run in runs[1:])


def test_clients_that_have_many_sessions_each_are_not_counted() -> None:
    text = hammerdb().replace(
        "Vuser 1:1  ...,", "Vuser 2:Started asynchronous clients:vuser2:ac1 vuser2:ac2"
    )
    assert parse_one(text).threads is None


@pytest.mark.parametrize(
    "text",
    [
        "Changed tpcc:mysql_pass from mysql to secret for MySQL\n" + hammerdb(),
        benchmarksql().replace("db=mysql", "conn=jdbc:mysql://db7/tpcc?user=a&password=secret"),
        tpcc_mysql(),
    ],
)
def test_a_password_in_an_output_is_mentioned_and_not_repeated(text: str) -> None:
    unread = parse_one(text).unread
    number = next(n for n, line in enumerate(text.splitlines(), 1) if "secret" in line)
    assert f"f:{number}: a password is in it, and in its copy below the results too" in unread
    assert not any("secret" in line for line in unread)


def test_transactions_that_failed_are_said() -> None:
    (*_, line) = parse_one(tpcc_mysql().replace("rt:0  fl:0", "rt:0  fl:3", 2)).unread
    assert line == "f:2: 6 transactions of the run failed"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            hammerdb().replace("Vuser 1:2  ...,", "Vuser 3:FINISHED FAILED"),
            "f:10: a client of HammerDB failed: 'Vuser 3:FINISHED FAILED'",
        ),
        (
            "Error in Virtual User 2: mysqlconnect: Access denied\n" + hammerdb(),
            "f:1: a client of HammerDB failed: 'Error in Virtual User 2: ",
        ),
        (hammerdb().partition("Vuser 1:4 Act")[0], "f:11: no TEST RESULT of HammerDB's before"),
        (hammerdb().replace("12000 Maria", "12,000 Maria"), "f:13: '12,000' is not a number"),
        (tpcc_mysql().partition("<TpmC>")[0], "f:41: tpcc-mysql's output is cut short here"),
        (tpcc_mysql().replace(" in 100 sec.", ""), "f:43: tpcc-mysql's output is cut short here"),
        (tpcc_mysql().replace("  [3] sc", "  [4] sc"), "f:43: tpcc-mysql's output is cut short"),
        (benchmarksql().partition("tpmTOTAL = ")[0], "f:9: BenchmarkSQL's output is cut short"),
        (benchmarksql().replace("= 6000.5", "= fast"), "f:9: 'fast' is not a number like 1234.5"),
        (benchmarksql().replace("03-18", "03-48"), "f:10: '2025-03-48 14:40:50' is not a time"),
        (mysqlslap().partition("\tNumber")[0], "f:5: mysqlslap's output is cut short here"),
        (mysqlslap(seconds=0.0).replace("-0.25", "0.0"), "f:2: 1000 queries per client in 0 s"),
        (mysqlslap().replace("Benchmark", ""), "f:1: mysqlslap's output lacks its line"),
        (
            mysqlslap(engine="innodb") + mysqlslap(engine="myisam"),
            "f:12: engine 'myisam', but 'innodb' in line 3; give each a file of its own",
        ),
        ("tps 12\n", "f:1: not an output of sysbench, HammerDB, tpcc-mysql, BenchmarkSQL or"),
    ],
)
def test_what_is_not_whole_is_refused_by_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        parse_outputs.parse_runs(text, "f")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("write", [hammerdb, tpcc_mysql, benchmarksql, mysqlslap])
def test_outputs_of_every_program_become_results(tmp_path: Path, write: object) -> None:
    assert callable(write)
    runs = tmp_path / "runs"
    runs.mkdir()
    for variant in ("glibc", "jemalloc"):
        (runs / f"{variant}.log").write_text(write(4) + write(8) + write(8))
    (runs / "import.toml").write_text('files = "{variant}.log"\nworkload = "tpcc"\n')
    imported = import_results([runs], tmp_path / "out")
    assert (imported.figures, imported.assembled.experiment.threads) == (6, [4, 8])
    rows = load_campaign(tmp_path / "out").step.filter(threads=8)
    expected = parse_outputs.parse_runs(write(8), "f")[0]
    assert set(rows["tps"]) == {expected.tps}
    assert set(rows["qps"]) == {expected.qps}
