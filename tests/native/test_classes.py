"""A process of known memory, accounted for class by class to half a per cent."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import compiled, starting

from dballoc.explain.ledger.ledger import Ledger, build_ledger
from dballoc.explain.ledger.ledger_line import LAZY, LIVE, MAPPED, UNNAMED
from dballoc.host.process.handle import Process
from dballoc.process import snapshot
from dballoc.process.mapping_kind import MappingKind
from dballoc.process.snapshot import ProcessSnapshot

Looked = tuple[dict[str, int], ProcessSnapshot, Ledger]


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Looked]:
    """What the program says that it has, a look at it, and its ledger."""
    directory = tmp_path_factory.mktemp("classes")
    with starting() as start:
        running = start(compiled("classes", directory), directory / "file")
        found = snapshot.take_process_snapshot(Process.open(running.pid))
        yield (
            {name: int(size) for name, size in map(str.split, running.said)},
            found,
            build_ledger(found),
        )


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("live", LIVE),
        ("held", "free but held"),
        ("large", MAPPED),
        ("stacks", MappingKind.STACK),
        ("file", "mapped file"),
        ("own", UNNAMED),
        ("lazy", LAZY),
    ],
)
def test_each_class_has_what_the_program_has(looked: Looked, name: str, owner: str) -> None:
    said, _, found = looked
    assert sum(
        line.resident for line in found.lines if line.owner.startswith(owner)
    ) == pytest.approx(said[name], rel=0.005)


def test_what_is_lazily_freed_and_what_is_huge_is_known_by_mapping(looked: Looked) -> None:
    said, found, _ = looked
    assert sum(m.lazy for m in found.mappings) == pytest.approx(said["lazy"], rel=0.005)
    if "[never]" in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text():
        pytest.skip("this host has no transparent huge pages")
    assert sum(m.huge for m in found.mappings) == pytest.approx(said["huge"], rel=0.005)


def test_all_of_it_is_on_a_line(looked: Looked) -> None:
    _, _, found = looked
    assert sum(line.resident for line in found.lines) + found.rest == found.rss
    assert abs(found.rest) <= 0.005 * found.rss
