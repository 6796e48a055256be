"""Read the memory of a process's control group as those count it who end processes for it: the
limit, the working set, how often the limit was met, and how long tasks waited for memory.

Formats: the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst, and
Documentation/accounting/psi.rst.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from dballoc.ground import readers
from dballoc.host.resources import cgroup_tree, process_limits
from dballoc.host.resources.cgroup_tree import ControlGroups, Group

# The lines of memory.pressure, and the fields of each, that are read: percent of the time.
_PER_CENT = re.compile(r"[0-9]{1,8}\.[0-9]{1,4}")
_PRESSURES, _WINDOWS = ("some", "full"), ("avg10", "avg60", "avg300")


@dataclass(frozen=True, kw_only=True)
class CgroupMemory:
    """The memory of a group, in bytes. ``name``: its path as seen from here; ``limit``: the OOM
    killer comes there, ``high``: tasks are slowed down there, None without; ``charged``: all of it,
    page cache included; ``inactive_file``: page cache that was not used lately, which the kernel
    takes back before anything else; ``events``: how often ``high`` and ``max`` were met,
    ``oom_kill`` ended a process; ``pressure``: per cent of the time in which ``some`` or all
    (``full``) tasks waited for memory, like ``full avg60``; empty where the kernel does not say
    (v1).
    """

    name: str
    limit: int | None
    high: int | None
    charged: int
    inactive_file: int
    events: dict[str, int] = field(default_factory=dict)
    pressure: dict[str, float] = field(default_factory=dict)

    @property
    def working_set(self) -> int:
        """What cannot be taken back at once, as the kubelet counts it: it evicts pods by this."""
        return max(0, self.charged - self.inactive_file)

    @property
    def bound(self) -> int | None:
        """The lower of limit and high."""
        return min((x for x in (self.limit, self.high) if x is not None), default=None)

    @property
    def is_bound_high(self) -> bool:
        """Whether the bound is memory.high, at which tasks are slowed down and not killed."""
        return self.high is not None and (self.limit is None or self.high < self.limit)


def read_cgroup_memory(groups: ControlGroups) -> CgroupMemory | None:
    """Read it of that group of a process, or above it, which has the least left to its limit;
    without any limit, of the process's own. None if no group is visible.
    """
    memories = map(_read_group, groups.list_any("memory"))
    return choose_narrowest([memory for memory in memories if memory])


def choose_narrowest(groups: Sequence[CgroupMemory]) -> CgroupMemory | None:
    """Return the group with the least left to its bound, the first without any; None of none.
    Pure.
    """

    def count_left(group: CgroupMemory) -> float:
        return math.inf if group.bound is None else group.bound - group.working_set

    return min(groups, key=count_left, default=None)


def _read_group(group: Group) -> CgroupMemory | None:
    """Read one group; None where it counts no memory, as the root of v2."""
    charged, cached = group.read_number("memory.current"), "inactive_file"
    if charged is not None:
        events = cgroup_tree.parse_flat_keyed(group.read("memory.events"))
    else:
        charged, cached = group.read_number("memory.usage_in_bytes"), "total_inactive_file"
        if charged is None:
            return None
        control = cgroup_tree.parse_flat_keyed(group.read("memory.oom_control"))
        kills = {name: count for name, count in control.items() if name == "oom_kill"}
        events = {"max": group.read_number("memory.failcnt") or 0} | kills
    # v1 has neither memory.high nor memory.pressure.
    return CgroupMemory(
        name=str(group.path),
        limit=process_limits.read_memory_limit(group),
        high=group.read_number("memory.high"),
        charged=charged,
        inactive_file=cgroup_tree.parse_flat_keyed(group.read("memory.stat")).get(cached, 0),
        events=events,
        pressure=parse_pressure(group.read("memory.pressure")),
    )


def parse_pressure(text: str) -> dict[str, float]:
    """Parse memory.pressure: ``full avg60`` -> per cent of the time. Pure."""
    values = {}
    for line in readers.rows(text):
        kind, *fields = line.split(" ")
        if kind not in _PRESSURES:
            continue
        for name, _, number in (item.partition("=") for item in fields):
            if name in _WINDOWS and _PER_CENT.fullmatch(number):
                values[f"{kind} {name}"] = float(number)
    return values
