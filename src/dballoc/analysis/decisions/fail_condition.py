"""Parse conditions on ratios as people write them: ``rss > 1.05``, ``jemalloc:oltp_read_only:p99 <=
1.1``. Pure.
"""

import math
import re
from collections.abc import Collection
from dataclasses import dataclass

from dballoc.analysis.measures import CONDITIONS
from dballoc.errors import UsageError

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
