"""The rule by which a variant is recommended, as the user states it with ``--prefer``. Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from dballoc.analysis.decisions import fail_condition
from dballoc.analysis.decisions.fail_condition import Condition
from dballoc.errors import UsageError

Objective = Literal["memory", "speed"]

_AIMS: tuple[Objective, ...] = ("memory", "speed")
_AIM = {"memory": "the one with the least peak RSS", "speed": "the fastest one"}
_CLAUSE = {"memory": "be slower by more than 1 %", "speed": "need more than 1 % more peak RSS"}
_REASON = {
    "memory": "shown to be slower by more than 1 %",
    "speed": "shown to need more than 1 % more peak RSS",
}


@dataclass(frozen=True)
class Preference:
    """What the user prefers. ``objective``: what is to be best; ``constraints``: what a variant
    must not be shown to break. Without any, the objective has one of its own.
    """

    objective: Objective = "memory"
    constraints: tuple[Condition, ...] = ()

    @property
    def text(self) -> str:
        """The preference as ``--prefer`` takes it."""
        if not self.constraints:
            return self.objective
        aim = [] if self.objective == "memory" else [self.objective]
        return ",".join([*aim, *(c.text for c in self.constraints)])

    @property
    def clause(self) -> str:
        """What a variant must not be shown to do."""
        if not self.constraints:
            return _CLAUSE[self.objective]
        return "break " + " or ".join(c.text for c in self.constraints)

    @property
    def rule(self) -> str:
        """The rule as one sentence, without its full stop."""
        return (
            f"of the variants that are not shown to {self.clause}, {_AIM[self.objective]}; ties "
            "go to the baseline"
        )

    @property
    def own_reason(self) -> str:
        """Why the objective's own constraint excludes a variant."""
        return _REASON[self.objective]


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
    preference: Preference, variants: Collection[str], workloads: Collection[str], idle: bool
) -> None:
    """Raise UsageError if a constraint names something that the campaign does not have. ``idle``:
    whether idle RSS is measured.
    """
    for constraint in preference.constraints:
        fail_condition.check_condition(constraint, variants, workloads, "--prefer")
        if constraint.measure == "rss_idle" and not idle:
            raise UsageError(
                f"--prefer: {constraint.text!r}: the experiment has no idle step (time.idle) to "
                "measure it in"
            )
