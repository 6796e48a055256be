"""A campaign that was measured only is judged once, where it ends, and never extended."""

from pathlib import Path

import pytest
from example_procedures import SHARES, mark_current
from example_results import Make
from judged_campaign import judge_whole

from dballoc.campaign.plan_extension import plan_extension
from dballoc.document.model import Answer
from dballoc.ground.errors import UsageError
from dballoc.questions.campaign.answer.conditions_and_preference import LEAST_MEMORY
from dballoc.questions.campaign.answer.recommendation import Recommendation
from dballoc.questions.campaign.sections.shared_sections import _describe_error
from dballoc.questions.compare.baseline_comparison import declare_procedures
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.compare.procedure import declare_procedure, list_extension_goals

MEASURED = (
    "INSERT OR REPLACE INTO campaign VALUES ('margin', '0.03'), ('measured_only', 'true')",
    "UPDATE step SET tps = tps * (1 + 0.06 * ((trial * 7 % 5) - 2) / 2.0)",
)


def judge(directory: Path) -> tuple[Recommendation, Answer]:
    _, recommendation, answer = judge_whole(load_campaign(directory), LEAST_MEMORY, directory)
    return recommendation, answer


def test_the_planned_end_spends_what_that_of_others_has_and_nothing_follows() -> None:
    procedure = declare_procedure(18, SHARES, judged_once=True)
    assert procedure.spending == {18: 0.8}
    assert [procedure.after(n).reached for n in (6, 10, 17, 18)] == [None, None, None, 18]
    assert (procedure.extensions, list_extension_goals({"solo": procedure})) == ((), [])
    for measure, share in SHARES.items():
        assert procedure.levels[measure] == 1 - 0.8 * share.of_each
        assert procedure.bound_levels[measure] == 1 - 0.8 * share.of_bound


def test_of_few_blocks_the_planned_end_is_that_of_any_campaign() -> None:
    once, others = (declare_procedure(8, SHARES, judged_once=is_once) for is_once in (True, False))
    assert (once.levels, once.bound_levels) == (others.levels, others.bound_levels)


def test_where_the_budget_ended_it_spends_the_same() -> None:
    procedure = declare_procedure(18, SHARES, [13], judged_once=True)
    assert procedure.spending == {13: 0.8}
    assert procedure.after(12).reached is None
    at_end = procedure.after(13)
    assert (at_end.reached, at_end.is_over_budget, at_end.extensions) == (13, True, ())


def test_its_report_says_when_it_is_judged_and_offers_no_extension(make: Make) -> None:
    directory = make("all", blocks=7, sql=(*mark_current(7), *MEASURED))
    recommendation, answer = judge(directory)
    assert [c.judged for c in recommendation.comparisons.family] == [True] * 4
    assert (
        "Measured only: not judged while it ran, so judged once, after 7 solo blocks."
        in answer.notes
    )
    assert not any("over all looks" in note for note in answer.notes)
    assert "--extend" not in answer.command
    assert "--measure-only" in answer.command
    assert "--blocks" in answer.command
    method = _describe_error(declare_procedures(load_campaign(directory)))
    assert "it is judged once, at its end" in method
    assert "if the campaign is extended" not in method
    with pytest.raises(UsageError, match="judged once and never extended"):
        plan_extension(directory, 3600.0)


def test_before_its_end_it_is_resumed_and_not_judged(make: Make) -> None:
    interrupted = "INSERT OR REPLACE INTO campaign VALUES ('ending', 'interrupted')"
    directory = make("cut", blocks=6, sql=(*mark_current(7), *MEASURED, interrupted))
    recommendation, answer = judge(directory)
    assert not any(c.judged for c in recommendation.comparisons.family)
    assert not any(c.ratio and c.ratio.interval for c in recommendation.comparisons.family)
    assert "Nothing is judged yet: it is judged once, after 7 solo blocks." in answer.reason
    assert "The campaign is not finished; the same command resumes it:" in answer.reason
    assert answer.command.endswith("--measure-only")
    assert "The campaign was interrupted: 6 of 7 solo blocks." in answer.notes


def test_where_its_budget_ended_it_is_judged(make: Make) -> None:
    ended = (
        "INSERT OR REPLACE INTO campaign VALUES ('ending', 'budget'), "
        "('budget_looks', '{\"solo\": [5]}')"
    )
    directory = make("over", blocks=5, sql=(*mark_current(7), *MEASURED, ended))
    recommendation, answer = judge(directory)
    [levels] = {c.ratio.confidence for c in recommendation.comparisons.family if c.ratio}
    assert levels == pytest.approx(1 - 0.8 * 0.025 / 2)
    assert "The budget was used up: 5 of 7 solo blocks that were planned." in answer.notes
    assert any("judged once, after 5 solo blocks" in note for note in answer.notes)
