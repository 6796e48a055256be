"""A campaign's profiles of contention: which are found, what the report says of them, when a
variant has none.
"""

from pathlib import Path

import polars as pl
import pytest
from example_results import build
from example_waits import CLIENT, FAULT, LOCK, UNLOCK, profile

from dballoc.experiment import experiment_file, schedule
from dballoc.experiment.trial_steps import plan_steps
from dballoc.ground.errors import UsageError
from dballoc.profile.contention.waits import WAKEUPS
from dballoc.profile.formats.profile_file import save_profile
from dballoc.profile.model import Profile, Sample
from dballoc.questions.campaign.figures import profiles
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.write_report import write_report_outputs

pytestmark = pytest.mark.long

TABLE = {
    "name": "t",
    "baseline": "glibc",
    "workloads": ["oltp_read_only"],
    "threads": [1, 16],
    "design": "solo",
    "profile": "contention",
    "variant": [
        {"name": "glibc"},
        {"name": "jemalloc", "allocator": "jemalloc"},
        {"name": "tuned"},
    ],
}


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two blocks; glibc and jemalloc were watched, tuned was not, and it says why."""
    directory = build(
        tmp_path_factory.mktemp("contention") / "r",
        experiment_file.build_experiment(TABLE, "t"),
        2,
        (),
        (),
    )
    trials = load_campaign(directory).trial.filter(pl.col("role") != "A2")
    rows = {
        (r["block"], r["variant"]): directory / "trials" / r["directory"]
        for r in trials.iter_rows(named=True)
    }
    for raw in rows.values():
        raw.mkdir(parents=True)
    wakeups = Profile(
        title="w", values=(WAKEUPS,), samples=[Sample(UNLOCK, (10.0,), False, {"malloc": "free"})]
    )
    for name, of in (
        ("glibc", profile((LOCK, 60), (FAULT, 10), (CLIENT, 30))),
        ("jemalloc", profile((CLIENT, 99), (FAULT, 1))),
    ):
        save_profile(of, rows[1, name] / "contention-oltp_read_only.profile.json.gz")
        save_profile(wakeups, rows[1, name] / "contention-oltp_read_only-wakeups.profile.json.gz")
    # None of these is looked at.
    save_profile(profile((LOCK, 1)), rows[2, "glibc"] / "contention-oltp_read_only.profile.json.gz")
    (rows[1, "tuned"] / "contention-oltp_read_only.txt").write_text("perf record does not answer\n")
    return directory


def test_each_variants_profile_is_found_once(campaign: Path) -> None:
    found = profiles.load_contention(campaign, load_campaign(campaign))
    assert found
    assert [(w.variant, w.missing) for w in found.watched] == [
        ("glibc", ""), ("jemalloc", ""), ("tuned", "perf record does not answer"),
    ]  # fmt: skip
    assert found.watched[0].switches
    assert found.watched[0].switches.total("waits") == pytest.approx(100)


def test_the_report_shows_them(campaign: Path, tmp_path: Path) -> None:
    page = write_report_outputs(campaign, tmp_path / "out").read_text()
    text = (tmp_path / "out" / "report.md").read_text()
    assert "## Contention\n" in text
    assert "__lll_lock_wait_private" in page
    assert page.count('class="flame-chart"') == 3
    assert (
        "https://" not in page[page.index('id="contention"') : page.index('id="contention"') + 2000]
    )
    row = next(
        line for line in text.splitlines() if line.startswith("| \\_\\_lll\\_lock\\_wait\\_private")
    )
    assert row == "| \\_\\_lll\\_lock\\_wait\\_private | malloc | libc.so.6 | 60.00 % | – |"
    split = next(
        line for line in text.splitlines() if line.startswith("| glibc |") and "page fault" in line
    )
    assert "70.0 % | 60.0 % | 10.0 % | page fault 10.0 %" in split
    assert "No profile of tuned under oltp\\_read\\_only: perf record does not answer." in text
    rows = pl.read_csv(tmp_path / "out" / "csv" / "contention-frames.csv")
    lock = rows.filter(pl.col("function") == "__lll_lock_wait_private")
    assert dict(lock.select("variant", "share").iter_rows()) == pytest.approx(
        {"glibc": 0.6, "jemalloc": 0.0}
    )
    assert (tmp_path / "out" / "csv" / "contention-waits.csv").exists()
    for key in ("own-waits", "waits", "wakeups"):
        assert f"](charts/contention-{key}-oltp_read_only.html)" in text
        assert (tmp_path / "out" / "charts" / f"contention-{key}-oltp_read_only.html").exists()


def test_without_the_key_there_is_no_section(tmp_path: Path) -> None:
    plain = {key: value for key, value in TABLE.items() if key != "profile"}
    directory = build(tmp_path / "r", experiment_file.build_experiment(plain, "t"), 1, (), ())
    assert profiles.load_contention(directory, load_campaign(directory)) is None
    assert "flame" not in write_report_outputs(directory, tmp_path / "out").read_text()


def test_each_variant_is_watched_once_after_everything_else() -> None:
    experiment = experiment_file.build_experiment(
        TABLE | {"workloads": ["oltp_read_only", "oltp_point_select"]}, "t"
    )
    watched = {}
    for number in (1, 2):
        for slot in schedule.order_block(experiment, number):
            steps = plan_steps(experiment, slot)
            kinds = [step.kind for step in steps]
            if "profile" in kinds:
                assert kinds[-2:] == ["profile", "profile"]
                assert kinds[-3] == "idle"
                watched[slot.variant] = [
                    (s.workload, s.threads, s.seconds) for s in steps if s.kind == "profile"
                ]
    expected = [("oltp_read_only", 16, 10.0), ("oltp_point_select", 16, 10.0)]
    assert watched == {"glibc": expected, "jemalloc": expected, "tuned": expected}


def test_with_a_start_for_each_level_at_the_highest_alone() -> None:
    experiment = experiment_file.build_experiment(TABLE | {"levels": "fresh"}, "t")
    found = [
        (slot.level, slot.role)
        for slot in schedule.order_block(experiment, 1)
        if any(step.kind == "profile" for step in plan_steps(experiment, slot))
    ]
    assert sorted(found) == [(16, "A1"), (16, "V"), (16, "V")]


def test_a_duet_alone_cannot_be_watched() -> None:
    with pytest.raises(UsageError, match="profile: variants are profiled in solo trials"):
        experiment_file.build_experiment(TABLE | {"design": "duet"}, "t")
