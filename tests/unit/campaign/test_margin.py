"""The margin: stored before the first block, kept on resuming, and exploratory when chosen later."""

import re
from pathlib import Path

import pytest
from example_results import Make
from judged_campaign import judge_whole

from dballoc.campaign.recorded_facts import check_margin
from dballoc.document.model import Answer
from dballoc.ground.errors import Failure, UsageError
from dballoc.questions.campaign.answer.conditions_and_preference import Preference
from dballoc.questions.campaign.answer.recommendation import Ending, Recommendation
from dballoc.questions.compare.campaign_tables import load_campaign

STORED = "INSERT OR REPLACE INTO campaign VALUES ('margin', '0.03')"
# Throughput scatters by some per cent from trial to trial; a block takes a minute.
WILD = (
    "UPDATE step SET tps = tps * (1 + 0.024 * ((trial * 7 % 5) - 2) / 2.0)",
    "UPDATE block SET started = 0, ended = 60",
)
# jemalloc needs less memory, and is 2 % slower, which scatters little.
SLOWER = (
    "UPDATE step SET tps = tps * 0.98 WHERE trial IN (SELECT trial FROM trial WHERE variant = 'jemalloc')",
)


def judge(directory: Path, margin: float | None = None) -> tuple[Recommendation, Answer]:
    """Of a results directory, without writing a report, which takes seconds."""
    campaign = load_campaign(directory)
    _, found, said = judge_whole(campaign, Preference(margin=margin), directory)
    return found, said


def test_the_stored_margin_counts_and_another_is_exploratory(make: Make) -> None:
    directory = make("a", sql=(STORED, *SLOWER))
    found, said = judge(directory)
    assert (found.ending, found.variant) == (Ending.USE, "jemalloc")
    assert (found.evidence.margin, found.evidence.exploratory) == (0.03, False)
    assert not any(note.startswith("Exploratory") for note in said.notes)
    found, said = judge(directory, margin=0.01)
    assert (found.ending, found.subject, found.variant) == (Ending.CHOICE, "jemalloc", None)
    assert (found.evidence.margin, found.evidence.exploratory) == (0.01, True)
    assert any(note.startswith("Exploratory: the margin of 1 %") for note in said.notes)
    assert "costs 2.0 % of throughput" in said.headline


def test_a_campaign_without_a_stored_margin_is_exploratory(make: Make) -> None:
    evidence = judge(make("a"))[0].evidence
    assert (evidence.margin, evidence.exploratory) == (0.03, True)


@pytest.mark.parametrize("value", ["0", "1", "-0.1", "nan", "much", ""])
def test_a_stored_margin_that_is_none_is_damage(make: Make, value: str) -> None:
    directory = make("a", sql=(f"INSERT OR REPLACE INTO campaign VALUES ('margin', '{value}')",))
    with pytest.raises(Failure, match="damaged: campaign: margin: "):
        load_campaign(directory)


def test_what_is_open_names_the_command_that_extends_it(make: Make) -> None:
    directory = make("a b", sql=(STORED, *WILD))
    found, said = judge(directory)
    assert (found.ending, found.subject) == (Ending.NOT_SETTLED, "jemalloc")
    assert re.fullmatch(
        rf"dballoc bench --out '{re.escape(str(directory))}' --extend \d+m", said.command
    )
    assert "more minutes would settle it, with 80 % chance" in said.reason


def test_without_the_directory_it_is_not_named(make: Make) -> None:
    campaign = load_campaign(make("secret-place", sql=(STORED, *WILD)))
    said = judge_whole(campaign)[2]
    assert said.command.startswith("dballoc bench --out DIR --extend ")
    assert "secret-place" not in said.command


def test_a_campaign_keeps_its_margin() -> None:
    check_margin(None, 0.03, Path("r"))
    check_margin(None, None, Path("r"))
    check_margin(0.03, 0.03, Path("r"))
    with pytest.raises(UsageError, match=r"^--margin: r has the margin 3 %, which cannot change"):
        check_margin(0.05, 0.03, Path("r"))
    with pytest.raises(UsageError, match=r"^--margin: r has no stored margin, which cannot change"):
        check_margin(0.03, None, Path("r"))
