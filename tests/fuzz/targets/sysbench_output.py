"""What sysbench printed: totals for ``dballoc import``, the histogram, the reason of its end. And
the kinds of files that import refuses by how they begin.
"""

from dballoc.ground.errors import UsageError
from dballoc.intake import foreign_kinds
from dballoc.intake.load_outputs import sysbench_totals
from dballoc.load import client_output

OF = (
    "dballoc.intake.load_outputs.sysbench_totals",
    "dballoc.intake.foreign_kinds",
    "dballoc.load.client_output",
)
PRIVILEGED = False

_GOOD = b"""sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)
Running the test with following options:
Number of threads: 8
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       1.759 |                                         1
       2.033 |****                                     121
SQL statistics:
    queries performed:
        total:                           92592
    transactions:                        5787   (1929.00 per sec.)
    queries:                             92592  (30864.00 per sec.)
General statistics:
    total time:                          3.0002s
Latency (ms):
         95th percentile:                        4.57
Threads fairness:
    execution time (avg/stddev):   2.9990/0.00
"""


def seeds() -> list[bytes]:
    return [
        _GOOD,
        _GOOD + _GOOD.replace(b"total:", b"read:  5787\n  write:  11574\n  total:"),
        b"".join(b"client-1  | " + line + b"\n" for line in _GOOD.splitlines()),
        b"mysqld 1 [001] 4.000001: cpu-clock:\n\t7f malloc (libc.so.6)\n",
        _GOOD + b"FATAL: mysql_drv_query() returned error 2013\n",
    ]


def fuzz(data: bytes) -> None:
    text = data.decode(errors="replace")
    foreign_kinds.name_kind(data)
    try:
        for run in sysbench_totals.parse_runs(text, "x"):
            assert not any("\n" in line for line in run.unread)
            sysbench_totals.is_another_workload(run, run)
    except UsageError as error:
        assert "\n" not in str(error), error
    histogram = client_output.parse_histogram(text)
    client_output.percentile(histogram, 0.95)
    client_output.reason(text)
