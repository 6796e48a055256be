"""The catalogue's workloads and cycles, and an experiment's own ones that build on them."""

import tomllib
from importlib.resources import files

import pytest
from pydantic import ValidationError

from dballoc import catalogue
from dballoc.cli.shared import experiment_from_flags
from dballoc.experiment.model import Load
from dballoc.ground.errors import UsageError
from dballoc.load import workload
from dballoc.load.workload_cycles import expand

MICRO = catalogue.cycles()["microbenchmarks"]
KEYS = {
    "title",
    "script",
    "group",
    "options",
    "prepared",
    "text",
    "writes",
    "brings",
    "ends",
    "whole",
    "program",
    "hammerdb",
    "replica",
    "backup",
}


def test_older_comparisons_and_small_datum_send_text() -> None:
    text = {name for name, row in catalogue.workloads().items() if row.get("text")}
    older = ("percona-2012_", "chinaunix-2013_")
    assert text >= {n for n in catalogue.workloads() if n.startswith(older)}
    assert text >= {name for name in MICRO if name.endswith("_range=100")}
    assert not workload.of_catalogue("percona-2012_read-only").prepares(Load())


def test_every_key_is_explained_and_every_option_is_text() -> None:
    head = (files("dballoc.catalogue") / "workloads.toml").read_text().split("\n[")[0]
    for name, row in catalogue.workloads().items():
        assert set(row) <= KEYS, name
        assert {type(v) for v in row.get("options", {}).values()} <= {str}, name
    assert all(f"# {key} " in head for key in KEYS)


def test_the_published_set_is_whole() -> None:
    names = [w for w in MICRO["workloads"] if w != "load"]
    assert MICRO["workloads"][0] == "load"
    assert len(names) == len(set(names)) == 32
    groups = [catalogue.workloads()[name]["group"] for name in names]
    assert {g: groups.count(g) for g in groups} == {
        "point": 9,
        "range": 5,
        "range-agg": 8,
        "writes": 10,
    }
    # The number in the name is the range of the script; nothing is prepared in the server.
    for name in names:
        row = catalogue.workloads()[name]
        assert row["options"]["range"] == name.partition("=")[2]
        assert row["text"]
        assert not workload.of_catalogue(name).writes or row["group"] == "writes"


def test_a_cycle_stands_for_its_workloads() -> None:
    table = expand({"workloads": ["microbenchmarks", "tpcc"]})
    assert table["workloads"] == [*MICRO["workloads"], "tpcc"]
    assert table["warm"] == ["point-query_range=100"]
    assert table["before"] == MICRO["before"]
    own = expand({"workloads": ["microbenchmarks"], "warm": [], "before": {}})
    assert own["warm"] == []
    assert own["before"] == {}
    for other in ({"workloads": ["tpcc"]}, {}, {"workloads": 1}, {"workloads": [1]}):
        assert expand(other) == other


def test_a_cycle_on_the_command_line() -> None:
    model = experiment_from_flags.experiment(None, None, {"workloads": ["microbenchmarks"]})
    assert (model.workloads, model.warm) == (MICRO["workloads"], MICRO["warm"])
    assert model.before == MICRO["before"]
    # Other workloads on the command line have nothing to do with what warms up for the file's.
    other = experiment_from_flags.experiment(
        None, "smalldatum-2025-innodb", {"workloads": ["oltp_insert"]}
    )
    assert (other.warm, other.before) == ([], {})


def test_a_workload_with_other_options(experiment) -> None:
    own = {"wide": {"use": "tpcc", "options": {"warehouses": 3, "items": "50"}}}
    model = experiment(
        workloads=["wide", "oltp_insert"], workload=own, load={"options": {"customers": "7"}}
    )
    found = workload.settle(model)["wide"]
    assert (found.name, found.script, found.brings) == ("wide", "dballoc_tpcc", True)
    # What sizes its data is told to its prepare too.
    assert found.options == {"warehouses": "3", "items": "50", "customers": "7"}
    assert workload.settle(model)["oltp_insert"].options == {}


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"x": {"use": "tpc-c"}}, "no workload 'tpc-c'; did you mean 'tpcc'"),
        (
            {"x": {"use": "load"}},
            "workload 'x': load cannot have another name or options of its own",
        ),
        ({"tpcc": {"use": "tpcc"}}, "workload.tpcc: dballoc has a workload of that name"),
        (
            {"microbenchmarks": {"use": "tpcc"}},
            "workload.microbenchmarks: dballoc has a workload of that name",
        ),
    ],
)
def test_what_an_own_workload_cannot_be(experiment, own, message) -> None:
    with pytest.raises(UsageError, match=message):
        workload.settle(experiment(workloads=list(own), workload=own))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workloads": ["oltp_insert", "load"]}, "load comes first"),
        ({"workloads": ["load"], "data": {"sql": ["/x.sql"]}}, "it cannot fill data of your own"),
        ({"workloads": ["oltp_insert"], "warm": ["load"]}, "load is not a warm-up"),
        ({"before": {"oltp_insert": ["settle"]}}, "before: 'oltp_insert' is not among"),
        ({"before": {"oltp_read_only": ["load"]}}, "before: load comes first"),
        ({"before": {"oltp_read_only": []}}, "at least 1 item"),
        ({"workloads": ["settle"]}, "settle is a step of before, not a workload"),
        ({"warm": ["settle"]}, "settle is a step of before, not a workload"),
        ({"workload": {"x": {"use": "tpcc", "sql": "/x.sql"}}}, "give exactly one of script"),
    ],
)
def test_what_an_experiment_cannot_be(experiment, changes, message) -> None:
    with pytest.raises(ValidationError, match=message):
        experiment(**changes)
    # A fresh start for each needs no order.
    assert experiment(workloads=["oltp_insert", "load"], sequence="fresh").sequence == "fresh"


def test_titles_are_short_enough_for_a_list() -> None:
    rows = tomllib.loads((files("dballoc.catalogue") / "workloads.toml").read_text())
    assert max(len(row["title"]) for row in rows.values()) <= 128
