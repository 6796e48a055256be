"""Turn switches and wake-ups into waits: how often, how long, with which stacks. Pure.

Every switch is recorded, but not every stack (:mod:`dballoc.profile.contention.perf_record`). So
counts and times are exact, and sums by stack are scaled: a switch with a stack stands for as many
of its kind (waits, preemptions) and of about its length as there are for each with a stack. Scaled
by kind alone, a few long waits for idle clients would make all other sums scatter.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from dballoc.host.process.handle import Process
from dballoc.profile.contention.perf_script import Event, Lost, Sampled, Switch
from dballoc.profile.contention.wait_rules import Rules
from dballoc.profile.model import Frame, Profile, Sample, Value

# Lengths with fewer stacks share the factor of their neighbours.
LEAST_STACKS = 10


@dataclass
class Tally:
    """Some switches: how many, and the ``seconds`` from the switch until the thread ran again;
    ``queued``: of these in the queue for a CPU.
    """

    count: int = 0
    seconds: float = 0.0
    queued: float = 0.0

    def add(self, other: "Tally") -> None:
        """Add other switches."""
        self.count += other.count
        self.seconds += other.seconds
        self.queued += other.queued


@dataclass(frozen=True)
class _Factor:
    """What one switch with a stack stands for: in number, and in time."""

    count: float
    seconds: float


def scale_by_length(
    with_stack: Mapping[int, Tally], ended: Mapping[int, Tally], switches: int
) -> dict[int, _Factor]:
    """Return the factors by length: with them, the switches with a stack are as many as all
    ``switches``, and took as long as all that ``ended``. Empty if none has a stack.
    """
    factors: dict[int, _Factor] = {}
    ended_count = sum(tally.count for tally in ended.values())
    for group in _group_lengths(with_stack, ended):
        stacks = _sum_tallies(with_stack[length] for length in group if length in with_stack)
        total = _sum_tallies(ended[length] for length in group)
        if stacks.count:
            count = total.count / stacks.count * switches / ended_count
            seconds = total.seconds / stacks.seconds if stacks.seconds else 0.0
            factors |= dict.fromkeys(group, _Factor(count, seconds))
    return factors


def _group_lengths(with_stack: Mapping[int, Tally], ended: Mapping[int, Tally]) -> list[list[int]]:
    """Return neighbouring lengths in groups that have stacks enough, where that is possible."""
    groups: list[list[int]] = []
    stacks = LEAST_STACKS
    for length in sorted(ended):
        if stacks >= LEAST_STACKS:
            groups.append([])
            stacks = 0
        groups[-1].append(length)
        stacks += with_stack[length].count if length in with_stack else 0
    if stacks < LEAST_STACKS and len(groups) > 1:
        too_few = groups.pop()
        groups[-1] += too_few
    return groups


def _sum_tallies(tallies: Iterable[Tally]) -> Tally:
    total = Tally()
    for tally in tallies:
        total.add(tally)
    return total


SWITCHES, WAKING, WAKEUP = "context-switches", "sched:sched_waking", "sched:sched_wakeup"

WAITS = Value("waits", "count", "Waits")
WAITED = Value("waited", "seconds", "Time waited")
QUEUED = Value("queued", "seconds", "Time in the queue for a CPU")
PREEMPTED = Value("preempted", "count", "Preemptions")
WAKEUPS = Value("wakeups", "count", "Wake-ups by the server's own threads")

# A sample comes just before its switch: at most so many nanoseconds.
_MAX_SAMPLE_DELAY = 2_000_000

Stack = tuple[Frame, ...]


@dataclass(kw_only=True)
class Waits:
    """What was recorded. ``waits``, ``preemptions``, ``wakeups``: counts, with or without a stack;
    ``waited``: seconds of all waits; ``lost``: records that perf lost; ``threads``: their IDs;
    ``stacks``: the switches with a stack, by (stack, preempted, length); ``ended``: all that ended,
    by (preempted, length), where a length is the number of bits of its nanoseconds; ``wakers``: how
    often each stack woke another thread.
    """

    waits: int = 0
    preemptions: int = 0
    wakeups: int = 0
    waited: float = 0.0
    lost: int = 0
    threads: set[int] = field(default_factory=set)
    stacks: dict[tuple[Stack, bool, int], Tally] = field(default_factory=dict)
    ended: dict[tuple[bool, int], Tally] = field(default_factory=dict)
    wakers: dict[Stack, int] = field(default_factory=dict)


@dataclass
class _Absence:
    """A thread without a CPU since ``since``. ``woken``: when it was put into the queue for one, if
    that was recorded. Both nanoseconds.
    """

    since: int
    preempted: bool
    stack: Stack | None
    woken: int | None = None


def gather_waits(
    events: Iterable[Event], process: Process, waits: Waits | None = None, since: int = 0
) -> Waits:
    """Gather the waits of a process from events in the order of time. With several recordings,
    they are added to the ``waits`` of those before. Events before ``since``, nanoseconds, are left
    out. A wait that outlasts the recording ends with it.
    """
    waits = waits or Waits()
    latest_samples: dict[int, Sampled] = {}
    absences: dict[int, _Absence] = {}
    now = 0
    for event in events:
        if event.time < since:
            continue
        if isinstance(event, Lost):
            waits.lost += event.records
            continue
        now = max(now, event.time)
        if isinstance(event, Switch):
            waits.threads.add(event.tid)
            if event.out:
                _record_departure(waits, event, latest_samples, absences)
            elif absence := absences.pop(event.tid, None):
                _record_return(waits, absence, event.time)
        elif event.event.startswith(SWITCHES):
            latest_samples[event.tid] = event
        elif event.event.startswith(WAKEUP):
            waits.wakeups += event.pid == process.pid
            if (woken_absence := absences.get(event.target)) and woken_absence.woken is None:
                woken_absence.woken = event.time
        elif event.event.startswith(WAKING) and event.pid == process.pid and event.stack:
            waits.wakers[event.stack] = waits.wakers.get(event.stack, 0) + 1
    for absence in absences.values():
        _record_return(waits, absence, now)
    return waits


def replace_frames(recorded: Waits, frames: Mapping[Frame, Frame]) -> Waits:
    """Return the waits with other frames on their stacks; what is the same then is added up."""
    stacks: dict[tuple[Stack, bool, int], Tally] = {}
    for (stack, preempted, length), tally in recorded.stacks.items():
        key = (tuple(frames[frame] for frame in stack), preempted, length)
        stacks.setdefault(key, Tally()).add(tally)
    wakers: dict[Stack, int] = {}
    for stack, count in recorded.wakers.items():
        waker = tuple(frames[frame] for frame in stack)
        wakers[waker] = wakers.get(waker, 0) + count
    return replace(recorded, stacks=stacks, wakers=wakers)


def _record_departure(
    waits: Waits, event: Switch, latest_samples: dict[int, Sampled], absences: dict[int, _Absence]
) -> None:
    if event.preempted:
        waits.preemptions += 1
    else:
        waits.waits += 1
    sample = latest_samples.pop(event.tid, None)
    is_near = sample is not None and 0 <= event.time - sample.time <= _MAX_SAMPLE_DELAY
    absences[event.tid] = _Absence(
        event.time, event.preempted, sample.stack if sample and is_near else None
    )


def _record_return(waits: Waits, absence: _Absence, until: int) -> None:
    nanoseconds = max(0, until - absence.since)
    queued_from = absence.since if absence.preempted else absence.woken
    queued = max(0, until - queued_from) / 1e9 if queued_from is not None else 0.0
    switch = Tally(1, nanoseconds / 1e9, queued)
    length = nanoseconds.bit_length()
    if not absence.preempted:
        waits.waited += switch.seconds
    waits.ended.setdefault((absence.preempted, length), Tally()).add(switch)
    if absence.stack:
        key = (absence.stack, absence.preempted, length)
        waits.stacks.setdefault(key, Tally()).add(switch)


def make_switch_profile(
    recorded: Waits,
    rules: Rules,
    title: str,
    taken_at: float,
    seconds: float,
    facts: Mapping[str, str],
) -> Profile:
    """Make the profile of the switches, scaled to all of them."""
    factors = {kind: _find_factors(recorded, kind) for kind in (False, True)}
    scaled: dict[tuple[Stack, bool], tuple[float, ...]] = {}
    for (stack, preempted, length), tally in recorded.stacks.items():
        factor = factors[preempted][length]
        count, waited = tally.count * factor.count, tally.seconds * factor.seconds
        queued = tally.queued * factor.seconds
        values = (0.0, 0.0, queued, count) if preempted else (count, waited, queued, 0.0)
        sums = scaled.get((stack, preempted), (0.0,) * len(values))
        scaled[stack, preempted] = tuple(map(sum, zip(sums, values, strict=True)))
    samples = [
        _make_sample(rules, stack, preempted, values)
        for (stack, preempted), values in scaled.items()
    ]
    stacks_cut_off = sum(t.count for (stack, *_), t in recorded.stacks.items() if rules.cut(stack))
    switch_facts = {
        "switches": str(recorded.waits + recorded.preemptions),
        "preemptions": str(recorded.preemptions),
        "stacks": str(sum(tally.count for tally in recorded.stacks.values())),
        "stacks cut off": str(stacks_cut_off),
        "records lost": str(recorded.lost),
        "threads": str(len(recorded.threads)),
        "seconds waited": f"{recorded.waited:.3f}",
    }
    return Profile(
        title=title,
        values=(WAITS, WAITED, QUEUED, PREEMPTED),
        samples=samples,
        taken_at=taken_at,
        seconds=seconds,
        facts={**facts, **switch_facts},
    )


def _find_factors(recorded: Waits, preempted: bool) -> dict[int, _Factor]:
    """Return by length what a wait, or a preemption, with a stack stands for."""
    with_stack: dict[int, Tally] = {}
    for (_, kind, length), tally in recorded.stacks.items():
        if kind == preempted:
            with_stack.setdefault(length, Tally()).add(tally)
    ended = {length: tally for (kind, length), tally in recorded.ended.items() if kind == preempted}
    switches = recorded.preemptions if preempted else recorded.waits
    return scale_by_length(with_stack, ended, switches)


def make_wakeup_profile(
    recorded: Waits,
    rules: Rules,
    title: str,
    taken_at: float,
    seconds: float,
    facts: Mapping[str, str],
) -> Profile:
    """Make the profile of the stacks that woke other threads, scaled to all wake-ups by the
    process's own threads.
    """
    stacks_recorded = sum(recorded.wakers.values())
    factor = max(1.0, recorded.wakeups / stacks_recorded) if stacks_recorded else 0.0
    samples = [
        _make_sample(rules, stack, False, (count * factor,), waits=False)
        for stack, count in recorded.wakers.items()
    ]
    return Profile(
        title=title,
        values=(WAKEUPS,),
        samples=samples,
        taken_at=taken_at,
        seconds=seconds,
        facts={
            **facts,
            "wake-ups": str(max(recorded.wakeups, stacks_recorded)),
            "stacks": str(stacks_recorded),
        },
    )


def _make_sample(
    rules: Rules, stack: Stack, preempted: bool, values: tuple[float, ...], waits: bool = True
) -> Sample:
    kind = rules.classify(stack, preempted)
    labels = {"wait": kind.group, "call": kind.call} if waits else {}
    if kind.entry:
        labels["malloc"] = kind.entry
    return Sample(stack, values, rules.cut(stack), labels)
