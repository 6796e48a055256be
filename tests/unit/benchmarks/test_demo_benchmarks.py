"""The benchmarks that run for hours: what is finished is kept, and nothing that was cut counts."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tomli_w
from example_ratios import make_metric, make_ratio
from example_results import Make

from dballoc.experiment import experiment_file
from dballoc.questions.compare.baseline_comparison import Comparison
from dballoc.questions.compare.campaign_tables import load_campaign

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import campaigns
import demo_pairs
import duet
import hosts_verdicts
import lost_hosts

pytestmark = pytest.mark.long


def write_recommendation(out: Path, ending: str | None, figures: list[dict[str, Any]]) -> None:
    out.mkdir(exist_ok=True)
    words = {"headline": "Use tcmalloc", "answer": "use", "reason": ""}
    data = {"ending": ending, "candidates": [{"figures": []}, {"figures": figures}], **words}
    (out / "recommendation.json").write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("ending", "finished"),
    [("planned", True), ("decided", True), ("budget", True), ("interrupted", False), (None, False)],
)
def test_a_demo_that_was_interrupted_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str | None, *, finished: bool
) -> None:
    out, begun = tmp_path / "1-new", []

    def run(command: list[Any], **_: Any) -> None:
        begun.append(command)
        assert not out.exists(), "two demos in one"

    write_recommendation(out, ending, [])
    monkeypatch.setattr(demo_pairs, "subprocess", SimpleNamespace(run=run, DEVNULL=None))
    monkeypatch.setattr(demo_pairs, "read_demo", lambda path: path)
    demo_pairs.run_demo(tmp_path, out, None)
    assert len(begun) == (0 if finished else 1)
    assert out.exists() is finished


def test_what_is_descriptive_is_no_difference_shown(make: Make) -> None:
    out = make("demo", blocks=6)
    low = {"low": 0.8, "high": 0.9}
    write_recommendation(
        out,
        "planned",
        [
            {"metric": "rss_peak", "verdict": "lower", **low},
            {"metric": "rss_idle", "verdict": None, **low},
            {"metric": "cpu", "verdict": "no difference shown", "low": 0.99, "high": 1.01},
            {"metric": "tps", "verdict": "not judged yet", "low": None, "high": None},
            {"metric": "tps", "verdict": "", "low": 0.9, "high": 1.1, "ratio": 1.0, "bound": 0.97},
            {"metric": "tps", "verdict": "", "low": 0.9, "high": 1.1, "ratio": 1.0},
        ],
    )
    demo = demo_pairs.read_demo(out)
    assert demo.rss_decided == [True]
    assert demo.below == pytest.approx([0.03, 0.1])
    assert (len(demo.cpu), demo.slice_scatter) == (1, None)


def test_an_hour_is_noisy_by_the_hog_or_by_its_slices() -> None:
    def judge(scatter: float | None, *, has_hog: bool) -> str:
        demo = demo_pairs.Demo(
            minutes=9.0, cpu=[0.02], rss=[0.01], rss_decided=[False], below=[0.02],
            headline="Use tcmalloc", is_settled=True, slice_scatter=scatter,
        )  # fmt: skip
        [(words, met)] = [t for t in demo_pairs.judge_demo(demo, has_hog=has_hog) if "CPU" in t[0]]
        assert met is ("noisy" in words)
        return words

    assert (
        judge(0.02, has_hog=False) == judge(None, has_hog=False) == "CPU within ±1% in a quiet hour"
    )
    assert (
        judge(0.12, has_hog=False) == judge(0.02, has_hog=True) == "CPU within ±4% in a noisy hour"
    )


@pytest.mark.parametrize("ending", ["planned", "interrupted"])
def test_a_campaign_that_has_ended_is_read_as_it_is(
    make: Make, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    out = make(
        "aa-1", blocks=6, sql=(f"INSERT OR REPLACE INTO campaign VALUES ('ending', '{ending}')",)
    )
    text = load_campaign(out).facts.experiment
    (out / "experiment.toml").write_text(text)
    table = experiment_file.parse_table(text, "x")
    commands: list[list[Any]] = []
    monkeypatch.setattr(campaigns.subprocess, "run", lambda command, **_: commands.append(command))
    assert campaigns.run(out, table).blocks("solo") == 6
    assert len(commands) == (0 if ending == "planned" else 1)
    commands.clear()
    campaigns.run(out, table | {"seed": 99})
    assert len(commands) == 1, "another experiment is refused by bench itself"
    assert (out.parent / "aa-1.toml").read_text() == tomli_w.dumps(table | {"seed": 99})


def test_the_minutes_of_a_campaign_are_without_pauses(make: Make) -> None:
    paused = "UPDATE block SET started = started + 36000, ended = ended + 36000 WHERE block > 3"
    minutes = [
        duet.minutes(load_campaign(make(name, blocks=6, design="both", sql=sql)))
        for name, sql in (("whole", ()), ("paused", (paused,)))
    ]
    assert minutes[0] == pytest.approx(minutes[1])
    assert minutes[0] > 0


def compare(low: float, high: float, variant: str = "jemalloc", key: str = "tps:a") -> Comparison:
    """A comparison with that interval."""
    metric = make_metric(key)
    return Comparison(variant, metric, make_ratio(low, high, blocks=8, scatter=0.01))


@pytest.mark.parametrize(
    ("machine", "nodes", "equal", "contradicts"),
    [
        ((0.90, 0.95), (0.91, 0.96), True, False),
        # By chance one interval holds 1.
        ((0.90, 0.99), (0.92, 1.02), False, False),
        ((0.90, 0.99), (1.01, 1.04), False, True),
        ((0.90, 0.95), (0.96, 0.98), True, True),
        ((0.995, 1.005), (1.02, 1.04), False, True),
    ],
)
def test_when_two_campaigns_have_the_same_verdict(
    machine: tuple[float, float], nodes: tuple[float, float], *, equal: bool, contradicts: bool
) -> None:
    [pair] = hosts_verdicts.pair_comparisons(
        [compare(*machine), compare(0.9, 1.1, "of one alone")], [compare(*nodes)]
    )
    assert (pair.is_equal, pair.contradicts) == (equal, contradicts)
    targets = dict(hosts_verdicts.judge_pairs([pair]))
    assert targets == {
        "no verdicts contradict each other": not contradicts,
        "the planted difference has the same verdict": False,
    }


def test_the_planted_difference_must_be_found_by_both() -> None:
    planted = hosts_verdicts.PLANTED, hosts_verdicts.PLANTED_METRIC
    for nodes, is_met in (((1.1, 1.4), True), ((0.8, 0.9), False), ((0.9, 1.4), False)):
        [pair] = hosts_verdicts.pair_comparisons(
            [compare(1.2, 1.4, *planted)], [compare(*nodes, *planted)]
        )
        assert hosts_verdicts.judge_pairs([pair])[1][1] is is_met


def test_the_share_of_a_campaign_that_is_trials(make: Make) -> None:
    spans = [(0.0, 9.0), (10.0, 19.0), (1000.0, 1009.0)]
    assert hosts_verdicts.measure_share(spans) == (pytest.approx(27 / 28), 28.0)
    assert hosts_verdicts.measure_share([]) == (0.0, 0.0)
    campaign = load_campaign(make("both", blocks=2, design="both", threads=[1]))
    assert len(hosts_verdicts.find_spans(campaign)) == 2 * (4 + 3)


def test_small_campaigns_that_are_finished_are_not_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "kept" / "bias.jsonl"
    lost_hosts.measure_bias(1, out, 1)
    text = out.read_text()
    assert len(text.splitlines()) == 2
    # A line that was cut is no campaign.
    kept = text.splitlines(keepends=True)[0]
    out.write_text(kept + text.splitlines()[1][:9])
    lost_hosts.measure_bias(1, out, 1)
    assert out.read_text() == text
    lost_hosts.measure_bias(1, out, 1)
    assert out.read_text() == text
    first, second, *again = capsys.readouterr().out.splitlines()
    assert again == 2 * [first, second]
    assert first.startswith("losses at random: ")
    assert " of 1 campaigns (" in second
