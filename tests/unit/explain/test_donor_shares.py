"""What of live heap each owner has at least and at most."""

import json
from dataclasses import replace

import pytest
from example_explanations import look
from example_server_memory import make_server_memory, make_snapshot
from hypothesis import given
from hypothesis import strategies as st

from dballoc.evidence.sql.server_memory import LOGS, SESSIONS, OwnerMemory, assign_to_owners
from dballoc.explain.difference import compare_explanations
from dballoc.explain.ledger.label_blocks import Demand, divide_donor
from dballoc.explain.ledger.ledger import build_ledger
from dballoc.explain.ledger.ledger_line import LedgerLine
from dballoc.explain.output import saved_snapshots
from dballoc.explain.output.load_snapshots import load_series
from dballoc.ground.errors import UsageError
from dballoc.process import smaps
from dballoc.process.mapping_kind import MappingKind

MIB = 1 << 20


def make_donor(size: int, resident: int) -> LedgerLine:
    return LedgerLine(
        group="heap",
        owner=MappingKind.MALLOC,
        resident=resident,
        size=size,
        source="x",
        confidence="exact",
    )


DEMANDS = st.lists(
    st.tuples(st.integers(1, 1 << 40), st.floats(0, 1), st.integers(0, 1 << 30)), max_size=5
)


@given(DEMANDS, st.integers(0, 1 << 41), st.floats(0, 1))
def test_shares_add_up_and_lie_within_their_bounds(
    sizes: list[tuple[int, float, int]], more: int, share: float
) -> None:
    demands = [
        Demand(number, size, int(size * part), grain)
        for number, (size, part, grain) in enumerate(sizes)
    ]
    size = sum(demand.size for demand in demands) + more
    donor = make_donor(size, int(size * share))
    divided = divide_donor(donor, demands)
    total = sum(each.resident for each in divided.shares)
    assert 0 <= total <= donor.resident
    assert 0 <= divided.slack <= total
    for demand, each in zip(demands, divided.shares, strict=True):
        assert 0 <= each.least <= each.resident <= each.most <= demand.size
    # A page that is not resident is somebody's: all together have touched the rest.
    if all(demand.touched == 0 for demand in demands) and not more:
        assert total == donor.resident


# MySQL 9.7 under tcmalloc, before and while a statement has a temporary table of 255 MiB in eight
# blocks, the last of which it fills: RSS has risen by 186.5 MiB.
COUNTED = {
    "memory/temptable/physical_ram": (8, 255 * MIB),
    "memory/innodb/log_buffer_memory": (1, 64 * MIB),
    "memory/innodb/memory": (9000, 40 * MIB),
}
IDLE, RISE, HOLES = 190 * MIB, int(186.5 * MIB), 20 * MIB


def explain_tables(counted: dict[str, tuple[int, int]], rise: int):
    [mapping] = smaps.parse_smaps("7f0000000000-7f0100000000 rw-p 0 00:00 0\nRss: 4 kB\n")
    tables = counted.get("memory/temptable/physical_ram", (0, 0))[1]
    mapping = replace(
        mapping, end=mapping.start + IDLE + HOLES + tables, rss=IDLE + rise, flags=frozenset()
    )
    look_at_it = make_snapshot(mappings=[mapping], kinds=[MappingKind.MALLOC])
    sessions = {"memory/temptable/physical_ram": tables} if tables else {}
    pages = OwnerMemory(owner="pages", bytes=48 * MIB, source="x", touched=16 * MIB, grain=48 << 10)
    labels = make_server_memory(
        version="9.7.4", heap=[*assign_to_owners(counted, sessions, 0), pages]
    )
    return build_ledger(look_at_it, labels)


def test_what_was_asked_for_and_never_touched_is_taken_from_nobody_else() -> None:
    idle = explain_tables({k: v for k, v in COUNTED.items() if "temptable" not in k}, 0)
    busy = explain_tables(COUNTED, RISE)
    before, after = ({x.owner: x for x in each.lines} for each in (idle, busy))
    for owner in ("pages", LOGS, "memory/innodb"):
        assert after[owner].resident == before[owner].resident, owner
    sessions = after[SESSIONS]
    assert sessions.size == 255 * MIB
    assert sessions.is_bounded
    low, high = sessions.bounds
    assert low <= RISE <= high
    assert "asked for 255 MiB" in sessions.describe_bounds()
    # What nobody claims did not change: the interval has what it was.
    least, most = busy.unowned_bounds
    assert least <= idle.unowned <= most
    assert (busy.rss, busy.rest) == (IDLE + RISE, 0)


def test_sessions_large_blocks_are_counted_in_pages_where_malloc_tells_them() -> None:
    labels = assign_to_owners(COUNTED, {"memory/temptable/physical_ram": 255 * MIB}, 0)
    [sessions] = [label for label in labels if label.owner == SESSIONS]
    assert sessions.sizes == tuple((1 << n) * MIB for n in range(7, -1, -1))
    assert sessions.parts[0] == ("memory/temptable/physical_ram", 255 * MIB)


@pytest.mark.parametrize(
    ("least", "most", "says"),
    [
        (100, 100, "asked for 188 MiB; 41.0 MiB not resident"),
        (120, 147, "at most; at least 120 MiB; asked for 188 MiB"),
        (120, 170, "120 MiB to 170 MiB; asked for 188 MiB"),
    ],
)
def test_a_line_says_what_is_known(least: int, most: int, says: str) -> None:
    line = replace(
        make_donor(188 * MIB, 147 * MIB),
        owner=SESSIONS,
        confidence="labelled",
        least=None if least == most else least * MIB,
        most=None if least == most else most * MIB,
    )
    assert line.describe_bounds() == says


def test_a_change_of_bounded_lines_is_bounded() -> None:
    before, after = look({SESSIONS: 10}), look({SESSIONS: 200})
    lines = [
        replace(x, least=150 * MIB, most=220 * MIB) if x.owner == SESSIONS else x
        for x in after.ledger.lines
    ]
    after = replace(after, ledger=replace(after.ledger, lines=lines))
    difference = compare_explanations(before, after)
    assert "between +140 MiB and +210 MiB" in difference.sentence
    [change] = [c for c in difference.as_json()["changes"] if c["owner"] == SESSIONS]
    assert (change["least"], change["most"]) == (140 * MIB, 210 * MIB)
    assert difference.changes[1].least is None


def test_the_verdict_and_the_line_have_one_figure() -> None:
    """188 MiB of statements were asked for, and 147 MiB are resident."""
    found = look({SESSIONS: 147}, sessions=[("app", 2, 188 * MIB)])
    [verdict] = [v for v in found.verdicts if v.key == "sessions"]
    assert "2 connections have 147 MiB" in verdict.headline
    assert f"{147 * MIB / found.ledger.rss:.0%}".replace("%", " %") in verdict.headline
    assert "188 MiB asked for" in verdict.evidence[0]


def test_bounds_that_no_memory_can_have_are_refused(tmp_path) -> None:
    """A saved snapshot is anybody's file: no memory has such a size."""
    document = saved_snapshots.make_document(look())
    for key, value in (("least", 2**62), ("most", 2**62), ("parts", [["x", 2**62]])):
        broken = json.loads(json.dumps(document))
        broken["lines"][0][key] = value
        path = tmp_path / "x.json"
        path.write_text(json.dumps(broken))
        with pytest.raises(UsageError, match="larger than any memory"):
            load_series(path)
    path.write_text(json.dumps(document | {"unowned_most": 2**62}))
    with pytest.raises(UsageError, match="larger than any memory"):
        load_series(path)
