"""The experiment file: read, written, and read back as the same experiment."""

import sqlite3
import tomllib
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc import catalogue
from dballoc.experiment import experiment_file
from dballoc.experiment.durations_and_sizes import HUGE_PAGE_SIZES
from dballoc.experiment.model import Experiment
from dballoc.load.post_like import fill_post

GOLDEN = Path(__file__).parents[2] / "data" / "golden" / "results"
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+=@-]{0,20}", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=12).filter(
    str.isprintable
)
DURATIONS = st.integers(min_value=2, max_value=10_000).map(lambda n: f"{n}s") | st.sampled_from(
    ["2500ms", "1m30s", "2h"]
)
OPTIONS = st.dictionaries(
    st.from_regex(r"[a-z_]{1,12}", fullmatch=True),
    TEXTS | st.integers() | st.booleans(),
    max_size=3,
)


@st.composite
def experiments(draw: st.DrawFn) -> Experiment:
    """Any valid experiment, whatever this machine can do."""
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    variants = [
        {
            "name": name,
            "tunables": draw(OPTIONS),
            "env": draw(OPTIONS),
            "preload": draw(st.lists(TEXTS, max_size=2)),
            "server": draw(
                st.fixed_dictionaries(
                    {}, optional={"options": OPTIONS, "connect": st.just("tcp"), "use": TEXTS}
                )
            ),
            **draw(
                st.fixed_dictionaries(
                    {},
                    optional={
                        "thp": st.sampled_from(["always", "madvise", "never"]),
                        "thp_defrag": st.sampled_from(["defer", "defer+madvise", "never"]),
                        "thp_sizes": st.dictionaries(
                            st.sampled_from(HUGE_PAGE_SIZES),
                            st.sampled_from(["always", "inherit", "madvise", "never"]),
                            max_size=2,
                        ),
                    },
                )
            ),
        }
        for name in names
    ]
    return Experiment.model_validate(
        {
            "name": draw(NAMES),
            "baseline": draw(st.sampled_from(names)),
            "workloads": draw(st.lists(TEXTS, min_size=1, max_size=3, unique=True)),
            "threads": draw(
                st.lists(
                    st.integers(min_value=1, max_value=5000), min_size=1, max_size=4, unique=True
                )
            ),
            "seed": draw(st.integers(min_value=-(2**62), max_value=2**62)),
            "time": {"level": draw(DURATIONS), "idle": draw(DURATIONS)},
            "server": {"options": draw(OPTIONS)},
            "variant": variants,
            **draw(
                st.fixed_dictionaries(
                    {},
                    optional={
                        "warmup_sql": st.lists(TEXTS, max_size=2) | st.just("scan"),
                        "no_stand_in": st.dictionaries(TEXTS, TEXTS, max_size=2),
                        "budget": DURATIONS,
                        "blocks": st.integers(min_value=1, max_value=40),
                        "levels": st.just("fresh"),
                        "limits": st.just({"memory": "300M"}),
                        "cpu": st.sampled_from([{"count": 2}, {"server": "0-1"}]),
                    },
                )
            ),
        }
    )


@given(experiments())
def test_what_is_written_is_read_back(model: Experiment) -> None:
    again = experiment_file.build_experiment(
        tomllib.loads(experiment_file.format_experiment(model)), "here"
    )
    assert again == model
    assert experiment_file.compute_identity(again) == experiment_file.compute_identity(model)


def test_what_runs_before_is_read_back(experiment) -> None:
    model = experiment(
        before={"oltp_read_only": ["settle", "oltp_insert"]}, time={"settle": "1m30s"}
    )
    text = experiment_file.format_experiment(model)
    assert tomllib.loads(text)["time"]["settle"] == "1m30s"
    assert experiment_file.build_experiment(tomllib.loads(text), "here") == model
    assert model.loads == ["oltp_read_only", "oltp_insert"]
    assert model.settles


def test_every_shipped_experiment_is_valid(tmp_path: Path) -> None:
    for name, text in catalogue.experiments().items():
        path = tmp_path / f"{name}.toml"
        path.write_text(text)
        table = fill_post(experiment_file.read_table(path), name)
        assert experiment_file.build_experiment(table, name).name == name


def test_identity_tells_experiments_apart(experiment) -> None:
    assert experiment_file.compute_identity(experiment()) == experiment_file.compute_identity(
        experiment()
    )
    changes: list[dict[str, object]] = [
        {"seed": 2},
        {"threads": [1]},
        {"blocks": 3},
        {"variant": [{"name": "glibc"}]},
        {"counters": []},
        {"before": {"oltp_read_only": ["settle"]}},
        {"time": {"settle": "20s"}},
        {"warmup_sql": "scan"},
        {"no_stand_in": {"x": "y"}},
        *(
            {"variant": [{"name": "glibc"}, {"name": "jemalloc", **keys}, {"name": "tuned"}]}
            for keys in ({"thp_defrag": "never"}, {"thp_sizes": {"64K": "never"}})
        ),
    ]
    for change in changes:
        assert experiment_file.compute_identity(
            experiment(**change)
        ) != experiment_file.compute_identity(experiment())


def test_results_from_before_there_were_counters_can_be_resumed() -> None:
    # As it lies there: its tables are of an older format.
    with closing(sqlite3.connect(f"file:{GOLDEN / 'results.sqlite'}?mode=ro", uri=True)) as db:
        facts = dict(db.execute("SELECT key, value FROM campaign"))
    model = experiment_file.build_experiment(tomllib.loads(facts["experiment"]), "here")
    assert model.counters
    assert experiment_file.compute_identity(model) == facts["identity"]


def test_the_order_of_threads_does_not_matter(experiment) -> None:
    assert experiment(threads=[4, 1]).threads == [1, 4]


def test_a_variant_changes_the_server_for_itself_alone(experiment) -> None:
    model = experiment(
        server={"basedir": "/opt/a", "options": {"x": 1, "y": 2}},
        variant=[{"name": "glibc"}, {"name": "b", "server": {"use": "mysql", "options": {"y": 3}}}],
    )
    assert model.server_of(model.find("glibc")).options == {"x": "1", "y": "2"}
    other = model.server_of(model.find("b"))
    assert other.options == {"x": "1", "y": "3"}
    # Another family is not looked for in the first one's basedir.
    assert (other.use, other.basedir) == ("mysql", None)


@pytest.mark.parametrize(
    ("written", "read"), [(1, "1"), (True, "true"), (False, "false"), (0.5, "0.5"), ("1G", "1G")]
)
def test_options_may_be_written_as_toml_numbers(experiment, written: object, read: str) -> None:
    assert experiment(server={"options": {"x": written}}).server.options == {"x": read}
