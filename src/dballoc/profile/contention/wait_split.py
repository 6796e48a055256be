"""What the waits of a profile are for, and which share of them lies below malloc. Pure: the
samples' labels say it all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dballoc.profile.model import Profile, Sample

GROUPS = {
    "lock": "locks",
    "memory": "kernel memory calls",
    "condition": "conditions",
    "disk": "disk",
    "client": "the client",
    "timer": "timers",
    "other": "other",
}


@dataclass(frozen=True)
class Cost:
    """``waits``: how many (0 where they were not counted); ``waited``: seconds; ``queued``: of them
    in the queue for a CPU.
    """

    waits: float = 0.0
    waited: float = 0.0
    queued: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Split:
    """``malloc`` and ``elsewhere``: by group, of waits whose stack lies below malloc, and of all
    others; ``calls``: of those below malloc that are the kernel's memory calls, by call.
    ``preempted``: how often, ``preempted_in_malloc`` of them.
    """

    total: Cost
    malloc: Mapping[str, Cost]
    elsewhere: Mapping[str, Cost]
    calls: Mapping[str, Cost]
    preempted: float
    preempted_in_malloc: float
    counted: bool

    @property
    def below(self) -> Cost:
        """All waits below malloc."""
        return _sum_costs(self.malloc.values())

    @property
    def above(self) -> Cost:
        """All others."""
        return _sum_costs(self.elsewhere.values())

    def share(self, cost: Cost) -> float:
        """Of all waits, by number; by time where they were not counted. 0 without any."""
        total = self.total.waits if self.counted else self.total.waited
        return (cost.waits if self.counted else cost.waited) / total if total else 0.0

    @property
    def preemption(self) -> float:
        """The share of preemptions among all switches."""
        switches = self.total.waits + self.preempted
        return self.preempted / switches if switches else 0.0


def split(profile: Profile) -> Split:
    """Of a profile of switches, or of /proc's states (which has times alone)."""
    columns = {value.key: i for i, value in enumerate(profile.values)}
    malloc: dict[str, Cost] = {}
    elsewhere: dict[str, Cost] = {}
    calls: dict[str, Cost] = {}
    preempted = preempted_in_malloc = 0.0
    for sample in profile.samples:
        below = "malloc" in sample.labels
        group = sample.labels.get("wait", "other")
        if group == "preempted":
            count = _get_value(sample, columns, "preempted")
            preempted += count
            preempted_in_malloc += count if below else 0.0
            continue
        cost = Cost(*(_get_value(sample, columns, key) for key in ("waits", "waited", "queued")))
        _add_cost(malloc if below else elsewhere, group, cost)
        if below and group == "memory":
            _add_cost(calls, sample.labels.get("call", "other"), cost)
    total = _sum_costs([*malloc.values(), *elsewhere.values()])
    return Split(
        total=total,
        malloc=malloc,
        elsewhere=elsewhere,
        calls=calls,
        preempted=preempted,
        preempted_in_malloc=preempted_in_malloc,
        counted="waits" in columns,
    )


def own_waits(profile: Profile) -> Profile:
    """Without the waits for the client, which at anything less than full load are most of all, and
    the server's in no way.
    """
    return replace(
        profile, samples=[s for s in profile.samples if s.labels.get("wait") != "client"]
    )


def _get_value(sample: Sample, columns: Mapping[str, int], key: str) -> float:
    return sample.values[columns[key]] if key in columns else 0.0


def _add_cost(costs: dict[str, Cost], name: str, cost: Cost) -> None:
    costs[name] = _sum_costs([costs.get(name, Cost()), cost])


def _sum_costs(costs: Iterable[Cost]) -> Cost:
    rows = list(costs)
    return Cost(
        sum(c.waits for c in rows), sum(c.waited for c in rows), sum(c.queued for c in rows)
    )
