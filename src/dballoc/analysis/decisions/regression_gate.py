"""Judge whether conditions between two campaigns come true, as a build's pipeline asks. Pure.

A condition describes what must not be (``rss > 1.05``). It has come true where the whole interval
fulfils it, not where the estimate does: noise alone moves an estimate across any bound now and
then. A strict gate demands the opposite proof, that the whole interval does not fulfil it. What
cannot be judged at all fails either gate: one that measured nothing must not be open.
"""

from dataclasses import dataclass

from dballoc.analysis.decisions.fail_condition import Condition
from dballoc.analysis.measures import CONDITIONS
from dballoc.analysis.tables.campaign_diff import CampaignDiff, Figure


@dataclass(frozen=True)
class Finding:
    """One figure under a condition. ``holds``: True if the condition is shown to hold, False if
    shown not to, None if neither; ``problem`` says why the figure could not be judged.
    """

    figure: Figure
    holds: bool | None
    problem: str = ""


@dataclass(frozen=True)
class Outcome:
    """A condition with the findings of all figures that it concerns; ``problem``: why there are
    none.
    """

    condition: Condition
    findings: list[Finding]
    problem: str = ""

    def failures(self, strict: bool) -> list[Finding]:
        """The findings that fail the gate."""
        return [f for f in self.findings if f.holds or f.problem or (strict and f.holds is None)]

    def failed(self, strict: bool) -> bool:
        """Whether the gate is closed."""
        return bool(self.problem or self.failures(strict))


def judge_condition(between: CampaignDiff, condition: Condition) -> Outcome:
    """Judge every figure that the condition concerns. The baseline, whose relative ratio is 1 by
    definition, is judged by its absolute ratio, and only where the condition names it.
    """
    named = [f for f in between.moved if f.variant in condition.within]
    figures = [
        f for f in [*between.figures, *named]
        if f.metric.measure.condition == condition.measure
        and condition.concerns(f.variant, f.metric.workload)
    ]  # fmt: skip
    if not figures:
        return Outcome(condition, [], _explain_no_figures(between, condition))
    return Outcome(condition, [_judge_figure(between, condition, f) for f in figures])


def _judge_figure(between: CampaignDiff, condition: Condition, figure: Figure) -> Finding:
    if problem := between.no_verdict(figure):
        return Finding(figure, None, problem)
    assert figure.ratio and figure.ratio.interval
    return Finding(figure, condition.holds(*figure.ratio.interval))


def _explain_no_figures(between: CampaignDiff, condition: Condition) -> str:
    pairing = between.pairing
    reasons = {"rss": pairing.no_memory, "rss_idle": pairing.no_idle}.get(
        condition.measure, pairing.no_speed
    )
    if condition.measure == "cpu" and pairing.no_speed:
        reasons = [*pairing.no_duet, *(r for r in pairing.no_speed if r not in pairing.no_duet)]
    if reasons:
        return "; ".join(reasons)
    of_load = not CONDITIONS[condition.measure].trial
    return "; ".join(pairing.unpaired) or (
        "no workload is in both" if of_load else "no variant with this measure is in both"
    )
