"""The rule by which a variant is recommended, as the user states it with ``--prefer``. Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from dballoc.analysis.decisions import fail_condition
from dballoc.analysis.decisions.fail_condition import Condition
from dballoc.errors import UsageError
from dballoc.numbers import listing

Objective = Literal["memory", "speed"]

_AIMS: tuple[Objective, ...] = ("memory", "speed")
_FIRST = {"memory": "in memory first, then in speed", "speed": "in speed first, then in memory"}

# Nobody would call a loss of half "no worse".
_LARGEST_MARGIN = 0.5


@dataclass(frozen=True)
class Preference:
    """What the user prefers. ``objective``: the question that comes first; ``constraints``: what a
    variant has to keep to, instead of the margin. ``margin``: the share that may be lost, chosen
    after the campaign; None: the one that was stored before it.
    """

    objective: Objective = "memory"
    constraints: tuple[Condition, ...] = ()
    margin: float | None = None

    @property
    def text(self) -> str:
        """The preference as ``--prefer`` takes it."""
        if not self.constraints:
            return self.objective
        aim = [] if self.objective == "memory" else [self.objective]
        return ",".join([*aim, *(c.text for c in self.constraints)])

    def describe_rule(self, margin: float) -> str:
        """Return the rule as one sentence, without its full stop."""
        if self.constraints:
            kept = " and ".join(c.text for c in self.constraints)
            return (
                f"use a variant that is shown to be better by more than 1 % in {self.objective} "
                f"and to keep to {kept}; of several the one with the largest gain"
            )
        return (
            "use a variant that is shown to be better by more than 1 % in memory (peak RSS) or in "
            "speed (CPU per transaction, throughput), and no worse than by "
            f"{format_share(margin)} in all else that is judged; of several the one with the "
            f"largest gain, {_FIRST[self.objective]}"
        )


def format_share(share: float) -> str:
    """Return ``3 %`` or ``2.5 %``."""
    return f"{share * 100:g} %"


def parse_margin(text: str | None) -> float | None:
    """Parse a margin, ``3``, ``3%`` or ``2.5 %``, to a share; None stays None. UsageError for
    anything else, and for what is not above 0 and at most 50 %.
    """
    if text is None:
        return None
    try:
        share = round(float(text.strip().removesuffix("%")) / 100, 9)
    except ValueError:
        share = 0.0
    if not 0 < share <= _LARGEST_MARGIN:
        raise UsageError(
            f"--margin: {text!r}: give what a variant may lose, like 3%, above 0 and at most 50%"
        )
    return share


LEAST_MEMORY = Preference()


def parse_preference(text: str | None) -> Preference:
    """Parse ``memory``, ``speed``, conditions such as ``p99 <= 1.05``, or one of the two words and
    conditions, separated by commas.

    None gives the default. UsageError, in one line, for anything else, and for a condition that the
    baseline itself, whose ratios are 1, does not fulfil.
    """
    if text is None:
        return LEAST_MEMORY
    words = [w.strip() for w in text.split(",") if w.strip()]
    aims: list[Objective] = [aim for w in words for aim in _AIMS if w == aim]
    if len(aims) > 1 or not words:
        raise UsageError(
            f"--prefer: {text!r}: give memory or speed, conditions such as 'p99<=1.05', or one of "
            "the two and conditions"
        )
    constraints = []
    for word in (w for w in words if w not in aims):
        if not any(sign in word for sign in "<>="):
            raise UsageError(
                f"--prefer: {word!r} is not memory, speed, or a condition such as 'p99<=1.05'"
            )
        constraint = fail_condition.parse_condition(word, "--prefer")
        if not constraint.holds_of(1.0):
            raise UsageError(
                f"--prefer: {constraint.text!r} excludes the baseline, whose ratio to itself is 1; "
                "give a bound that 1 fulfils"
            )
        constraints.append(constraint)
    return Preference(aims[0] if aims else "memory", tuple(constraints))


def check_preference(
    preference: Preference,
    variants: Collection[str],
    workloads: Collection[str],
    idle: bool,
    without_idle: Collection[str] = (),
) -> None:
    """Raise UsageError if a constraint names something that the campaign does not have. ``idle``:
    whether idle RSS is measured; ``without_idle``: the variants of which it says nothing, as they
    give memory back by the clock and the replay does not keep it.
    """
    for constraint in preference.constraints:
        fail_condition.check_condition(constraint, variants, workloads, "--prefer")
        if constraint.measure == "rss_idle" and not idle:
            raise UsageError(
                f"--prefer: {constraint.text!r}: the experiment has no idle step (time.idle) to "
                "measure it in"
            )
        unjudged = [name for name in without_idle if constraint.concerns(name, None)]
        if constraint.measure == "rss_idle" and unjudged:
            raise UsageError(
                f"--prefer: {constraint.text!r}: idle heap says nothing of {listing(unjudged)}, "
                "which may give memory back by the clock; give --mode timed"
            )
