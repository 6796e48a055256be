"""The report on replays: what its first sentence says, and that it says what the trace lacks."""

import csv
import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from example_replays import (
    PEAKS,
    REAL,
    REPLAY_FACTS,
    build_replays,
    result,
)
from example_results import MIB

from dballoc.allocators.find_library import Allocator
from dballoc.campaign.replay.prepare_replay import may_decay
from dballoc.campaign.replay.replay_rows import find_peak_within
from dballoc.deploy.deployment import build_deployment
from dballoc.document.model import Document
from dballoc.ground.errors import Failure, UsageError
from dballoc.questions.campaign.answer.conditions_and_preference import parse_preference
from dballoc.questions.campaign.answer.recommendation import Ending
from dballoc.questions.compare.baseline_comparison import compare_with_baseline, declare_procedures
from dballoc.questions.compare.campaign_tables import load_campaign, load_server_campaign
from dballoc.questions.diff.figures import compare_campaigns
from dballoc.questions.replay.figures import (
    average_curves,
    average_latencies,
    average_replays,
    estimate_real_peak,
    measure_fidelity,
)
from dballoc.questions.replay.sections import judge_replays
from dballoc.questions.report_content import gather_report
from dballoc.questions.write_report import write_report_outputs
from dballoc.store.replay_facts import RecordedMark

pytestmark = pytest.mark.long


def report(directory: Path) -> Document:
    return gather_report(load_campaign(directory))


def headline(directory: Path) -> str:
    return report(directory).answer.headline


def test_the_first_sentence_names_the_least_peak_heap_and_the_distance(tmp_path: Path) -> None:
    first = headline(build_replays(tmp_path / "r"))
    assert first == (
        "jemalloc has the least peak heap, 80.3 MiB, 0.889 of glibc's (lower); replayed on glibc, "
        "on which it was recorded, the peak is 2.7 % above the real one"
    )


def test_without_ground_truth_the_distance_is_said_to_be_unknown(tmp_path: Path) -> None:
    page = report(build_replays(tmp_path / "r", marks=[]))
    assert page.answer.headline.endswith("; how far that is from the recorded process is not known")
    assert any("was not measured" in note for note in page.answer.notes)


def test_a_malloc_that_was_not_replayed_gives_no_distance(tmp_path: Path) -> None:
    recorded = {
        "allocator": "jemalloc",
        "allocator_version": "5.2.1",
        "settings": {"narenas": "2"},
        "recorded_variant": None,
    }
    page = report(build_replays(tmp_path / "r", **recorded))
    assert "is not known" in page.answer.headline
    assert any("jemalloc 5.2.1 with narenas=2, on" in note for note in page.answer.notes)


def test_a_late_recording_gets_no_verdict_on_memory(tmp_path: Path) -> None:
    directory = build_replays(tmp_path / "r", from_start=False)
    page = report(directory)
    assert page.answer.headline.startswith("No answer on memory (the recording began late)")
    [verdicts] = {
        figure["verdict"]
        for candidate in page.data["candidates"]
        for figure in candidate["figures"]
        if figure["metric"] == "rss_peak"
    }
    assert verdicts is None
    procedure = declare_procedures(load_campaign(directory))["solo"]
    assert set(procedure.shares) == {"cpu"}
    assert "the recording began late" in page.subtitle
    # Only the figures of the heap and what is judged are there; each of the heap's says it.
    heap = [figure for figure in page.figures if figure.key.startswith("replay-")]
    assert len(heap) == 3
    assert all("the recording began late" in figure.title for figure in heap)


def test_drops_are_in_every_heading(tmp_path: Path) -> None:
    page = report(build_replays(tmp_path / "r", dropped=5000))
    assert page.answer.headline.endswith("(5,000 events are missing (0.50 %))")
    assert "5,000 events are missing" in page.subtitle
    assert all("5,000" in f.title for f in page.figures if f.key.startswith("replay-"))


def test_few_drops_are_not_rounded_to_none(tmp_path: Path) -> None:
    assert "less than 0.01 %" in headline(build_replays(tmp_path / "r", dropped=1))


def test_idle_heap_is_not_shown_for_a_malloc_that_keeps_the_clock(tmp_path: Path) -> None:
    page = report(build_replays(tmp_path / "r"))
    table = page.sections[0].tables[0]
    idle = {row[0]: row[table.columns.index("idle, MiB")] for row in table.rows}
    assert idle["jemalloc"] == idle["mimalloc"] == "–"
    assert idle["glibc"] != "–"
    at_the_pace = report(build_replays(tmp_path / "t", mode="timed", speed=1.0))
    rows = at_the_pace.sections[0].tables[0].rows
    assert "–" not in {row[3] for row in rows}
    faster = report(build_replays(tmp_path / "f", mode="timed", speed=10.0))
    assert faster.sections[0].tables[0].rows[1][3] == "–"


def test_idle_heap_is_judged_by_nobody_where_the_clock_is_not_kept(tmp_path: Path) -> None:
    fast, timed = build_replays(tmp_path / "f"), build_replays(tmp_path / "t", mode="timed")
    for directory, judged in ((fast, {"glibc"}), (timed, {"glibc", "jemalloc", "mimalloc"})):
        comparisons = compare_with_baseline(load_campaign(directory))
        shown = [*comparisons.floor, *comparisons.family, *comparisons.descriptive]
        of_idle = [c for c in shown if c.metric.measure.name == "rss_idle" and c.ratio is not None]
        assert {comparison.variant for comparison in of_idle} == judged
        diff = compare_campaigns(load_campaign(directory), load_campaign(directory))
        idle = [f for f in diff.figures if f.metric.measure.condition == "rss_idle" and f.ratio]
        # Relative to glibc, which is not compared with itself.
        assert {figure.variant for figure in idle} == judged - {"glibc"}
    preferred = parse_preference("rss_idle<=1.05")
    with pytest.raises(UsageError, match="idle heap says nothing of jemalloc and mimalloc") as e:
        judge_replays(load_campaign(fast), preferred)
    assert "\n" not in str(e.value)
    judge_replays(load_campaign(fast), parse_preference("glibc:rss_idle<=1.05"))
    judge_replays(load_campaign(timed), preferred)


@pytest.mark.parametrize(
    ("prefer", "use"), [("cpu<=1.5", "jemalloc"), ("cpu<=1", "mimalloc"), ("memory", "mimalloc")]
)
def test_conditions_are_judged_on_replays_too(tmp_path: Path, prefer: str, use: str) -> None:
    judged = judge_replays(load_campaign(build_replays(tmp_path / "r")), parse_preference(prefer))
    assert (judged.recommendation.ending, judged.recommendation.subject) == (Ending.USE, use)


def test_a_malloc_that_the_catalogue_does_not_know_may_give_memory_back_by_the_clock() -> None:
    def make(name: str, library: str) -> Allocator:
        return Allocator(name=name, libraries=(Path(library),), version="1")

    assert may_decay(make("jemalloc", "/usr/lib/libjemalloc.so.2"))
    assert not may_decay(make("glibc", "/lib/libc.so.6"))
    assert not may_decay(make("tcmalloc", "/usr/lib/libtcmalloc.so.4"))
    assert may_decay(make("libmine.so", "/opt/libmine.so"))
    # One that was given by path is known by its file's name.
    assert may_decay(make("libjemalloc.so.2", "/opt/libjemalloc.so.2"))
    assert not may_decay(make("libtcmalloc.so.4", "/opt/libtcmalloc.so.4"))


def test_a_failed_baseline_gives_no_ratio_and_no_crash(tmp_path: Path) -> None:
    page = report(build_replays(tmp_path / "r", faulty=("glibc",)))
    assert page.answer.headline.startswith("jemalloc has the least peak heap, 80.3 MiB")
    assert page.answer.table is None


def test_when_all_fail_that_is_the_answer(tmp_path: Path) -> None:
    directory = build_replays(tmp_path / "r", faulty=tuple(PEAKS))
    assert headline(directory) == "No malloc was replayed to its end without a fault"
    write_report_outputs(directory)


def test_every_output_is_written_and_speaks_of_heaps(tmp_path: Path) -> None:
    directory = build_replays(tmp_path / "r", faulty=("mimalloc",))
    page = write_report_outputs(directory)
    for text in (page.read_text(), page.with_name("report.md").read_text()):
        body = text.partition("Recommendation: ")[0]
        for word in ("CPU per transaction", "peak RSS", "sysbench", "clients"):
            assert word not in body, word
        assert "peak heap" in body
        assert "CPU per event" in body
    tables = {path.stem for path in (directory / "csv").iterdir()}
    assert {"trials", "replays", "heap", "calls", "marks", "comparisons", "pairs"} <= tables
    with (directory / "csv" / "trials.csv").open() as file:
        heads = next(csv.reader(file))
    assert {"heap_peak", "heap_idle", "waited"} <= set(heads)
    said = json.loads((directory / "recommendation.json").read_text())
    assert {f["metric"] for f in said["floor"]} == {"cpu", "rss_peak"}
    assert {c.stem for c in (directory / "charts").iterdir()} >= {
        "replay-heap",
        "replay-fragmentation",
        "replay-peaks",
    }


def test_the_peak_of_a_stretch(tmp_path: Path) -> None:
    page = report(build_replays(tmp_path / "r", window=(2.0, 8.0)))
    assert page.answer.headline.startswith(
        "jemalloc has the least peak heap from 2.00 s to 8.00 s of the trace, 64.3 MiB"
    )
    # Compared at the mark within it; the high-water mark is not of that stretch.
    assert "the highest heap at any mark is 12.9 % above" in page.answer.headline
    assert any("everything else is of all of it" in note for note in page.answer.notes)
    table = page.sections[0].tables[0]
    assert {row[table.columns.index("peak ÷ live bytes")] for row in table.rows} == {"–"}


def test_a_stretchs_peak_is_of_what_is_wholly_in_it() -> None:
    figures = result("glibc").figures
    assert figures
    curve = replace(figures.curve, time=(10**9, 2 * 10**9, 3 * 10**9), heap=(9, 5, 7))
    moments = (replace(figures.moments[0], time=2 * 10**9, heap=6),)
    figures = replace(figures, curve=curve, moments=moments)
    assert find_peak_within(figures, (0.0, 9.0)) == 9
    assert find_peak_within(figures, (0.9, 2.0)) == 6
    assert find_peak_within(figures, (1.5, 3.0)) == 7
    assert find_peak_within(figures, (2.5, 2.9)) == 7
    assert find_peak_within(figures, (8.0, 9.0)) == 0


def make_days(count: int) -> tuple[RecordedMark, ...]:
    return tuple(RecordedMark(t=float(n), name=f"day {n}/{count}") for n in range(1, count + 1))


def test_what_each_malloc_creeps_from_day_to_day(tmp_path: Path) -> None:
    directory = build_replays(tmp_path / "r", marks=make_days(8))
    page = report(directory)
    assert page.answer.notes[0].startswith(
        "From one day to the next, of 8 days: glibc creeps by 2.01 MiB [2.00 MiB, 2.01 MiB]; "
        "mimalloc shrinks by 1.00 MiB [1.00 MiB, 1.01 MiB]; jemalloc is not seen to creep, at most"
    )
    section = next(s for s in page.sections if s.key == "growth")
    assert section.title == "Growth from day to day"
    assert "does not keep the clock: jemalloc and mimalloc" in section.text[1]
    assert [row[0] for row in section.tables[0].rows] == ["glibc", "jemalloc", "mimalloc"]
    assert section.tables[0].rows[0][4] == "12"
    write_report_outputs(directory)
    assert (directory / "charts" / "replay-growth.svg").exists()


def test_growth_needs_days_and_a_recording_from_the_start(tmp_path: Path) -> None:
    few = report(build_replays(tmp_path / "few", marks=make_days(4)))
    late = report(build_replays(tmp_path / "late", marks=make_days(8), from_start=False))
    for page in (few, late):
        assert "growth" not in {s.key for s in page.sections}
        assert not any("From one day" in note for note in page.answer.notes)
    one = report(build_replays(tmp_path / "one", blocks=1, marks=make_days(8)))
    assert "jemalloc changes by" in one.answer.notes[0]
    assert "in its one replay" in one.answer.notes[0]


def test_figures_by_variant(tmp_path: Path) -> None:
    campaign = load_campaign(build_replays(tmp_path / "r"))
    rows = {r["variant"]: r for r in average_replays(campaign).iter_rows(named=True)}
    assert list(rows) == ["glibc", "jemalloc", "mimalloc"]
    assert rows["glibc"]["n"] == 12
    assert rows["jemalloc"]["n"] == 6
    assert rows["glibc"]["cpu"] == pytest.approx(80, rel=0.01)
    assert rows["glibc"]["malloc"] == pytest.approx(40, rel=0.01)
    assert rows["glibc"]["fragmentation"] == pytest.approx(1.5, rel=0.01)
    assert rows["glibc"]["faults"] == pytest.approx(20, rel=0.01)
    facts = campaign.facts.replay
    assert facts
    curves = average_curves(campaign, facts)
    assert curves["t"].max() <= facts.seconds
    assert set(curves["variant"]) == set(PEAKS)
    calls = average_latencies(campaign)
    assert calls.filter(calls["operation"] == "malloc")["p99"].max() == 3000


def test_both_questions_have_half_of_the_error(tmp_path: Path) -> None:
    campaign = load_campaign(build_replays(tmp_path / "r"))
    procedure = declare_procedures(campaign)["solo"]
    assert {name: share.error for name, share in procedure.shares.items()} == {
        "cpu": 0.025,
        "rss_peak": 0.025,
    }
    assert all(share.comparisons == 2 for share in procedure.shares.values())
    keys = {m.key for m in compare_with_baseline(campaign).metrics}
    assert keys == {"cpu:replay", "rss_peak"}


def test_the_distance_from_the_recorded_process(tmp_path: Path) -> None:
    campaign = load_campaign(build_replays(tmp_path / "r"))
    assert campaign.facts.replay
    fidelity = measure_fidelity(campaign, campaign.facts.replay)
    assert fidelity
    assert fidelity.variant == "glibc"
    # 152 MiB of RSS at most, of which 64 MiB were not heap.
    assert fidelity.real_peak == 88 * MIB
    assert fidelity.error == pytest.approx(fidelity.replayed_peak / (88 * MIB) - 1)
    assert [m.name for m in fidelity.marks] == ["after the start", "after oltp_read_write"]
    assert fidelity.marks[0].real == 40 * MIB


def test_a_recorded_peak_needs_the_high_water_mark() -> None:
    mark = RecordedMark(t=1.0, name="x", truth={"heap": 5, "rss": 9})
    assert estimate_real_peak([mark]) is None
    full = RecordedMark(t=1.0, name="x", truth=REAL)
    assert estimate_real_peak([mark, full]) == 88 * MIB
    # Never below what was seen at a mark.
    more = RecordedMark(t=1.0, name="x", truth={"heap": 99 * MIB, "rss": 100 * MIB})
    assert estimate_real_peak([more, full]) == 99 * MIB
    # That of a start without the recorder, which changes the heap that it records.
    clean = RecordedMark(t=2.0, name="y", truth={**REAL, "heap_peak": 90 * MIB})
    assert estimate_real_peak([more, clean]) == 90 * MIB


def test_without_a_high_water_mark_the_marks_are_compared(tmp_path: Path) -> None:
    marks = tuple(replace(m, truth={"heap": m.truth["heap"]}) for m in REPLAY_FACTS.marks)
    campaign = load_campaign(build_replays(tmp_path / "r", marks=marks))
    assert campaign.facts.replay
    fidelity = measure_fidelity(campaign, campaign.facts.replay)
    assert fidelity
    assert not fidelity.peak_is_estimated
    assert fidelity.real_peak == 86 * MIB
    assert fidelity.replayed_peak == pytest.approx(fidelity.marks[1].replayed)


def test_what_is_not_the_real_peak_is_not_called_so(tmp_path: Path) -> None:
    marks = [{"t": 19.0, "name": "after", "truth": {"rss": 150 * MIB, "heap": 86 * MIB}}]
    at_marks = headline(build_replays(tmp_path / "m", marks=marks))
    window = headline(build_replays(tmp_path / "w", window=(0.0, 20.0)))
    for first in (at_marks, window):
        assert "the highest heap at any mark is" in first
        assert first.endswith("the real one at its marks")
        assert "the peak is" not in first


def test_deploying_what_was_replayed(tmp_path: Path) -> None:
    directory = build_replays(tmp_path / "r")
    deployed = build_deployment(load_campaign(directory), "jemalloc", directory)
    assert deployed.family == "mariadb"
    assert deployed.release == "VERSION"
    assert deployed.libraries == ("/usr/lib/libjemalloc.so.2",)


def test_replays_are_refused_where_a_server_is_meant(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="results of dballoc replay, which started no server"):
        load_server_campaign(build_replays(tmp_path / "r"))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"events": "many"}, "replay.events"),
        ({"marks": ({"t": 0.0},)}, "replay.marks"),
        ({"touch": 3}, "replay.touch"),
        ({"decaying": 1}, "replay.decaying"),
    ],
)
def test_damaged_facts_are_one_line(tmp_path: Path, changes: dict, complaint: str) -> None:
    directory = build_replays(tmp_path / "r", **changes)
    with pytest.raises((Failure, UsageError), match=complaint) as error:
        load_campaign(directory)
    assert "\n" not in str(error.value)


def test_a_mark_that_the_trace_has_not_is_damage(tmp_path: Path) -> None:
    directory = build_replays(tmp_path / "r")
    with sqlite3.connect(directory / "results.sqlite") as db:
        db.execute("UPDATE replay_mark SET mark = 7 WHERE mark = 1")
    with pytest.raises(Failure, match="the trace has fewer marks"):
        load_campaign(directory)
