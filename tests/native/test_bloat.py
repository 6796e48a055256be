"""Huge pages that hold little: how much of them was never written, as seen from outside."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dballoc.explain import explanation, huge, outside

SOURCE = Path(__file__).parent / "bloat.c"
THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
MIB = 1 << 20

Run = Callable[[int], int]


@pytest.fixture
def bloat(tmp_path: Path) -> Iterator[Run]:
    """``bloat(n)``: the PID of a program with 96 MiB of huge pages, n of each 512 small ones written."""
    if not THP.exists() or "[never]" in THP.read_text():
        pytest.skip("NO HUGE PAGES ARE LOOKED AT: this kernel gives none")
    program = tmp_path / "bloat"
    subprocess.run(["cc", "-std=c17", "-D_GNU_SOURCE", "-O1", "-o", program, SOURCE], check=True)
    started: list[subprocess.Popen[str]] = []

    def run(written: int) -> int:
        process = subprocess.Popen([program, str(written)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        return process.pid

    yield run
    for process in started:
        process.communicate("", timeout=10)


@pytest.mark.parametrize("written", [1, 128, 512])
def test_what_was_never_written_is_told(bloat: Run, written: int) -> None:
    found = huge.look(outside.look(bloat(written)))
    assert found
    if found.bytes < 90 * MIB:
        pytest.skip("the kernel gave too few huge pages: memory is fragmented")
    # Four standard errors of the sample.
    assert found.share == pytest.approx(1 - written / 512, abs=0.065)


def test_it_is_named_and_not_made_worse(bloat: Run) -> None:
    pid = bloat(1)
    found = explanation.explain(pid, None)
    [verdict] = [v for v in found.verdicts if v.key == "thp"]
    assert verdict.level == "problem"
    # A look maps nothing.
    assert explanation.explain(pid, None).ledger.rss == pytest.approx(found.ledger.rss, abs=64 * 1024)
