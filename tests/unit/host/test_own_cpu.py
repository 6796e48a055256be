"""The CPU time of dballoc itself is that of all its processes, and of no server or client."""

import sys
import time
from pathlib import Path

from dballoc.host.guardian.guardian_client import Custody, list_guardians
from dballoc.host.guardian.own_cpu import read_own_cpu_seconds
from dballoc.host.process.handle import make_cpu_clock

BURN = "import time\nwhile time.process_time() < 0.3: pass"


def test_the_guardians_time_is_in_it_and_its_childrens_is_not(tmp_path: Path) -> None:
    with Custody() as custody:
        [guardian] = list_guardians()
        before, own = time.clock_gettime(make_cpu_clock(guardian)), time.process_time()
        total = read_own_cpu_seconds()
        for number in range(200):
            custody.scratch(tmp_path / str(number))
        child = custody.spawn([sys.executable, "-c", BURN], {}, tmp_path / "out")
        ended = child.wait(60)
        assert ended is not None
        assert ended.user + ended.system >= 0.3
        grown = read_own_cpu_seconds() - total
        of_guardian = time.clock_gettime(make_cpu_clock(guardian)) - before
        ours = time.process_time() - own
        assert 0 < of_guardian <= grown <= of_guardian + ours < 0.3
    assert not list_guardians()
    assert read_own_cpu_seconds() >= total + grown, "an ended guardian's time stays in it"
