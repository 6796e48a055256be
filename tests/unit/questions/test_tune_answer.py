"""What is said of a search: also of one that could measure nothing."""

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dballoc.cli.results_verbs import deploy
from dballoc.document.model import Answer
from dballoc.ground.errors import Failure, UsageError
from dballoc.questions.tune.answer import answer_tune
from dballoc.questions.tune.figures import load_tuned
from dballoc.questions.tune.sections import (
    describe_knobs,
    describe_method,
    gather_tune_report,
    tabulate_knobs,
)


def make_search(
    make: Callable[..., Path],
    faulty: tuple[str, ...],
    more: Mapping[str, str],
    **changes: Any,
) -> Path:
    """Return results of a search that tried glibc's and jemalloc's defaults and one setting;
    ``more``: of its facts; ``changes``: of its experiment.
    """
    facts = {"kind": "tune", "preference": "memory,cpu<=1.03", **more}
    variants: list[dict[str, Any]] = [
        {"name": "glibc"},
        {"name": "jemalloc", "allocator": "jemalloc"},
        {"name": "tuned"},
    ]
    return make(
        "search",
        blocks=2,
        faulty=faulty,
        design="solo",
        threads=[1],
        variant=variants,
        tune={},
        **changes,
        sql=(
            *(f"INSERT OR REPLACE INTO campaign VALUES ('{k}', '{v}')" for k, v in facts.items()),
            "INSERT INTO candidate SELECT trial, 'server', "
            "iif(variant = 'jemalloc', 'jemalloc', 'glibc'), "
            "iif(variant = 'tuned', 'search', 'default'), "
            "iif(variant = 'tuned', '{\"arena_max\": \"1\"}', '{}') FROM trial",
        ),
    )


def answer(make: Callable[..., Path], faulty: tuple[str, ...], declared: bool = True) -> Answer:
    """Return the answer of such a search."""
    return answer_tune(
        load_tuned(make_search(make, faulty, {"confirmations": "[]"} if declared else {}))
    )


def test_a_search_that_could_measure_nothing_has_no_answer(make: Callable[..., Path]) -> None:
    said = answer(make, ("glibc", "jemalloc", "tuned"))
    assert said.headline.startswith("No answer: glibc with its defaults failed in all ")
    assert "; jemalloc with its defaults failed in all " in said.headline
    assert any("of other settings ended in a fault" in note for note in said.notes)


def test_a_malloc_whose_default_fails_is_named(make: Callable[..., Path]) -> None:
    said = answer(make, ("jemalloc",))
    assert said.headline.startswith("Keep the defaults: ")
    [failed] = [note for note in said.notes if "failed" in note]
    assert failed.startswith("jemalloc with its defaults failed in all 2 trials")
    assert "so nothing of it was compared" in failed


def test_where_all_ran_nothing_is_said_of_faults(make: Callable[..., Path]) -> None:
    said = answer(make, ())
    assert not any("fault" in note or "failed" in note for note in said.notes)


def test_a_search_that_goes_on_says_so(make: Callable[..., Path]) -> None:
    assert answer(make, (), declared=False).headline == "The search is not over"


def test_what_changes_nothing_measurable_is_said(make: Callable[..., Path]) -> None:
    untried = dict.fromkeys(("memory_share", "cost_share", "memory", "cost", "measurable"))
    nothing = untried | {"memory": 1, "cost": 1, "measurable": False}
    gain = nothing | {"memory": 0.6, "memory_low": 0.55, "memory_high": 0.65, "memory_value": "1"}
    rows = [
        {"base": "glibc", "knob": knob, "stage": stage, **row}
        for knob, stage, row in (
            ("arena_max", "server", gain | {"measurable": True}),
            ("top_pad", "server", untried),
            ("top_pad", "replay", nothing),
            ("mxfast", "server", nothing),
            ("tcache", "server", nothing),
            ("tcache", "replay", nothing | {"cost": 0.9, "measurable": True}),
            ("perturb", "server", untried | {"configurations": 0, "failed": 0}),
            ("check", "server", untried | {"configurations": 0, "failed": 2}),
        )
    ]
    tuned = load_tuned(make_search(make, (), {"knobs": json.dumps(rows)}))
    assert describe_knobs(tuned)[1:] == ["glibc: nothing measurable came of top_pad and mxfast."]
    cells = {(r[0], r[2]): r for r in tabulate_knobs(tuned).rows}
    assert cells["arena_max", "servers"][6] == "0.600 [0.550, 0.650] at 1"
    assert cells["mxfast", "servers"][-1] == "nothing measurable"
    assert cells["perturb", "servers"][-1] == "not tried"
    assert cells["check", "servers"][-1] == "every trial of it failed"


@pytest.mark.parametrize(
    ("second", "faulty", "outcome"),
    [
        (0.9, (), "confirmed"),
        (1.0, (), "not shown to be better"),
        (0.9, ("jemalloc",), "a trial ended in a fault"),
    ],
)
def test_each_finalist_has_its_outcome(
    make: Callable[..., Path], second: float, faulty: tuple[str, ...], outcome: str
) -> None:
    """``tuned`` saves 40 % and is the one to run; the other one may be shown to be better too."""
    finalists = ["tuned", "jemalloc"]
    declared = [
        {"base": "glibc", "directory": "confirmation/glibc", "finalists": finalists,
         "experiment": "x"}
    ]  # fmt: skip
    search = make_search(make, (), {"confirmations": json.dumps(declared)})
    (search / "confirmation").mkdir()
    sizes = {"glibc": 1.0, "tuned": 0.6, "jemalloc": second}
    make(
        "search/confirmation/glibc",
        blocks=8,
        design="both",
        threads=[1],
        faulty=faulty,
        sql=[
            f"UPDATE trial SET rss_peak = {factor} * (100000000 + 100000 * (block % 3)) "
            f"WHERE variant = '{name}' AND outcome = 'ok' AND design = 'solo'"
            for name, factor in sizes.items()
        ]
        + [
            "UPDATE step SET tps = iif(trial IN (SELECT trial FROM trial WHERE variant = 'tuned'), "
            "0.8, 1) * (1000 + trial % 3) WHERE kind = 'level'"
        ],
    )
    document = gather_tune_report(load_tuned(search)).data
    assert document["winner"] == "tuned"
    first, other = document["finalists"]
    assert (first["variant"], first["confirmed"], first["outcome"]) == ("tuned", True, "confirmed")
    memory = first["ratios"]["rss_peak"]
    assert memory["ratio"] == pytest.approx(0.6, abs=0.01)
    assert memory["low"] <= memory["ratio"] <= memory["high"] < 0.99
    assert (other["confirmed"], other["outcome"]) == (outcome == "confirmed", outcome)
    if not faulty:
        assert other["ratios"]["rss_peak"]["ratio"] == pytest.approx(second, abs=0.01)
    lines = {line.name: line.text for line in answer_tune(load_tuned(search)).variants}
    assert "its defaults" not in lines["tuned"]
    # CPU says nothing of transactions that wait for a malloc's locks.
    assert "; shown to be worse: oltp_read_only, transactions per second" in lines["tuned"]
    assert "shown to be worse" not in lines["jemalloc"]
    assert outcome in lines["jemalloc"] or faulty
    # Another allocator's finalists may still win.
    said = answer_tune(load_tuned(search))
    assert said.headline == (
        "So far: Use glibc with arena_max = 1 (tuned); the confirmation is not over"
    )
    assert said.command == ""
    with pytest.raises(
        UsageError, match=r"the confirmation is not over, .* name a VARIANT, like tuned"
    ):
        deploy.deploy(search)
    with closing(sqlite3.connect(search / "results.sqlite")) as db, db:
        db.execute("INSERT OR REPLACE INTO campaign VALUES ('ending', 'planned')")
    said = answer_tune(load_tuned(search))
    assert said.headline == "Use glibc with arena_max = 1 (tuned)"
    assert said.command == f"dballoc deploy {search}"
    assert said.reason.startswith("Against glibc as it is: peak RSS × 0.6")
    assert "; but shown to be worse: oltp_read_only, transactions per second" in said.reason


@pytest.mark.parametrize(
    ("glibc", "jemalloc", "base"), [(0.5, 0.6, "glibc"), (0.6, 0.5, "jemalloc")]
)
def test_of_two_mallocs_winners_that_with_the_lower_figure_is_to_be_run(
    make: Callable[..., Path], glibc: float, jemalloc: float, base: str
) -> None:
    """Both are confirmed, each against its own default; between them nothing is judged."""
    declared = [
        {"base": name, "directory": f"confirmation/{name}", "finalists": ["tuned"],
         "experiment": "x"}
        for name in ("glibc", "jemalloc")
    ]  # fmt: skip
    facts = {"confirmations": json.dumps(declared), "ending": "planned"}
    search = make_search(make, (), facts)
    (search / "confirmation").mkdir()
    for name, share in (("glibc", glibc), ("jemalloc", jemalloc)):
        variants = [{"name": name, "allocator": name}, {"name": "tuned", "allocator": name}]
        make(
            f"search/confirmation/{name}",
            blocks=8,
            design="both",
            threads=[1],
            baseline=name,
            variant=variants,
            sql=[
                f"UPDATE trial SET rss_peak = {factor} * (100000000 + 100000 * (block % 3)) "
                f"WHERE variant = '{variant}' AND design = 'solo'"
                for variant, factor in ((name, 1.0), ("tuned", share))
            ],
        )
    tuned = load_tuned(search)
    assert [confirmed.winner for confirmed in tuned.confirmed] == ["tuned", "tuned"]
    said = answer_tune(tuned)
    assert said.headline.startswith(f"Use {base} with ")
    assert any("Between allocators the lower measured figure decided" in n for n in said.notes)
    assert gather_tune_report(tuned).data["base"] == base


def test_what_is_said_of_the_load_has_the_workloads_that_were_searched(
    make: Callable[..., Path],
) -> None:
    two = {"workloads": ["oltp_read_only", "oltp_point_select"]}
    survey = {
        "oltp_read_only": {"peak": 2 << 20, "longest": 1.0},
        "oltp_point_select": {"peak": 3 << 20, "longest": 200.0},
    }
    facts = {"searched_workloads": '["oltp_point_select"]', "survey": json.dumps(survey)}
    search = make_search(make, (), facts, **two)
    assert load_tuned(search).campaign.experiment.workloads == ["oltp_point_select"]
    with closing(sqlite3.connect(search / "results.sqlite")) as db, db:
        twice = json.dumps(["oltp_point_select"] * 2)
        db.execute("UPDATE campaign SET value = ? WHERE key = ?", (twice, "searched_workloads"))
    assert load_tuned(search).campaign.experiment.workloads == ["oltp_point_select"]
    assert "holds for oltp_point_select at" in " ".join(answer_tune(load_tuned(search)).notes)
    assert "aim names: oltp_point_select (3.0 MiB)" in describe_method(load_tuned(search))[0]
    with closing(sqlite3.connect(search / "results.sqlite")) as db, db:
        db.execute("UPDATE campaign SET value = replace(value, '[\"oltp', '[\"other')")
    with pytest.raises(
        Failure, match="damaged: searched_workloads: 'other_point_select' is no workload"
    ):
        load_tuned(search)
