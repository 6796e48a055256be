"""The shipped experiments beside their posts: every difference is known by name.

The list is tests/data/post-differences.txt. Whoever changes an experiment, or what its post states,
writes it anew and reads what has changed:

    PYTHONPATH=src .venv/bin/python tests/unit/questions/test_shipped_posts.py
"""

from pathlib import Path

import pytest

from dballoc import catalogue
from dballoc.doctor.shipped_experiments import plan_setup
from dballoc.experiment import experiment_file
from dballoc.experiment.model import Experiment
from dballoc.load.post_like import fill_post
from dballoc.load.workload_cycles import expand
from dballoc.questions.published.setup.post_differences import compare_with_post
from dballoc.questions.published.setup.run_setup import NOT_RUN, NOT_STATED

KNOWN = Path(__file__).parents[2] / "data" / "post-differences.txt"
HEAD = """What shipped experiments do otherwise than their posts, before they are scaled, on any host.
Written by: PYTHONPATH=src .venv/bin/python tests/unit/questions/test_shipped_posts.py
"""
# CPUs of a server, for sweeps over them: those of this machine must not decide.
CORES = 8


def read_shipped() -> dict[str, Experiment]:
    """The shipped experiments that repeat a post."""
    tables = {n: experiment_file.parse_table(t, n) for n, t in catalogue.experiments().items()}
    return {
        name: experiment_file.build_experiment(expand(fill_post(table, name)), name, CORES)
        for name, table in tables.items()
        if "published" in table or "post" in table
    }


def describe_differences(experiment: Experiment) -> list[str]:
    """A line for each difference."""
    assert experiment.post is not None, f"{experiment.name} has no [post]"
    return [
        f"{' / '.join(filter(None, [d.topic, d.item]))}: the post: {d.post}; here: {d.run}"
        for d in compare_with_post(experiment.post, plan_setup(experiment))
        if d.differs
    ]


def write_list() -> str:
    """The whole list, an experiment after the other."""
    parts = [
        "\n".join([f"== {name}", *describe_differences(experiment)])
        for name, experiment in read_shipped().items()
    ]
    return "\n\n".join([HEAD.strip(), *parts]) + "\n"


def read_list() -> dict[str, list[str]]:
    """The known differences by experiment."""
    _, *parts = KNOWN.read_text(encoding="utf-8").split("\n== ")
    return {name: lines for name, *lines in (part.strip().split("\n") for part in parts)}


def test_the_list_has_every_experiment() -> None:
    assert list(read_list()) == list(read_shipped())


@pytest.mark.parametrize("name", list(read_shipped()))
def test_every_difference_is_known_by_name(name: str) -> None:
    assert describe_differences(read_shipped()[name]) == read_list()[name], (
        f"see the top of {Path(__file__).name}"
    )


@pytest.mark.parametrize("name", list(read_shipped()))
def test_a_post_says_where_it_is_from(name: str) -> None:
    post = read_shipped()[name].post
    assert post is not None
    assert post.source
    assert post.machine
    assert post.server


@pytest.mark.parametrize(
    ("name", "topic", "word"),
    [
        ("mdev-38369", "data", "prepared once and copied"),
        ("smalldatum-2025-innodb", "options", "innodb_data_file_path"),
        ("smalldatum-2025-innodb-fit", "options", "innodb_data_file_path"),
        ("chinaunix-2013", "transport", "unless bench --ray"),
    ],
)
def test_a_reason_says_why_it_cannot_be_as_in_the_post(name: str, topic: str, word: str) -> None:
    post = read_shipped()[name].post
    assert post is not None
    assert word in {str(key): reason for key, reason in post.reasons.items()}[topic]


@pytest.mark.parametrize("name", list(read_shipped()))
def test_every_statement_names_its_paragraph(name: str) -> None:
    """The model refuses a statement without one; here, what a reader sees has one too."""
    experiment = read_shipped()[name]
    assert experiment.post is not None
    compared = compare_with_post(experiment.post, plan_setup(experiment))
    silent = (NOT_STATED, NOT_RUN)
    assert {
        (c.topic, c.item) for c in compared if c.post not in silent and not c.paragraph
    } == set()
    assert not [c for c in compared if c.post in silent and c.paragraph]


if __name__ == "__main__":
    KNOWN.write_text(write_list(), encoding="utf-8")
    print(f"written: {KNOWN}")
