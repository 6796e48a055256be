"""What the waits of a profile are for, and which share of them lies below malloc: sums by the
samples' labels. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dballoc.profile.model import Profile, Sample

WAIT_GROUPS = {
    "lock": "locks",
    "memory": "kernel memory calls",
    "condition": "conditions",
    "disk": "disk",
    "client": "the client",
    "timer": "timers",
    "other": "other",
}


@dataclass(frozen=True)
class WaitCost:
    """Some waits. ``waits``: how many, 0 if they were not counted; ``waited``: seconds; ``queued``:
    of these in the queue for a CPU.
    """

    waits: float = 0.0
    waited: float = 0.0
    queued: float = 0.0


@dataclass(frozen=True, kw_only=True)
class WaitSplit:
    """A profile's waits. ``malloc`` and ``elsewhere``: by group, those whose stack is below malloc,
    and all others; ``calls``: the kernel's memory calls below malloc, by call; ``preempted``: how
    often threads were, ``preempted_in_malloc``: of these below malloc; ``counted``: whether waits
    were counted, and not only timed.
    """

    total: WaitCost
    malloc: Mapping[str, WaitCost]
    elsewhere: Mapping[str, WaitCost]
    calls: Mapping[str, WaitCost]
    preempted: float
    preempted_in_malloc: float
    counted: bool

    @property
    def below(self) -> WaitCost:
        """All waits below malloc."""
        return _sum_costs(self.malloc.values())

    @property
    def above(self) -> WaitCost:
        """All others."""
        return _sum_costs(self.elsewhere.values())

    def share(self, cost: WaitCost) -> float:
        """Return its share of all waits, by number, or by time if they were not counted; 0 if there
        are none.
        """
        total = self.total.waits if self.counted else self.total.waited
        return (cost.waits if self.counted else cost.waited) / total if total else 0.0

    @property
    def preemption(self) -> float:
        """The share of preemptions among all switches."""
        switches = self.total.waits + self.preempted
        return self.preempted / switches if switches else 0.0


def split_waits(profile: Profile) -> WaitSplit:
    """Split the waits of a profile of switches, or of /proc's thread states (which has times
    alone).
    """
    columns = {value.key: i for i, value in enumerate(profile.values)}
    malloc: dict[str, WaitCost] = {}
    elsewhere: dict[str, WaitCost] = {}
    calls: dict[str, WaitCost] = {}
    preempted = preempted_in_malloc = 0.0
    for sample in profile.samples:
        below = "malloc" in sample.labels
        group = sample.labels.get("wait", "other")
        if group == "preempted":
            count = _get_value(sample, columns, "preempted")
            preempted += count
            preempted_in_malloc += count if below else 0.0
            continue
        cost = WaitCost(
            *(_get_value(sample, columns, key) for key in ("waits", "waited", "queued"))
        )
        _add_cost(malloc if below else elsewhere, group, cost)
        if below and group == "memory":
            _add_cost(calls, sample.labels.get("call", "other"), cost)
    total = _sum_costs([*malloc.values(), *elsewhere.values()])
    return WaitSplit(
        total=total,
        malloc=malloc,
        elsewhere=elsewhere,
        calls=calls,
        preempted=preempted,
        preempted_in_malloc=preempted_in_malloc,
        counted="waits" in columns,
    )


def drop_client_waits(profile: Profile) -> Profile:
    """Return the profile without the waits for the client. Below full load these are most of all
    waits, and the server is not their cause.
    """
    return replace(
        profile, samples=[s for s in profile.samples if s.labels.get("wait") != "client"]
    )


def _get_value(sample: Sample, columns: Mapping[str, int], key: str) -> float:
    return sample.values[columns[key]] if key in columns else 0.0


def _add_cost(costs: dict[str, WaitCost], name: str, cost: WaitCost) -> None:
    costs[name] = _sum_costs([costs.get(name, WaitCost()), cost])


def _sum_costs(costs: Iterable[WaitCost]) -> WaitCost:
    rows = list(costs)
    return WaitCost(
        sum(c.waits for c in rows), sum(c.waited for c in rows), sum(c.queued for c in rows)
    )
