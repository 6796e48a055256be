"""Levels that go back and forth between two speeds, by the host's rescheduling interrupts."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from dballoc.questions.campaign.answer.noise_network_encryption import describe_two_speeds
from dballoc.questions.campaign.figures.two_speeds import find_two_speeds
from dballoc.questions.compare.campaign_tables import Campaign, load_campaign
from dballoc.questions.report_content import gather_report

Make = Callable[..., Path]


def play(make: Make, across: Callable[[int], bool], slow: float = 0.6) -> Campaign:
    """A campaign with 4 clients; in the seconds for which ``across`` is true, throughput is
    ``slow`` times as high and each query has a rescheduling interrupt.
    """
    directory = make(
        "a", blocks=3, threads=[4], time={"warmup": "0s", "level": "10s", "idle": "0s"}
    )
    db = sqlite3.connect(directory / "results.sqlite")
    counted: dict[int, int] = {}
    for number, (trial, t, events, queries) in enumerate(
        db.execute("SELECT trial, t, events, queries FROM interval ORDER BY trial, t").fetchall()
    ):
        factor, more = (slow, int(queries * slow)) if across(number) else (1.0, 3)
        counted[trial] = counted.get(trial, 100) + more
        db.execute(
            "UPDATE interval SET events = ?, queries = ? WHERE trial = ? AND t = ?",
            (int(events * factor), int(queries * factor), trial, t),
        )
        db.execute(
            "UPDATE host_sample SET reschedules = ? WHERE trial = ? AND t = ?",
            (counted[trial], trial, t),
        )
    first = "SELECT min(t) FROM interval WHERE interval.trial = host_sample.trial"
    db.execute(f"UPDATE host_sample SET reschedules = 100 WHERE t < ({first})")
    db.commit()
    db.close()
    return load_campaign(directory)


def test_a_level_with_two_speeds(make: Make) -> None:
    campaign = play(make, lambda second: second % 4 == 3)
    [found] = find_two_speeds(campaign)
    assert (found.workload, found.threads) == ("oltp_read_only", 4)
    assert found.across / found.near == pytest.approx(0.6, rel=0.02)
    assert found.share_across == pytest.approx(0.25, abs=0.03)
    assert found.interrupts == pytest.approx(16, rel=0.02)
    [sentence, _] = describe_two_speeds([found])
    assert sentence.startswith("oltp_read_only with 4 clients ran at two speeds: ")
    [apart, remedy] = describe_two_speeds([found], has_clients_apart=True)
    assert "a client's thread" in sentence
    assert "client's thread" not in apart
    assert "--client-cpus" not in remedy
    noise = next(s for s in gather_report(campaign).sections if s.key == "noise")
    assert noise.text[0] == sentence


@pytest.mark.parametrize(
    ("across", "slow"),
    [
        pytest.param(lambda _: False, 0.6, id="never across CPUs"),
        pytest.param(lambda _: True, 0.6, id="always across CPUs"),
        pytest.param(lambda second: second % 4 == 3, 0.97, id="hardly slower"),
        pytest.param(lambda second: second == 7, 0.6, id="one second"),
    ],
)
def test_one_speed(make: Make, across: Callable[[int], bool], slow: float) -> None:
    assert find_two_speeds(play(make, across, slow)) == []


def test_results_without_the_count(make: Make) -> None:
    campaign = load_campaign(make("a", threads=[4]))
    assert find_two_speeds(campaign) == []
    assert describe_two_speeds([]) == []
