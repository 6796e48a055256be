"""Sweeps: a variant for each value, with names that fit, values over cores, and one line for what
makes no sense.
"""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.cli.shared import experiment_from_flags
from dballoc.experiment import experiment_file, sweep
from dballoc.ground.errors import UsageError

BASE = {"baseline": "glibc", "workloads": ["oltp_read_only"], "threads": [1]}


def build(*variants, cores=12, **more):
    return experiment_file.build_experiment(
        {**BASE, **more, "variant": list(variants)}, "x.toml", cores
    )


def swept(values, name="MALLOC_ARENA_MAX", cores=12, **more):
    """The variants, but for the baseline, of a sweep of one setting."""
    return build(
        {"name": "glibc"}, {"name": "v", "sweep": {name: values}}, cores=cores, **more
    ).variant[1:]


def test_a_variant_of_each_value() -> None:
    found = swept(["1", "cores/6", "cores", "2*cores"])
    assert [(v.name, v.env) for v in found] == [
        ("v-MALLOC_ARENA_MAX=1", {"MALLOC_ARENA_MAX": "1"}),
        ("v-MALLOC_ARENA_MAX=2", {"MALLOC_ARENA_MAX": "2"}),
        ("v-MALLOC_ARENA_MAX=12", {"MALLOC_ARENA_MAX": "12"}),
        ("v-MALLOC_ARENA_MAX=24", {"MALLOC_ARENA_MAX": "24"}),
    ]


def test_what_comes_out_the_same_is_one_variant() -> None:
    assert [
        v.env["MALLOC_ARENA_MAX"] for v in swept(["1", "cores/6", "cores", "2*cores"], cores=2)
    ] == ["1", "2", "4"]


def test_the_servers_own_cpus_are_the_cores() -> None:
    assert [
        v.env["MALLOC_ARENA_MAX"] for v in swept(["cores"], cpu={"server": "0-2,7", "client": "8"})
    ] == ["4"]
    assert [v.env["MALLOC_ARENA_MAX"] for v in swept(["cores"], cpu={"count": 3})] == ["3"]


def test_env_tunables_and_server_options_and_every_combination() -> None:
    found = build(
        {"name": "glibc"},
        {
            "name": "j",
            "allocator": "jemalloc",
            "tunables": {"thp": "never"},
            "server": {"options": {"a": "1"}},
            "sweep": {
                "narenas": [1, "cores"],
                "server": {"innodb_buffer_pool_size": ["64M", "128M"]},
                "TZ": ["UTC"],
            },
        },
    ).variant[1:]
    assert [v.name for v in found] == [
        f"j-narenas={n}-innodb_buffer_pool_size={size}-TZ=UTC"
        for n, size in itertools.product(("1", "12"), ("64M", "128M"))
    ]
    last = found[-1]
    assert last.tunables == {"thp": "never", "narenas": "12"}
    assert last.server.options == {"a": "1", "innodb_buffer_pool_size": "128M"}
    assert last.env == {"TZ": "UTC"}
    assert last.allocator == "jemalloc"


def test_an_option_of_the_server_in_quotes_is_the_same() -> None:
    assert swept(["64M"], "server.innodb_buffer_pool_size") == swept(
        ["64M"], "server.innodb_buffer_pool_size"
    )
    assert swept(["64M"], "server.innodb_buffer_pool_size")[0].server.options == {
        "innodb_buffer_pool_size": "64M"
    }


def test_the_baseline_stays_beside_its_sweep() -> None:
    found = build({"name": "glibc", "sweep": {"MALLOC_ARENA_MAX": [1, 2]}})
    assert [v.name for v in found.variant] == [
        "glibc",
        "glibc-MALLOC_ARENA_MAX=1",
        "glibc-MALLOC_ARENA_MAX=2",
    ]
    assert found.variant[0].env == {}
    one = build(
        {"name": "glibc", "sweep": {"MALLOC_ARENA_MAX": [1, 2]}},
        baseline="glibc-MALLOC_ARENA_MAX=2",
    )
    assert [v.name for v in one.variant] == ["glibc-MALLOC_ARENA_MAX=1", "glibc-MALLOC_ARENA_MAX=2"]


def test_a_dumped_experiment_needs_no_cores() -> None:
    model = build({"name": "glibc", "sweep": {"MALLOC_ARENA_MAX": ["cores"]}})
    assert (
        experiment_file.build_experiment(
            experiment_file.parse_table(experiment_file.format_experiment(model), "y"), "y"
        )
        == model
    )


def test_names_that_do_not_fit() -> None:
    assert [v.name for v in swept(["a,b:c", "d e"], "SOME_VARIABLE")] == [
        "v-SOME_VARIABLE=a_b_c",
        "v-SOME_VARIABLE=d_e",
    ]
    long = swept(["1", "2"], "A_VARIABLE_" + "OF_A_VERY_LONG_NAME" * 4)
    assert [v.name for v in long] == ["v-1", "v-2"]
    assert [v.name for v in swept(["a,b", "a:b"], "X_Y")] == ["v-1", "v-2"]


@pytest.mark.parametrize(
    ("text", "cores", "value"),
    [
        ("cores", 2, 2), ("cores/6", 2, 1), ("cores/6", 48, 8), ("2*cores", 3, 6), ("8 * cores", 2, 16), ("(cores+1)/2", 4, 3),
        ("cores-4", 2, 1), ("cores/4", 6, 2), ("-cores + 10", 4, 6), ("1.5*cores", 2, 3),
    ],
)  # fmt: skip
def test_expressions(text, cores, value) -> None:
    assert sweep.evaluate_expression(text, cores) == value


@pytest.mark.parametrize(
    "text",
    ["cores cores", "cores**9", "cores()", "__import__('os').cores", "cores[0]", "cores if 1 else 2", "core+cores", "'a'*cores",
     "cores*1e308*1e308", "(" * 500 + "cores" + ")" * 500, "cores,1", "cores//2", "lambda: cores", "cores*1e400-cores*1e400"],
)  # fmt: skip
def test_what_is_no_expression(text) -> None:
    with pytest.raises(ValueError, match="is not an expression over cores"):
        sweep.evaluate_expression(text, 4)


@given(st.text(alphabet="cores0123456789+-*/(). ", max_size=40), st.integers(1, 1024))
def test_any_text_is_a_number_of_one_at_least_or_refused(text, cores) -> None:
    try:
        found = sweep.evaluate_expression(text, cores)
    except ValueError:
        return
    assert found >= 1


# What a variable of an experiment can be.
WORDS = st.text(
    st.characters(exclude_categories=["Cs"]).filter(str.isprintable), min_size=1, max_size=20
)


@given(
    st.dictionaries(st.from_regex(r"[A-Z][A-Z_]{0,30}", fullmatch=True),
                    st.lists(st.one_of(st.integers(-2**63, 2**63 - 1), WORDS), min_size=1, max_size=5),
                    min_size=1, max_size=3)
)  # fmt: skip
def test_every_combination_is_there_once_under_a_name_of_its_own(settings) -> None:
    wanted = [list(dict.fromkeys(map(str, values))) for values in settings.values()]
    if any("cores" in v for values in wanted for v in values):
        return
    found = build({"name": "glibc"}, {"name": "v", "sweep": settings}).variant[1:]
    assert [tuple(v.env.values()) for v in found] == list(itertools.product(*wanted))
    assert len({v.name for v in found}) == len(found)


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ([1], 'x.toml: variant "v": sweep: write it like { MALLOC_ARENA_MAX = ["1", "cores"] }'),
        ({}, 'x.toml: variant "v": sweep: write it like { MALLOC_ARENA_MAX = ["1", "cores"] }'),
        ({"A": []}, 'x.toml: variant "v": sweep: A: give a list of values, like ["1", "cores"]'),
        ({"A": "1"}, 'x.toml: variant "v": sweep: A: give a list of values, like ["1", "cores"]'),
        ({"A": [[1]]}, 'x.toml: variant "v": sweep: A: [1] is neither a text nor a number'),
        ({"A": ["cores^2"]},
         'x.toml: variant "v": sweep: A: \'cores^2\' is not an expression over cores; write it like "cores/6" or "2*cores"'),
        ({"A": ["cores/0"]}, "x.toml: variant \"v\": sweep: A: 'cores/0' divides by zero"),
        ({"A": list(range(15)), "B": list(range(15))},
         'x.toml: variant "v": sweep: 225 variants; give fewer values, 200 variants at most'),
    ],
)  # fmt: skip
def test_one_line_for_what_makes_no_sense(wrong, line) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(line)}$"):
        build({"name": "glibc"}, {"name": "v", "sweep": wrong})


def test_a_tunable_may_be_over_the_cores_without_a_sweep() -> None:
    many = {
        "name": "j",
        "allocator": "jemalloc",
        "tunables": {"narenas": "16*cores", "thp": "never"},
    }
    four = {**many, "name": "four", "cpu": {"count": 4}}
    assert [v.tunables for v in build({"name": "glibc"}, many, four).variant[1:]] == [
        {"narenas": "192", "thp": "never"},
        {"narenas": "64", "thp": "never"},
    ]
    with pytest.raises(
        UsageError, match=r'^x.toml: variant "j": tunables: narenas: .*write numbers'
    ):
        build({"name": "glibc"}, many, cores=None)
    many["tunables"]["narenas"] = "cores cores"
    with pytest.raises(UsageError, match=r"tunables: narenas: .* is not an expression over cores"):
        build({"name": "glibc"}, many)


def test_a_misspelt_sweep_is_found() -> None:
    with pytest.raises(UsageError, match='did you mean "sweep"'):
        build({"name": "glibc"}, {"name": "v", "swep": {"A": [1]}})


def test_what_is_no_table_is_left_for_the_model() -> None:
    with pytest.raises(UsageError, match=r'^x.toml: variant "v-A=1": env: .*not \'no\'$'):
        build({"name": "glibc"}, {"name": "v", "env": "no", "sweep": {"A": [1]}})


# -- from the command line -----------------------------------------------------------------------------------------------


def test_flags_sweep_the_baseline_or_the_variant_named() -> None:
    given = {
        "allocators": ["glibc", "jemalloc"],
        "sweep": experiment_from_flags.parse_sweeps(
            ["MALLOC_ARENA_MAX=1,2", "jemalloc:narenas=1,2"]
        ),
    }
    names = [v.name for v in experiment_from_flags.experiment(None, "demo", given).variant]
    assert names == [
        "glibc",
        "glibc-MALLOC_ARENA_MAX=1",
        "glibc-MALLOC_ARENA_MAX=2",
        "jemalloc-narenas=1",
        "jemalloc-narenas=2",
    ]


@pytest.mark.parametrize("text", ["", "MALLOC_ARENA_MAX", "=1", "A=", "A=,", "a b=1"])
def test_a_flag_of_another_form(text) -> None:
    with pytest.raises(UsageError, match=r"--sweep: .* is not of the form \[VARIANT:\]NAME=VALUE"):
        experiment_from_flags.parse_sweeps([text])


def test_a_flag_for_nobody() -> None:
    with pytest.raises(UsageError, match=r"--sweep A: there is no variant 'none'; there are glibc"):
        experiment_from_flags.experiment(
            None, "demo", {"allocators": ["glibc"], "sweep": [("none", "A", ["1"])]}
        )
