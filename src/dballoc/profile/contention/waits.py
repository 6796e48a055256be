"""From switches and wake-ups to waits: how often, how long, with which stacks. Pure.

Every switch is recorded, not every stack (:mod:`dballoc.profile.contention.perf_record`). So counts
and times are exact, and what the stacks say is scaled: each stands for as many switches of its kind
(waits, preemptions) as there were for one with a stack.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dballoc.profile.contention.perf_script import Event, Lost, Sampled, Switch
from dballoc.profile.contention.wait_rules import Rules
from dballoc.profile.model import Frame, Profile, Sample, Value

SWITCHES, WAKING, WAKEUP = "context-switches", "sched:sched_waking", "sched:sched_wakeup"

WAITS = Value("waits", "count", "Waits")
WAITED = Value("waited", "seconds", "Time waited")
QUEUED = Value("queued", "seconds", "Time in the queue for a CPU")
PREEMPTED = Value("preempted", "count", "Preemptions")
WAKEUPS = Value("wakeups", "count", "Wake-ups by the server's own threads")

# A sample is taken just before its switch is recorded, nanoseconds.
_NEAR = 2_000_000

Stack = tuple[Frame, ...]


@dataclass
class Tally:
    """Of one stack: how often, and seconds from the switch to the next run; ``queued``: of those in
    the queue for a CPU.
    """

    count: int = 0
    seconds: float = 0.0
    queued: float = 0.0


@dataclass(kw_only=True)
class Waits:
    """What was recorded. ``waits``, ``preemptions``, ``wakeups``: of all, with stack or without;
    ``waited``: seconds of all waits; ``stacks``: by (stack, preempted); ``wakers``: counts by the
    stack that woke another thread; ``lost``: records.
    """

    waits: int = 0
    preemptions: int = 0
    wakeups: int = 0
    waited: float = 0.0
    lost: int = 0
    threads: set[int] = field(default_factory=set)
    stacks: dict[tuple[Stack, bool], Tally] = field(default_factory=dict)
    wakers: dict[Stack, int] = field(default_factory=dict)


@dataclass
class _Away:
    """A thread that has no CPU. ``woken``: when it was put into the queue for one, if that was
    seen.
    """

    since: int
    preempted: bool
    stack: Stack | None
    woken: int | None = None


def gather(events: Iterable[Event], pid: int, found: Waits | None = None, since: int = 0) -> Waits:
    """The waits of a process, from events in the order of time; added to ``found``, where there is
    more than one recording. What was before ``since``, nanoseconds, is left out. A wait that the
    recording's end cuts off lasts until then.
    """
    found = found or Waits()
    sampled: dict[int, Sampled] = {}
    away: dict[int, _Away] = {}
    now = 0
    for event in events:
        if event.time < since:
            continue
        if isinstance(event, Lost):
            found.lost += event.records
            continue
        now = max(now, event.time)
        if isinstance(event, Switch):
            found.threads.add(event.tid)
            if event.out:
                _leaves(found, event, sampled, away)
            elif mine := away.pop(event.tid, None):
                _enter(found, mine, event.time)
        elif event.event.startswith(SWITCHES):
            sampled[event.tid] = event
        elif event.event.startswith(WAKEUP):
            found.wakeups += event.pid == pid
            if (other := away.get(event.target)) and other.woken is None:
                other.woken = event.time
        elif event.event.startswith(WAKING) and event.pid == pid and event.stack:
            found.wakers[event.stack] = found.wakers.get(event.stack, 0) + 1
    for mine in away.values():
        _enter(found, mine, now)
    return found


def _leaves(
    found: Waits, event: Switch, sampled: dict[int, Sampled], away: dict[int, _Away]
) -> None:
    if event.preempted:
        found.preemptions += 1
    else:
        found.waits += 1
    sample = sampled.pop(event.tid, None)
    near = sample is not None and 0 <= event.time - sample.time <= _NEAR
    away[event.tid] = _Away(event.time, event.preempted, sample.stack if sample and near else None)


def _enter(found: Waits, mine: _Away, until: int) -> None:
    seconds = max(0, until - mine.since) / 1e9
    if not mine.preempted:
        found.waited += seconds
    if not mine.stack:
        return
    tally = found.stacks.setdefault((mine.stack, mine.preempted), Tally())
    tally.count += 1
    tally.seconds += seconds
    queued_from = mine.since if mine.preempted else mine.woken
    tally.queued += max(0, until - queued_from) / 1e9 if queued_from is not None else 0.0


def switches(
    found: Waits, rules: Rules, title: str, taken: float, seconds: float, facts: Mapping[str, str]
) -> Profile:
    """The profile of the switches, scaled to all of them."""
    with_stack = {
        kind: sum(t.count for (_, p), t in found.stacks.items() if p == kind)
        for kind in (False, True)
    }
    scale = {
        False: found.waits / with_stack[False] if with_stack[False] else 0.0,
        True: found.preemptions / with_stack[True] if with_stack[True] else 0.0,
    }
    samples = []
    for (stack, preempted), tally in found.stacks.items():
        factor = scale[preempted]
        count, waited = tally.count * factor, tally.seconds * factor
        values = (
            (0.0, 0.0, tally.queued * factor, count)
            if preempted
            else (count, waited, tally.queued * factor, 0.0)
        )
        samples.append(_sample(rules, stack, preempted, values))
    cut = sum(t.count for (stack, _), t in found.stacks.items() if rules.cut(stack))
    known = {
        "switches": str(found.waits + found.preemptions),
        "preemptions": str(found.preemptions),
        "stacks": str(sum(with_stack.values())),
        "stacks cut off": str(cut),
        "records lost": str(found.lost),
        "threads": str(len(found.threads)),
        "seconds waited": f"{found.waited:.3f}",
    }
    return Profile(
        title=title,
        values=(WAITS, WAITED, QUEUED, PREEMPTED),
        samples=samples,
        taken=taken,
        seconds=seconds,
        facts={**facts, **known},
    )


def wakeups(
    found: Waits, rules: Rules, title: str, taken: float, seconds: float, facts: Mapping[str, str]
) -> Profile:
    """The profile of who woke others, scaled to all wake-ups by the process's own threads."""
    seen = sum(found.wakers.values())
    factor = max(1.0, found.wakeups / seen) if seen else 0.0
    samples = [
        _sample(rules, stack, False, (count * factor,), waits=False)
        for stack, count in found.wakers.items()
    ]
    return Profile(
        title=title, values=(WAKEUPS,), samples=samples, taken=taken, seconds=seconds,
        facts={**facts, "wake-ups": str(max(found.wakeups, seen)), "stacks": str(seen)},
    )  # fmt: skip


def _sample(
    rules: Rules, stack: Stack, preempted: bool, values: tuple[float, ...], waits: bool = True
) -> Sample:
    kind = rules.kind(stack, preempted)
    labels = {"wait": kind.group, "call": kind.call} if waits else {}
    if kind.entry:
        labels["malloc"] = kind.entry
    return Sample(stack, values, rules.cut(stack), labels)
