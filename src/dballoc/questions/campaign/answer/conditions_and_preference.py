"""What the user asks of ratios: conditions as people write them (``rss > 1.05``,
``jemalloc:oltp_read_only:p99 <= 1.1``), and the rule of a recommendation that ``--prefer`` states.
Pure.
"""

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from dballoc.ground.errors import UsageError
from dballoc.ground.numbers import listing
from dballoc.questions.compare.measures import CONDITIONS

_FORM = re.compile(
    r"\s*((?:[^:\s]+\s*:\s*)*)([A-Za-z_]\w*)\s*(<=|>=|<|>)\s*(\d+(?:\.\d*)?|\.\d+)\s*"
)


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A bound on a measure's ratio. ``text``: as it was written; ``within``: the variant or
    workload named before the measure.
    """

    text: str
    measure: str
    operator: str
    bound: float
    within: tuple[str, ...] = ()

    def holds(self, low: float, high: float) -> bool | None:
        """Return True if it holds in the whole interval, False if it holds nowhere in it, None if
        the bound lies inside the interval.
        """
        ends = [_fulfils(self.operator, end, self.bound) for end in (low, high)]
        return ends[0] if ends[0] == ends[1] else None

    def holds_of(self, value: float) -> bool:
        """Whether a number fulfils it."""
        return _fulfils(self.operator, value, self.bound)

    def concerns(self, variant: str, workload: str | None) -> bool:
        """Whether it applies to this variant and workload; without a qualification it applies to
        all.
        """
        return all(word in (variant, workload) for word in self.within)


def parse_condition(text: str, where: str) -> Condition:
    """Parse ``[VARIANT:][WORKLOAD:]MEASURE OPERATOR NUMBER``. UsageError, beginning with ``where``,
    for anything else.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{where}: {text!r} is not a condition; write it like 'rss > 1.05' or "
            "'jemalloc:p99 >= 1.1': a measure, one of < <= > >=, and a number"
        )
    before, measure, operator, bound = match.groups()
    if measure not in CONDITIONS:
        raise UsageError(
            f"{where}: no measure {measure!r} in {text!r}; there are {', '.join(CONDITIONS)}"
        )
    if not math.isfinite(float(bound)):
        raise UsageError(f"{where}: {measure} {operator} a number that is too large")
    within = tuple(word.strip() for word in before.split(":") if word.strip())
    return Condition(
        text=" ".join(text.split()),
        measure=measure,
        operator=operator,
        bound=float(bound),
        within=within,
    )


def check_condition(
    condition: Condition, variants: Collection[str], workloads: Collection[str], where: str
) -> None:
    """Raise UsageError if the condition names neither a variant nor a workload, or names a workload
    for a measure of the server's memory.
    """
    for word in condition.within:
        if word not in variants and word not in workloads:
            names = ", ".join([*variants, *workloads])
            raise UsageError(
                f"{where}: no variant or workload {word!r} in {condition.text!r}; there are {names}"
            )
        if CONDITIONS[condition.measure].trial and word not in variants:
            raise UsageError(
                f"{where}: {condition.text!r}: {condition.measure} belongs to all workloads "
                f"together, not to {word}"
            )


def _fulfils(operator: str, value: float, bound: float) -> bool:
    match operator:
        case ">":
            return value > bound
        case ">=":
            return value >= bound
        case "<":
            return value < bound
        case _:
            return value <= bound


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
    """Parse a margin, ``3``, ``3%`` or ``2.5 %``, to a share; None stays None. Raises UsageError
    for anything else, and for what is not above 0 and at most 50 %.
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

    None gives the default. Raises UsageError for anything else, and for a condition that the
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
        constraint = parse_condition(word, "--prefer")
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
    whether idle RSS is measured; ``without_idle``: the variants that it cannot judge, because they
    return memory by the clock, which a replay does not keep.
    """
    for constraint in preference.constraints:
        check_condition(constraint, variants, workloads, "--prefer")
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
