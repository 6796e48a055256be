"""What HammerDB, tpcc-mysql, BenchmarkSQL and mysqlslap print, for ``dballoc import``."""

from example_load_outputs import benchmarksql, hammerdb, mysqlslap, tpcc_mysql

from dballoc.ground.errors import UsageError
from dballoc.intake.load_outputs import parse_outputs

OF = (
    "dballoc.intake.load_outputs.benchmarksql_totals",
    "dballoc.intake.load_outputs.hammerdb_totals",
    "dballoc.intake.load_outputs.mysqlslap_totals",
    "dballoc.intake.load_outputs.tpcc_mysql_totals",
    "dballoc.intake.load_outputs.parse_outputs",
    "dballoc.intake.load_outputs.totals",
)
PRIVILEGED = False


def seeds() -> list[bytes]:
    return [text.encode() for text in (hammerdb(), tpcc_mysql(), benchmarksql(), mysqlslap())]


def fuzz(data: bytes) -> None:
    try:
        runs = parse_outputs.parse_runs(data.decode(errors="replace"), "x")
    except UsageError as error:
        assert "\n" not in str(error), error
        return
    assert runs
    for run in runs:
        assert not any("\n" in line for line in run.unread)
        assert run.tps is not None or run.qps is not None
