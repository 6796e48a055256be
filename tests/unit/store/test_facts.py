"""Facts are stored as themselves, and read with every value of its type, or refused in one line."""

import json
from dataclasses import asdict, replace

import pytest
from example_replays import REPLAY_FACTS
from example_results import BARE_FACTS, DUET

from dballoc.experiment.designs import Design
from dballoc.ground import readers
from dballoc.store.facts import (
    DeclaredConfirmation,
    Environment,
    Facts,
    ImportedFacts,
    ImportedFile,
    KnobWorth,
    MachineTrials,
    Surveyed,
    WorkloadFacts,
    format_facts,
    parse_environment,
    parse_facts,
)

EVERYTHING = replace(
    BARE_FACTS,
    experiment='name = "x"\nthreads = [1]\n',
    environment=Environment(
        host="db1",
        cpus_of_cores=((0, 2), (1, 3)),
        cpus_of_nodes={"0": "0,2", "1": "1,3"},
        memory=2**34,
    ),
    designs=(Design.SOLO, Design.DUET),
    planned_blocks={"solo": 3, "duet": 4},
    duet=replace(DUET, client_halves=("2", "3"), scatter={"paired": float("inf")}),
    workloads={"reads": WorkloadFacts(title="what it does", options={"range": "100"})},
    budget_looks={"duet": (2, 4)},
    margin=0.03,
    replay=replace(REPLAY_FACTS, window=(1.0, 2.5)),
    imported=ImportedFacts(
        files=(ImportedFile(name="a.csv", sha256="ab"),),
        machines=(MachineTrials(name="", trials=2),),
    ),
    confirmations=(
        DeclaredConfirmation(
            base="glibc",
            directory="confirmation/glibc",
            finalists=("tuned",),
            experiment="name = 'x'\n",
        ),
    ),
    knobs=(KnobWorth(base="glibc", knob="arena_max", memory=0.6, measurable=True),),
    survey={"reads": Surveyed(peak=None, longest=0.5)},
)


def parse_changed(**rows: str) -> Facts:
    return parse_facts(format_facts(vars(EVERYTHING)) | rows)


@pytest.mark.parametrize("facts", [BARE_FACTS, EVERYTHING])
def test_what_is_stored_is_read_as_it_was(facts: Facts) -> None:
    assert parse_facts(format_facts(vars(facts))) == facts


def test_what_no_field_has_is_not_read() -> None:
    assert parse_changed(note="{") == EVERYTHING
    assert (
        parse_changed(survey='{"reads": {"peak": null, "longest": 0.5, "mean": 1}}') == EVERYTHING
    )


@pytest.mark.parametrize(
    ("key", "text", "complaint"),
    [
        ("seed", '"1"', "seed: Input should be a valid integer"),
        ("designs", "[]", "designs: .* is not a list of solo, duet and turns"),
        ("planned_blocks", '{"solo": true, "duet": 1}', "planned_blocks.solo: "),
        ("planned_blocks", '{"solo": 1}', "planned_blocks: duet is missing"),
        ("planned_blocks", '{"trio": 1}', "planned_blocks.trio"),
        ("duet", "{}", "duet: halves or threads are missing"),
        ("duet", '{"halves": ["0-x"]}', "duet.halves.0: "),
        ("kind", "bench", "kind: Input should be 'fit', 'replay' or 'tune'"),
        ("ending", "a\nb", "ending: .* cannot be printed"),
        ("workloads", '{"reads": {"title": "\\u001b[1m"}}', "workloads.reads.title: .* printed"),
        ("workloads", '{"a\\nb": {}}', "workloads.*cannot be printed"),
        ("margin", "2", "margin: Input should be less than 1"),
        ("search_seconds", "-1", "search_seconds: "),
        ("compared_elsewhere", "4", "compared_elsewhere: "),
        ("confirmations", '[{"base": "x", "directory": "../x", "finalists": ["t"]}]', "directory"),
        ("environment", '{"cpus_of_cores": [[100000]]}', "environment.cpus_of_cores.0.0: "),
        ("environment", '{"cpus_of_nodes": {"0": "a"}}', "environment.cpus_of_nodes.0: "),
        ("environment", "{", "environment: not JSON"),
    ],
)
def test_what_is_malformed_is_refused_in_one_line(key: str, text: str, complaint: str) -> None:
    with pytest.raises(
        readers.Unfit, match=f"^campaign: {complaint}|^campaign: .*{complaint}"
    ) as e:
        parse_changed(**{key: text})
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("key", ["dballoc", "experiment", "designs", "environment"])
def test_a_missing_fact_is_named(key: str) -> None:
    rows = format_facts(vars(BARE_FACTS))
    del rows[key]
    with pytest.raises(readers.Unfit, match=rf"^campaign: {key}: Field required$"):
        parse_facts(rows)


def test_replays_have_their_trace() -> None:
    with pytest.raises(readers.Unfit, match=r"^campaign: replay is missing$"):
        parse_facts(format_facts(vars(replace(BARE_FACTS, kind="replay"))))


def test_a_hosts_environment_is_read_alike() -> None:
    text = json.dumps(asdict(EVERYTHING.environment))
    assert parse_environment(text, "host.environment") == EVERYTHING.environment
    with pytest.raises(readers.Unfit, match=r"^host\.environment: memory: "):
        parse_environment('{"memory": -1}', "host.environment")
