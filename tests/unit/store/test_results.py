"""results.sqlite: whole or not at all, one transaction a trial, and clear words for what is not
ours.
"""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from example_results import BARE_FACTS

from dballoc.experiment.schedule import Slot
from dballoc.ground.errors import Failure, UsageError
from dballoc.store.results import FILE, FORMAT, Results, TrialRecord
from dballoc.store.rows import (
    BlockRow,
    HistogramRow,
    HostRow,
    MarkRow,
    MeasuredTrial,
    SliceRow,
    TrialPart,
    VariantRow,
)

VARIANT = VariantRow(
    name="glibc",
    allocator="glibc",
    allocator_version="2.36",
    libraries="[]",
    environment="{}",
    server="MariaDB 10.11",
    server_version="10.11",
    engine="innodb",
    command="[]",
    pool_bytes=None,
    thp=None,
)
SLOT = Slot(block=1, attempt=0, position=1, variant="glibc", role="A1")
TRIAL = MeasuredTrial(started=1.0, ended=2.0, seconds_planned=1.0, outcome="ok")
MARK = MarkRow(
    step=0,
    t=0.1,
    rss=1,
    pss=1,
    anon_huge=0,
    reserved=0,
    read_only=0,
    mappings=9,
)


def create(directory: Path) -> Results:
    return Results.create(directory, BARE_FACTS, [VARIANT])


def record(*rows: TrialPart, **more: Any) -> TrialRecord:
    return TrialRecord(trial=TRIAL, rows=list(rows), **more)


def test_what_is_written_is_found_again(tmp_path: Path) -> None:
    results = create(tmp_path)
    results.add_trial(SLOT, record(MARK, HistogramRow(step=1, ms=0.5, count=3)))
    results.add(
        BlockRow(
            design="solo",
            block=1,
            attempt=0,
            started=1,
            ended=2,
            steal=0,
            others=0,
            probe_before=0.1,
            probe_after=0.2,
            disturbed=None,
        )
    )
    results.change_facts(ending="planned")
    results.close()
    again = Results.open(tmp_path, read_only=True)
    assert again.facts() == replace(BARE_FACTS, ending="planned")
    assert again.finished("solo") == {(1, 0, 1)}
    assert again.probes() == [0.1, 0.2]
    assert again.table("histogram") == [(1, 1, 0.5, 3)]
    again.close()


SLICE = SliceRow(
    workload="oltp_read_only",
    slice=0,
    piece=0,
    half=0,
    t=1.0,
    seconds=0.17,
    queries=10,
    events=0.7,
    cpu=0.1,
    idle=0.0,
    steal=0.02,
)


def test_a_slice_has_its_steal(tmp_path: Path) -> None:
    results = create(tmp_path)
    results.add_trial(SLOT, record(SLICE))
    assert results.table("slice")[0][-1] == 0.02
    results.close()


def test_a_host_is_stored_as_it_is_now(tmp_path: Path) -> None:
    results = create(tmp_path)
    for kernel in ("boot 1", "boot 2", "boot 2"):
        results.add_host(HostRow(host="a", kernel=kernel, environment="{}"))
    assert results.table("host") == [("a", "boot 2", "{}")]
    results.close()


def test_read_only_is_read_only(tmp_path: Path) -> None:
    create(tmp_path).close()
    results = Results.open(tmp_path, read_only=True)
    with pytest.raises(
        Failure, match="cannot write the results: attempt to write a readonly database"
    ):
        results.change_facts(ending="planned")
    results.close()


def test_a_trial_is_there_once(tmp_path: Path) -> None:
    results = create(tmp_path)
    results.add_trial(SLOT, record())
    with pytest.raises(sqlite3.IntegrityError):
        results.add_trial(SLOT, record())
    results.close()


def test_a_trial_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    results = create(tmp_path)
    with pytest.raises(sqlite3.Error):
        results.add_trial(SLOT, record(MARK, MARK))  # the second breaks the primary key
    assert results.finished("solo") == set()
    # And the database is fit for the next one.
    results.add_trial(SLOT, record(MARK))
    assert results.finished("solo") == {(1, 0, 1)}
    results.close()


def test_a_creation_that_was_killed_leaves_no_database(tmp_path: Path) -> None:
    (tmp_path / ".dballoc-partial-0123456789ab").write_text("half of something")
    with pytest.raises(UsageError, match=f"not a results directory of dballoc: no {FILE}"):
        Results.open(tmp_path)
    create(tmp_path).close()
    assert sorted(p.name for p in tmp_path.iterdir()) == [".dballoc-partial-0123456789ab", FILE]


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(Failure, match=r"results\.sqlite: cannot be written: Is a directory"):
        create(tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"not a database at all, only text\n" * 40, "file is not a database"),
        (b"", "it has no table 'campaign'"),
    ],
)
def test_what_is_no_database_of_ours(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(UsageError) as caught:
        Results.open(tmp_path)
    assert str(caught.value) == f"{tmp_path / FILE}: not a results database of dballoc: {reason}"


def test_another_versions_database(tmp_path: Path) -> None:
    create(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / FILE)) as db, db:
        db.execute("UPDATE campaign SET value = '99' WHERE key = 'format'")
    with pytest.raises(UsageError) as caught:
        Results.open(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path / FILE}: format 99 of dballoc 0.1.0; this dballoc reads format {FORMAT}: use that version, or a new --out"
    )


def test_what_servers_settled_otherwise_is_one_fact(tmp_path: Path) -> None:
    results = create(tmp_path)
    results.add_trial(SLOT, record())
    assert not results.facts().settled_otherwise
    for position, otherwise in ((2, {"a_now": "b_now"}), (3, {"c_pct": ""})):
        results.add_trial(
            replace(SLOT, position=position), record(settled_otherwise=dict(otherwise))
        )
    fact = {"glibc": {"a_now": "b_now", "c_pct": ""}}
    assert results.facts().settled_otherwise == fact
    results.close()
