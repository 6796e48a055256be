"""What is said of a search: also of one that could measure nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dballoc.analysis.tune.tuned import load_tuned
from dballoc.report.tune.tune_answer import answer_tune
from dballoc.report.wording.answer import Answer
from dballoc.store.campaign_facts import CONFIRMATIONS, PREFERENCE
from dballoc.store.results import KIND, TUNE


def answer(make: Callable[..., Path], faulty: tuple[str, ...], declared: bool = True) -> Answer:
    """Return the answer of a search that tried glibc's and jemalloc's defaults and one setting."""
    facts = {KIND: TUNE, PREFERENCE: "memory,cpu<=1.03"} | (
        {CONFIRMATIONS: "[]"} if declared else {}
    )
    variants: list[dict[str, Any]] = [
        {"name": "glibc"},
        {"name": "jemalloc", "allocator": "jemalloc"},
        {"name": "tuned"},
    ]
    path = make(
        "search",
        blocks=2,
        faulty=faulty,
        design="solo",
        threads=[1],
        variant=variants,
        tune={},
        sql=(
            *(f"INSERT OR REPLACE INTO campaign VALUES ('{k}', '{v}')" for k, v in facts.items()),
            "INSERT INTO candidate SELECT trial, 'server', "
            "iif(variant = 'jemalloc', 'jemalloc', 'glibc'), "
            "iif(variant = 'tuned', 'search', 'default'), "
            "iif(variant = 'tuned', '{\"arena_max\": \"1\"}', '{}') FROM trial",
        ),
    )
    return answer_tune(load_tuned(path))


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
