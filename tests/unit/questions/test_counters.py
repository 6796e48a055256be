"""Counts for each transaction: from the store's rows to the table, the report and CSV."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from example_results import build

from dballoc.experiment.model import Experiment
from dballoc.ground.errors import Failure
from dballoc.questions.campaign.answer.conditions_and_preference import LEAST_MEMORY
from dballoc.questions.campaign.figures.counters import build_counter_table, measure_refused_share
from dballoc.questions.campaign.sections.counters import describe_counters, make_counter_section
from dballoc.questions.campaign.sections.shared_sections import describe_method
from dballoc.questions.campaign_data import collect_tables
from dballoc.questions.compare.baseline_comparison import compare_with_baseline
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.report_content import judge_campaign

WORKLOAD = "oltp_read_only"
# What each role costs in the duet; in solo, what each variant does. The first block of solo is 2 %
# dearer for all.
OF_SLICES = """INSERT INTO slice_counter SELECT trial, slice.workload, slice, piece, '{event}',
  CAST(1000000 * {each} * events * (CASE WHEN role = 'A1' THEN 1.0 WHEN role = 'A2' THEN 1.001
  WHEN variant = 'jemalloc' THEN 0.95 ELSE 1.2 END) AS INTEGER), 1.0
  FROM slice JOIN trial USING (trial)"""
OF_STEPS = """INSERT INTO step_counter SELECT trial, step, '{event}',
  CAST(1000000 * {each} * window_events * (CASE WHEN block = 1 THEN 1.02 ELSE 1.0 END) * (CASE
  WHEN variant = 'jemalloc' THEN 0.95 WHEN variant = 'tuned' THEN 1.2 ELSE 1.0 END) AS INTEGER), 1.0
  FROM step JOIN trial USING (trial) WHERE kind = 'level'"""
EVENTS = {"instructions:u": 3, "instructions:k": 1, "cycles:u": 4, "cycles:k": 4}
COUNTED = tuple(
    sql.format(event=event, each=each)
    for sql in (OF_SLICES, OF_STEPS)
    for event, each in EVENTS.items()
)
FACT = "INSERT OR REPLACE INTO campaign VALUES ('counters', '{}')"
Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path, experiment: Callable[..., Experiment]) -> Make:
    """``make(sql, design="both")``: a results directory of three blocks, changed by ``sql``."""

    def make(sql: tuple[str, ...] = COUNTED, **changes: Any) -> Path:
        time = {"warmup": "2s", "level": "3s", "idle": "2s"}
        chosen = experiment(**({"time": time, "design": "both"} | changes))
        return build(tmp_path / "results", chosen, 3, sql, ())

    return make


def find(rows: pl.DataFrame, **place: Any) -> dict[str, Any]:
    [row] = rows.filter(*(pl.col(key) == value for key, value in place.items())).to_dicts()
    return row


def test_counts_of_a_duet(make: Make) -> None:
    rows = build_counter_table(load_campaign(make())).filter(pl.col("design") == "duet")
    assert set(rows["event"]) == {*EVENTS, "instructions", "cycles"}
    for event, each in {**EVENTS, "instructions": 4, "cycles": 8}.items():
        row = find(rows, event=event, variant="jemalloc")
        assert row["per_transaction"] == pytest.approx(0.95e6 * each, rel=1e-6)
        assert row["ratio"] == pytest.approx(0.95, rel=1e-6)
        assert row["low"] == pytest.approx(row["high"]) == pytest.approx(0.95, rel=1e-6)
        assert (row["blocks"], row["threads"], row["workload"]) == (3, None, WORKLOAD)
        assert find(rows, event=event, variant="glibc")["ratio"] == pytest.approx(1.001, rel=1e-6)


def test_counts_of_solo_trials(make: Make) -> None:
    campaign = load_campaign(make())
    rows = build_counter_table(campaign).filter(pl.col("design") == "solo")
    assert set(rows["threads"]) == set(campaign.experiment.threads)
    for threads in campaign.experiment.threads:
        row = find(rows, event="instructions", variant="tuned", threads=threads)
        assert row["ratio"] == pytest.approx(1.2, rel=1e-6), "the dearer block cancels"
        assert row["per_transaction"] == pytest.approx(1.2e6 * 4 * (1 + 0.02 / 3), rel=1e-3)
        assert find(rows, event="cycles", variant="glibc", threads=threads)["ratio"] == (
            pytest.approx(1.0)
        )


def test_what_was_refused_is_in_no_sum(make: Make) -> None:
    refused = (
        "UPDATE slice_counter SET count = NULL, running = 0.5 WHERE event = 'cycles:k'",
        "UPDATE step_counter SET count = NULL, running = 0.5 WHERE event = 'cycles:k'",
    )
    campaign = load_campaign(make(COUNTED + refused))
    events = set(build_counter_table(campaign)["event"])
    assert events == {"instructions", "instructions:u", "instructions:k", "cycles:u"}
    assert measure_refused_share(campaign) == pytest.approx(0.25)
    section = make_counter_section(campaign)
    assert section
    assert any("25.0 % of the counts were refused" in text for text in section.text)


def test_without_counts_there_is_no_section_and_no_file(make: Make) -> None:
    reason = "this CPU, or the hypervisor above it, offers no such counters; use another"
    directory = make((FACT.format(json.dumps({"events": [], "refusal": reason})),))
    campaign = load_campaign(directory)
    assert build_counter_table(campaign).height == 0
    assert make_counter_section(campaign) is None
    [text] = describe_counters(campaign)
    assert text == (
        "Instructions and cycles were not counted. This CPU, or the hypervisor above it, offers no "
        "such counters; use another."
    )
    comparisons = compare_with_baseline(campaign)
    assert "counters" not in collect_tables(campaign, judge_campaign(campaign))
    assert text in describe_method(campaign, comparisons.procedures, LEAST_MEMORY)


def test_results_of_a_dballoc_that_did_not_count_say_nothing_of_it(make: Make) -> None:
    assert describe_counters(load_campaign(make(()))) == []


def test_counters_that_were_switched_off(make: Make) -> None:
    directory = make((FACT.format(json.dumps({"events": [], "refusal": ""})),), counters=[])
    [text] = describe_counters(load_campaign(directory))
    assert "asks for no counters" in text


def test_the_report_and_csv(make: Make) -> None:
    directory = make((*COUNTED, FACT.format(json.dumps({"events": list(EVENTS), "refusal": ""}))))
    campaign = load_campaign(directory)
    rows = collect_tables(campaign, judge_campaign(campaign))["counters"]
    assert set(rows["design"]) == {"duet", "solo"}
    [text] = describe_counters(campaign)
    assert "in all threads of the server: instructions:u, instructions:k, cycles:u and" in text
    section = make_counter_section(campaign)
    assert section
    assert [table.title for table in section.tables] == [
        "Counts for each transaction, duet",
        "Counts for each transaction, solo",
    ]
    [row] = [r for r in section.tables[0].rows if r[1] == "jemalloc"]
    cells = dict(zip(section.tables[0].columns, row, strict=True))
    assert cells["instructions per cycle"] == "0.500"
    assert cells["instructions, ratio"] == "0.950 [0.950, 0.950]"


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE step_counter SET event = '<script>' WHERE event = 'cycles:u'",
        "UPDATE slice_counter SET event = '<script>' WHERE event = 'cycles:u'",
        "UPDATE slice_counter SET workload = 'another'",
        "UPDATE step_counter SET running = 1e300",
        "UPDATE step_counter SET count = 9e18",
    ],
)
def test_what_nobody_counts(make: Make, damage: str) -> None:
    with pytest.raises(Failure, match="damaged"):
        load_campaign(make((*COUNTED, damage)))
