"""Flags laid over an experiment file: what they replace, what they leave, what they refuse."""

from typing import Annotated

import pytest
import typer

from dballoc.cli.shared import experiment_from_flags
from dballoc.cli.shared.field_flags import Changes, takes_flags
from dballoc.cli.shared.flags import ExperimentSource
from dballoc.cli.verb_list import application
from dballoc.experiment.flag import Flag
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import UsageError

TABLE = {
    "baseline": "tuned",
    "threads": [1],
    "blocks": 3,
    "budget": "5m",
    "server": {"use": "mariadb", "options": {"a": "1"}},
    "variant": [{"name": "tuned", "tunables": {"x": "1"}}, {"name": "glibc"}],
}


def test_no_flag_leaves_the_file_alone() -> None:
    assert experiment_from_flags.overlay(TABLE, {}) == TABLE


def test_allocators_replace_the_variants() -> None:
    result = experiment_from_flags.overlay(TABLE, {"allocators": ["jemalloc", "glibc"]})
    # Not what the server brings, which is another malloc in some builds.
    assert result["variant"] == [
        {"name": "jemalloc", "allocator": "jemalloc"},
        {"name": "glibc", "allocator": "glibc"},
    ]
    assert result["baseline"] == "glibc"


def test_a_list_of_no_allocators_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^--allocators: name at least one, like glibc,jemalloc"):
        experiment_from_flags.read_experiment(ExperimentSource(allocators=" ,"), {})


def test_without_glibc_the_first_is_the_baseline() -> None:
    assert (
        experiment_from_flags.overlay(TABLE, {"allocators": ["mimalloc", "jemalloc"]})["baseline"]
        == "mimalloc"
    )


def test_dotted_flags_reach_into_sections_and_merge_tables() -> None:
    result = experiment_from_flags.overlay(
        TABLE, {"server.use": "mysql", "server.options": {"b": "2"}, "data.rows": 10}
    )
    assert result["server"] == {"use": "mysql", "options": {"a": "1", "b": "2"}}
    assert result["data"] == {"rows": 10}


def test_the_table_given_is_not_changed() -> None:
    before = repr(TABLE)
    experiment_from_flags.overlay(
        TABLE, {"server.options": {"b": "2"}, "threads": [8], "allocators": ["glibc"]}
    )
    assert repr(TABLE) == before


def test_time_asked_for_beats_the_files_blocks_and_the_other_way_round() -> None:
    assert "blocks" not in experiment_from_flags.overlay(TABLE, {"budget": "1m"})
    assert "budget" not in experiment_from_flags.overlay(TABLE, {"blocks": 2})
    both = experiment_from_flags.overlay(TABLE, {"budget": "1m", "blocks": 2})
    assert (both["budget"], both["blocks"]) == ("1m", 2)


def test_with_no_argument_it_is_the_demo() -> None:
    model = experiment_from_flags.experiment(None, None, {})
    assert (model.name, model.baseline) == ("demo", "glibc")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"threads": [0]}, "command line: threads[0]: input should be greater than or equal to 1, not 0"),
        ({"allocators": ["a", "a"]}, "command line: two variants are called 'a'; give each a name of its own"),
        ({"budget": "20"}, "command line: budget: '20' is not a duration; write it with its unit, like \"10s\", \"2m\" or \"500ms\""),
    ],
)  # fmt: skip
def test_bad_flags_name_the_command_line(flags: dict, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        experiment_from_flags.experiment(None, None, flags)
    assert str(caught.value) == message


def test_a_shipped_experiment_that_is_not_there() -> None:
    with pytest.raises(UsageError, match=r"no experiment 'demmo'; did you mean 'demo'\?"):
        experiment_from_flags.experiment(None, "demmo", {})


def read_flags(*words: str) -> Changes:
    """Return what a verb with some of the experiment's flags gets from a command line."""
    changes: Changes = {}

    @takes_flags(
        [
            ("named", "server.basedir", "server.options", "threads", "workloads", "time.warmup"),
            ("counters", "load.prepared_statements", "data.sql", "blocks", "seed", "tune.aim"),
        ],
        blocks=Flag("--rounds", "N", "Blocks, by another name."),
    )
    def verb(
        source: ExperimentSource, given: Annotated[Changes, Experiment], seed: int = 3
    ) -> None:
        changes.update(given, named=source.named, own=seed)

    app = typer.Typer()
    app.command()(verb)
    app(words, standalone_mode=False)
    return changes


def test_a_verbs_flags_are_typed_as_the_models_fields() -> None:
    assert read_flags() == {"named": None, "own": 3}
    assert read_flags(
        *("--experiment", "demo", "--seed", "5", "--basedir", "/x", "--no-counters", "--for", "m"),
        *(
            "--option",
            "a=1",
            "--option",
            "b = x=y",
            "--threads",
            "1, 16",
            "--workloads",
            "a, b,,c ",
        ),
        *("--warmup", "3s", "--no-prepared", "--data-sql", "a", "--data-sql", "b", "--rounds", "2"),
    ) == {
        **{"named": "demo", "own": 5, "server.basedir": "/x", "counters": [], "tune.aim": "m"},
        **{"server.options": {"a": "1", "b": "x=y"}, "threads": [1, 16]},
        **{"workloads": ["a", "b", "c"], "time.warmup": "3s", "load.prepared_statements": False},
        **{"data.sql": ["a", "b"], "blocks": 2},
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--threads", "1,many"), "--threads: '1,many' is not a list of numbers; write it like 1,16,64"),
        (("--option", "a"), "--option: 'a' has no '='; write it like --option innodb_buffer_pool_size=1G"),
    ],
)  # fmt: skip
def test_what_is_no_number_or_pair_is_refused(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_flags(*words)
    assert str(caught.value) == message


def test_an_engine_that_is_none_is_refused_before_a_start() -> None:
    with pytest.raises(typer.BadParameter, match="'x' is not one of 'innodb', 'rocksdb'"):
        application(("list",))(
            ["list", "allocators", "--prove", "--engine", "x"], standalone_mode=False
        )
