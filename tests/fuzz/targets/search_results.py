"""What results of ``dballoc tune`` say of a search: its candidates, their figures, the declared
confirmations and what knobs were worth are told and chosen from, or refused.
"""

import math
import sqlite3
import tempfile
from functools import cache
from pathlib import Path

from example_results import build

from dballoc.experiment.model import Experiment
from dballoc.ground.errors import Failure, UsageError
from dballoc.questions.tune.answer import answer_tune
from dballoc.questions.tune.figures import load_tuned
from dballoc.questions.tune.sections import describe_method
from dballoc.search.choose_finalists import choose_finalists
from dballoc.store.open_database import FILE

OF = (
    "dballoc.questions.tune.search_history",
    "dballoc.questions.tune.figures",
    "dballoc.search.choose_finalists",
    "dballoc.questions.tune.estimate_effects",
    "dballoc.questions.tune.estimate_effects",
    "dballoc.questions.tune.answer",
)
PRIVILEGED = False

_CONFIRMATION = (
    '[{"base": "glibc", "directory": "confirmation/glibc", "finalists": ["tuned"], '
    '"experiment": "name = \'x\'"}]'
)
_SEARCHED = '["oltp_read_only"]'
_SURVEY = '{"oltp_read_only": {"peak": 1, "longest": 0.5}, "x": {"peak": null, "longest": 0}}'
_KNOBS = (
    '[{"base": "glibc", "knob": "arena_max", "memory_share": 0.5, "cost_share": null, '
    '"memory": 0.6, "cost": 1.0, "measurable": true}]'
)


@cache
def _make_search() -> bytes:
    """Return the results of a search with trials of the default and of ``tuned``, alone and in
    duets.
    """
    chosen = Experiment.model_validate(
        {
            "name": "small",
            "baseline": "glibc",
            "workloads": ["oltp_read_only"],
            "threads": [1],
            "design": "both",
            "time": {"warmup": "0s", "level": "2s", "idle": "1s"},
            "tune": {},
            "variant": [{"name": "glibc"}, {"name": "tuned"}],
        }
    )
    with tempfile.TemporaryDirectory() as home:
        path = build(Path(home) / "r", chosen, 2, (), ()) / FILE
        with sqlite3.connect(path) as database:
            database.executemany(
                "INSERT OR REPLACE INTO campaign VALUES (?, ?)",
                [("kind", "tune"), ("preference", "memory,cpu<=1.03")],
            )
            database.execute(
                "INSERT INTO candidate SELECT trial, 'server', 'glibc', "
                "iif(variant = 'glibc', 'default', 'search'), "
                "iif(variant = 'glibc', '{}', '{\"arena_max\": \"1\"}') FROM trial "
                "WHERE design = 'solo' OR role = 'V'"
            )
        database.close()
        return path.read_bytes()


def seeds() -> list[bytes]:
    """Return lines: parameters, peak RSS and CPU seconds of the configuration, confirmations,
    knobs, searched workloads, survey.
    """
    return [
        "\n".join(lines).encode()
        for lines in (
            ('{"arena_max": "1"}', "90000000", "0.5", "[]", _KNOBS, _SEARCHED, _SURVEY),
            (
                '{"arena_max": "1", "top_pad": "x"}',
                "1",
                "1e300",
                _CONFIRMATION,
                "[]",
                '["x"]',
                _SURVEY,
            ),
            ('{"arena_max": "%s"}' % ("9" * 400), "-5", "1e-320", "[]", "[]", _SEARCHED, "{}"),
        )
    ]


def fuzz(data: bytes) -> None:
    parts = [*data.decode("utf-8", "replace").split("\n"), "", "", "", "", "", "", ""]
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / FILE
        path.write_bytes(_make_search())
        try:
            _write_parts(path, *parts[:7])
        except (sqlite3.Error, OverflowError, UnicodeEncodeError):
            return  # what the database itself does not take
        try:
            tuned = load_tuned(Path(home))
            answer_tune(tuned)
            describe_method(tuned)
            assert all(0 <= e.front_chance <= 1 for e in tuned.estimates)
        except (UsageError, Failure) as error:
            assert "\n" not in str(error), error
            return
        finalists = choose_finalists(tuned.standings, "memory", math.log(1.03), 3)
        assert all(f.parameters for f in finalists)


def _write_parts(path: Path, parameters: str, rss: str, cpu: str, *facts: str) -> None:
    database = sqlite3.connect(path)
    try:
        with database:
            database.execute(
                "UPDATE candidate SET parameters = ? WHERE origin = 'search'", (parameters,)
            )
            database.execute("UPDATE trial SET rss_peak = ? WHERE variant = 'tuned'", (rss,))
            for step in ("step SET cpu = ? WHERE kind = 'level' AND", "slice SET cpu = ? WHERE"):
                database.execute(
                    f"UPDATE {step} trial IN (SELECT trial FROM trial WHERE variant = 'tuned')",
                    (cpu,),
                )
            database.executemany(
                "INSERT OR REPLACE INTO campaign VALUES (?, ?)",
                zip(("confirmations", "knobs", "searched_workloads", "survey"), facts, strict=True),
            )
    finally:
        database.close()
