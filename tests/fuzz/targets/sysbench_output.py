"""What sysbench printed: totals for ``dballoc import``, the histogram, the reason of its end."""

from dballoc.errors import UsageError
from dballoc.intake import sysbench_totals
from dballoc.load import client_output

OF = ("dballoc.intake.sysbench_totals", "dballoc.load.client_output")
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
    return [_GOOD, _GOOD + _GOOD, _GOOD + b"FATAL: mysql_drv_query() returned error 2013\n"]


def fuzz(data: bytes) -> None:
    text = data.decode(errors="replace")
    try:
        sysbench_totals.parse_runs(text, "x")
    except UsageError as error:
        assert "\n" not in str(error), error
    histogram = client_output.parse_histogram(text)
    client_output.percentile(histogram, 0.95)
    client_output.reason(text)
