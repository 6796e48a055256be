"""What a process's threads wait for, read from /proc while it runs: without call stacks, but
without perf and its permissions too.

proc_pid_syscall(5) has a waiting thread's system call and its arguments, ``running``, or ``-1`` for
a thread that waits outside of any system call, in a page fault. A futex at the address of one of
glibc's arenas is that arena's mutex.
"""

import platform
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from dballoc.catalogue import waits as catalogue
from dballoc.ground.errors import Failure
from dballoc.host.process.handle import Process
from dballoc.host.process.read_rights import describe_read_error, failing_for
from dballoc.process import smaps
from dballoc.process.heaps import glibc_heap
from dballoc.process.malloc import identify_malloc
from dballoc.process.memory_reader import Memory
from dballoc.profile.contention.wait_rules import Rules
from dballoc.profile.contention.waits import WAITED
from dballoc.profile.model import Frame, Profile, Sample

# The pause between two sweeps over all threads: so many times what a sweep takes, and at least so
# many seconds.
_PAUSE_PER_SWEEP, _SHORTEST_PAUSE = 20.0, 0.02

FUTEX, FAULT, RUNNING = "futex", "page fault", "running"
# Stands for the function by which malloc was entered, which is not known here.
ARENA = "arena_mutex"


@dataclass(frozen=True, kw_only=True)
class ThreadStates:
    """How often the sweeps over a process's threads found each state.

    ``counts``: threads by state, a state being (name, address of the futex or 0), summed over all
    ``sweeps``; ``seconds``: how long the sweeps went on; ``threads``: the largest number in one
    sweep; ``source``: the file below /proc/PID/task/TID that was read.
    """

    counts: Counter[tuple[str, int]]
    sweeps: int
    seconds: float
    threads: int
    source: str


def sample_states(
    process: Process, seconds: float, alive: Callable[[], None] = lambda: None
) -> ThreadStates:
    """Read the states of all threads again and again for ``seconds``. Raises Failure if we may not
    read them, or the process ends.
    """
    names = {
        number: name for name, number in catalogue()["syscalls"].get(platform.machine(), {}).items()
    }
    counts: Counter[tuple[str, int]] = Counter()
    began = time.monotonic()
    sweeps = threads = 0
    source = _choose_source(process, bool(names))
    while (sweep_began := time.monotonic()) < began + seconds:
        alive()
        with failing_for(process):
            tasks = process.list_threads()
        for task in tasks:
            try:
                text = process.read_text(f"task/{task}/{source}")
            except OSError:
                continue  # it has just ended
            counts[parse_state(text, names) if source == "syscall" else (text or RUNNING, 0)] += 1
        sweeps += 1
        threads = max(threads, len(tasks))
        time.sleep(max(_SHORTEST_PAUSE, _PAUSE_PER_SWEEP * (time.monotonic() - sweep_began)))
    return ThreadStates(
        counts=counts,
        sweeps=max(1, sweeps),
        seconds=time.monotonic() - began,
        threads=threads,
        source=source,
    )


def _choose_source(process: Process, named: bool) -> str:
    """Return ``syscall``, or if we may not read that ``wchan``, the kernel's function. Raises
    Failure if we may read neither.
    """
    refused: OSError | None = None
    try:
        if named and process.read_text("syscall"):
            return "syscall"
    except OSError as error:
        refused = error
    try:
        # 0 means that the thread runs, or that we may not know.
        if any(
            process.read_text(f"task/{thread}/wchan") not in ("", "0")
            for thread in process.list_threads()
        ):
            return "wchan"
    except OSError as error:
        refused = error
    raise Failure(
        describe_read_error(process, refused)
        if refused
        else f"{process}: the kernel does not show what its threads wait for"
    )


def parse_state(text: str, names: Mapping[int, str]) -> tuple[str, int]:
    """Parse a thread's state from its ``syscall`` file: (name, address of the futex or 0). Pure."""
    words = text.split()
    try:
        number = int(words[0])
        name = FAULT if number < 0 else names.get(number, f"system call {number}")
        return name, int(words[1], 16) if name == FUTEX else 0
    except (ValueError, IndexError):
        return RUNNING, 0


def find_arena_mutexes(process: Process) -> tuple[set[int], str]:
    """Return the addresses of the mutexes of glibc's arenas, none under another malloc, and the
    malloc's name. Raises Failure if we may not read the process.
    """
    with failing_for(process):
        malloc = identify_malloc.identify_malloc_in_use(process)
        if malloc.name != "glibc":
            return set(), malloc.name or "unknown"
        with Memory(process) as memory:
            return glibc_heap.find_arenas(
                memory,
                glibc_heap.split_off_heaps(memory, smaps.read_mappings(process)),
                malloc.library,
            ), "glibc"


def make_profile(
    states: ThreadStates,
    arenas: Collection[int],
    rules: Rules,
    title: str,
    taken_at: float,
    facts: Mapping[str, str],
) -> Profile:
    """Make a profile of the thread-seconds waited. Of the waits below malloc only those for an
    arena's mutex can be told, so they alone are labelled so. Pure.
    """
    seconds_per_sweep = states.seconds / states.sweeps
    samples = []
    total = sum(states.counts.values())
    waiting = 0
    for (name, address), count in sorted(states.counts.items()):
        if name in (RUNNING, "0"):
            continue
        waiting += count
        arena = name == FUTEX and address in arenas
        if name == FAULT:
            group, call = "memory", FAULT
        elif states.source == "wchan":
            kind = rules.classify((Frame(name, "[kernel]"),))
            group, call = kind.group, kind.call
        else:
            group, call = rules.classify_call(name)
        labels = {"wait": group, "call": "arena" if arena else call}
        stack = [Frame(name, "[kernel]")]
        if arena:
            labels["malloc"] = ARENA
            stack = [Frame(ARENA), Frame(f"arena_{address:#x}")]
        elif name == FUTEX:
            stack = [Frame("other_futex"), Frame(f"futex_{address:#x}")]
        samples.append(Sample(tuple(stack), (count * seconds_per_sweep,), False, labels))
    state_facts = {
        "sweeps": str(states.sweeps),
        "threads": str(states.threads),
        "arenas": str(len(arenas)),
        "read": states.source,
        "share of threads waiting": f"{waiting / total:.4f}" if total else "0",
    }
    return Profile(
        title=title,
        values=(WAITED,),
        samples=samples,
        taken_at=taken_at,
        seconds=states.seconds,
        facts={**facts, **state_facts},
    )
