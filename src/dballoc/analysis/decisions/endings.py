"""The endings of a campaign: which one the variants' standings give. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from dballoc.analysis.decisions.noninferiority import Standing


class Ending(StrEnum):
    """What a campaign ends with; every campaign has exactly one."""

    USE = "use"
    CHOICE = "choice"
    NOT_SETTLED = "not settled"
    STAY = "stay"
    BASELINE_FAILED = "baseline failed"


@dataclass(frozen=True, kw_only=True)
class Aim:
    """A figure in which a variant may be better. ``first``: whether it belongs to the question that
    the user asked first; ``gain``: −ln of the ratio where low is good, ln where high is;
    ``promising``: whether the estimate alone would be better, and has an interval.
    """

    standing: Standing
    gain: float
    first: bool
    promising: bool


@dataclass(frozen=True, kw_only=True)
class VariantStanding:
    """All that decides on a variant. ``required``: how it stands in what must not be worse, its
    aims included; ``faulty``: a trial of it ended in a fault; ``collapsed``: its throughput
    collapses where the baseline's does not; ``loses``: something undecided is estimated to be
    worse than the margin allows; ``has_conditions``: what is required are conditions of the user's,
    who has said what may not be lost, so that breaking one leaves no choice.
    """

    name: str
    aims: Sequence[Aim]
    required: Sequence[Standing]
    faulty: bool = False
    collapsed: bool = False
    loses: bool = False
    has_conditions: bool = False

    @property
    def ending(self) -> Ending:
        """The ending that this variant alone would give."""
        better = any(aim.standing is Standing.BETTER for aim in self.aims)
        worse = self.collapsed or Standing.WORSE in self.required
        if self.faulty or not (better or any(aim.promising for aim in self.aims)):
            return Ending.STAY
        if worse:
            return Ending.CHOICE if better and not self.has_conditions else Ending.STAY
        return Ending.USE if better and self._is_shown_no_worse else Ending.NOT_SETTLED

    @property
    def _is_shown_no_worse(self) -> bool:
        return all(s in (Standing.BETTER, Standing.NO_WORSE) for s in self.required)

    @property
    def rank(self) -> tuple[bool, bool, bool, float, str]:
        """The order among variants of the same ending, the least first. Of those that are not
        settled, one that is estimated to lose nothing comes before one that loses. Then a gain that
        is shown before one that is not, the first question before the other, the largest gain, the
        name.
        """
        loses = self.loses and self.ending is Ending.NOT_SETTLED
        shown = [aim for aim in self.aims if aim.standing is Standing.BETTER]
        counted = shown or [aim for aim in self.aims if aim.promising]
        in_first = [aim for aim in counted if aim.first]
        gain = max((aim.gain for aim in in_first or counted), default=0.0)
        return (loses, not shown, not in_first, -gain, self.name)


# From the one that says most. A choice is decided, and comes before what is not.
_ORDER = (Ending.USE, Ending.CHOICE, Ending.NOT_SETTLED)


def choose_ending(
    variants: Sequence[VariantStanding], baseline_failed: bool
) -> tuple[Ending, str | None]:
    """Return the ending, and the variant that it names: None for the last two."""
    if baseline_failed:
        return Ending.BASELINE_FAILED, None
    for ending in _ORDER:
        candidates = [v for v in variants if v.ending is ending]
        if candidates:
            return ending, min(candidates, key=lambda v: v.rank).name
    return Ending.STAY, None
