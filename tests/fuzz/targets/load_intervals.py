"""The JSON lines that sysbench's hook writes while a load runs."""

import tempfile
from pathlib import Path

from dballoc.load.client_output import Follower

OF = ("dballoc.load.client_output", "dballoc.ground.readers")
PRIVILEGED = False

_INTERVAL = b'{"kind": "interval", "clock": 5.5, "time_total": 1.0, "time_interval": 1.0, "threads_running": 2, "events": 9, "reads": 90, "writes": 0, "other": 18, "latency_pct": 0.004, "errors": 0, "reconnects": 0}\n'
_TOTAL = b'{"kind": "total", "clock": 9.5, "time_total": 4.0, "events": 9, "reads": 90, "writes": 0, "other": 18, "latency_min": 0.001, "latency_avg": 0.002, "latency_max": 0.1, "errors": 0, "reconnects": 0}\n'


def seeds() -> list[bytes]:
    return [_INTERVAL + _INTERVAL.replace(b"5.5", b"6.5") + _TOTAL, _TOTAL]


def fuzz(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "intervals"
        path.write_bytes(data)
        follower = Follower(path)
        for interval in follower.new():
            f"{interval.tps:.1f} {interval.qps:.1f}"
        if follower.total:
            f"{follower.total.events / follower.total.seconds:.1f}"
