"""Paths of an experiment's table, and workloads that are files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.cli.shared import experiment_from_flags
from dballoc.experiment.experiment_paths import anchor_paths
from dballoc.ground.errors import UsageError

BASE = Path("/base")


def test_every_path_is_taken_from_the_base() -> None:
    table = {
        "server": {"basedir": "b", "use": "mysql"},
        "data": {"directory": "../d", "sql": ["x.sql", "/abs.sql"]},
        "workload": {"w": {"script": "w.lua", "prepared": 3}},
        "variant": [{"name": "v", "preload": ["./m.so"], "server": {"basedir": "c"}}],
    }
    assert anchor_paths(table, BASE) == {
        "server": {"basedir": "/base/b", "use": "mysql"},
        "data": {"directory": "/d", "sql": ["/base/x.sql", "/abs.sql"]},
        "workload": {"w": {"script": "/base/w.lua", "prepared": 3}},
        "variant": [{"name": "v", "preload": ["/base/m.so"], "server": {"basedir": "/base/c"}}],
    }


def test_a_second_time_changes_nothing() -> None:
    once = anchor_paths({"workloads": ["./a.sql"], "data": {"sql": ["b.sql"]}}, BASE)
    assert anchor_paths(once, Path("/other")) == once


@given(st.dictionaries(st.sampled_from(["server", "data", "workload", "variant", "workloads"]), st.one_of(
    st.none(), st.integers(), st.text(max_size=3), st.lists(st.integers()), st.lists(st.dictionaries(st.just("preload"), st.integers())),
    st.dictionaries(st.sampled_from(["basedir", "sql", "w"]), st.integers()))))  # fmt: skip
def test_what_is_of_the_wrong_type_is_left_for_the_model(table: dict) -> None:
    anchor_paths(table, BASE)


def test_workloads_by_path() -> None:
    table = anchor_paths(
        {"workloads": ["oltp_read_only", "./my.sql", "sub/my.lua", "oltp_read_only.lua"]},
        BASE,
        {"oltp_read_only"},
    )
    assert table["workloads"] == ["oltp_read_only", "my", "my.lua", "oltp_read_only.lua"]
    assert table["workload"] == {
        "my": {"sql": "/base/my.sql"}, "my.lua": {"script": "/base/sub/my.lua"},
        "oltp_read_only.lua": {"script": "/base/oltp_read_only.lua"},
    }  # fmt: skip


def test_a_path_of_another_kind() -> None:
    with pytest.raises(
        UsageError, match=r"workload '\./x\.txt' is neither a \.lua nor a \.sql file"
    ):
        anchor_paths({"workloads": ["./x.txt"]}, BASE)


def test_flags_take_their_own_workloads_without_the_demos_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = experiment_from_flags.experiment(None, None, {"workloads": ["./my.sql"]})
    assert (model.workloads, model.workload["my"].sql) == (["my"], str(tmp_path / "my.sql"))
    assert model.load.options == {}
    assert experiment_from_flags.experiment(
        None, None, {"workloads": ["oltp_read_only"]}
    ).load.options == {"range_size": "1000"}
