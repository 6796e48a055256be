"""When a campaign may stop before its planned blocks. Pure.

It may stop at a planned look alone (:class:`dballoc.questions.compare.procedure.Procedure`
has their numbers of blocks in ``spending``), each design for itself, when every comparison of the
design with the baseline is decided: its verdict, whether it is no worse within the margin, and
whether a gain by which it looks better is there; without these the answer would stay open. A
variant with faults, or one that is left out of the duet, gets no verdict however many blocks there
are, and does not hold up the stop. A campaign of the baseline alone compares nothing: it stops when
the A/A intervals are narrow.
"""

from collections.abc import Collection, Iterable

from dballoc.experiment.designs import Design
from dballoc.questions.campaign.answer.recommendation import is_promising, judge_comparison
from dballoc.questions.compare.baseline_comparison import Comparison, Comparisons
from dballoc.questions.compare.procedure import MARGIN
from dballoc.questions.compare.verdict import Noninferiority, Verdict, judge_ratio
from dballoc.questions.statistics.ratio_interval import Ratio


def is_design_decided(
    comparisons: Comparisons,
    design: str,
    left_out: Collection[str] = (),
    margin: float | None = None,
) -> bool:
    """Whether more blocks of a design could only repeat its verdicts. ``left_out``: the variants
    that are not in the duet; ``margin``: what a variant may lose and count as no worse; None in
    campaigns that stored none, which end by their verdicts alone.
    """
    if not comparisons.family:
        return all(narrow(c.ratio) for c in comparisons.floor if c.metric.design == design)
    without_verdict = {*comparisons.faulty, *(left_out if design == Design.DUET else ())}
    compared = [
        c
        for c in comparisons.family
        if c.metric.design == design and c.variant not in without_verdict
    ]
    return all_decided(c.ratio for c in compared) and (
        margin is None or all(is_settled(c, margin) for c in compared)
    )


def is_settled(comparison: Comparison, margin: float) -> bool:
    """Whether it is known of a figure if it is no worse, and if it looks better by more than 1 %,
    that it is.
    """
    standing = judge_comparison(comparison, margin)
    is_gain_open = is_promising(comparison) and standing is not Noninferiority.BETTER
    return standing is not Noninferiority.UNDECIDED and not is_gain_open


def all_decided(ratios: Iterable[Ratio | None]) -> bool:
    """Whether every comparison has an interval, and each is decided; False where nothing is
    compared.
    """
    verdicts = [judge_ratio(ratio) for ratio in ratios]
    return bool(verdicts) and Verdict.UNDECIDED not in verdicts


def narrow(ratio: Ratio | None) -> bool:
    """Whether an A/A interval is no wider than that of an equivalence; False without one."""
    if ratio is None or ratio.interval is None:
        return False
    return ratio.interval.high - ratio.interval.low <= 2 * MARGIN
