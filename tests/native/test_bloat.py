"""Huge pages that hold little: how much of them was never written, as seen from outside."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from programs import compiled, starting

from dballoc.evidence.process import unwritten_huge_pages
from dballoc.explain import explanation
from dballoc.host.process.handle import Process
from dballoc.process import snapshot

THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
MIB = 1 << 20

Run = Callable[[int], int]


@pytest.fixture
def bloat(tmp_path: Path) -> Iterator[Run]:
    """``bloat(n)``: the PID of a program with 96 MiB of huge pages, n of each 512 small ones
    written.
    """
    if not THP.exists() or "[never]" in THP.read_text():
        pytest.skip("NO HUGE PAGES ARE LOOKED AT: this kernel gives none")
    program = compiled("bloat", tmp_path)
    with starting() as start:
        yield lambda written: start(program, written).pid


@pytest.mark.parametrize("written", [1, 128, 512])
def test_what_was_never_written_is_told(bloat: Run, written: int) -> None:
    found = unwritten_huge_pages.sample_huge_pages(
        snapshot.take_process_snapshot(Process.open(bloat(written)))
    )
    assert found
    if found.bytes < 90 * MIB:
        pytest.skip("the kernel gave too few huge pages: memory is fragmented")
    # Four standard errors of the sample.
    assert found.share == pytest.approx(1 - written / 512, abs=0.065)


def test_it_is_named_and_not_made_worse(bloat: Run) -> None:
    pid = bloat(1)
    found = explanation.explain(Process.open(pid), None)
    [verdict] = [v for v in found.verdicts if v.key == "thp"]
    assert verdict.level == "problem"
    # A look maps nothing.
    assert explanation.explain(Process.open(pid), None).ledger.rss == pytest.approx(
        found.ledger.rss, abs=64 * 1024
    )
