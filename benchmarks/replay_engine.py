"""What the replay's engine takes itself, and what it reports of real mallocs.

    python benchmarks/replay_engine.py [--rounds 9] [--events 4000000] [--out DIR]

Three made traces: one thread; 64 threads, of whose frees 5.7 % are of another thread's block (as
MariaDB's under oltp_read_write); 64 threads that free only others' blocks. Each is replayed over a
malloc that does nothing (tests/native/nothing.c) and over the mallocs that are installed, in random
order, so many rounds. Printed are the medians of the rounds and their quartiles: CPU in ns a call
without waiting, and waiting apart. Promised over the malloc that does nothing: at most 15 ns on one
thread, at most 30 ns with 64 of the second kind. Every replay's calls by thread and live bytes by
epoch are compared with the trace's, to the byte. Exit status 1 if any of that does not hold.

What a hand-over takes at least is printed first: moving a cache line from one CPU to another
(cache_line.c), least and median.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from replay_traces import make_server_like_trace

from dballoc.allocators.find_library import find_allocator
from dballoc.ground.errors import UsageError
from dballoc.trace.model import NONE, Trace
from dballoc.trace.replay import run_replay
from dballoc.trace.replay.plan_file import write_plan

NOTHING = Path(__file__).parent.parent / "tests" / "native" / "nothing.c"
CACHE_LINE = Path(__file__).with_name("cache_line.c")
MALLOCS = ("glibc", "jemalloc", "mimalloc", "tcmalloc", "tbbmalloc")
PROMISED = {"1 thread": 15.0, "64 threads": 30.0}


@dataclass
class Figures:
    """Of one malloc on one trace, an element a round."""

    nanoseconds: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    wait_cpu: list[float] = field(default_factory=list)


def compile_nothing(directory: Path) -> Path:
    """Compile the malloc that does nothing."""
    library = directory / "libnothing.so"
    flags = "-std=c17 -D_GNU_SOURCE -O2 -fPIC -shared -fno-builtin".split()
    subprocess.run(["cc", *flags, "-o", library, NOTHING], check=True)
    return library


def print_cache_line(directory: Path) -> None:
    """Print what moving a cache line takes; nothing where there is one CPU."""
    program = directory / "cache_line"
    flags = "-std=c17 -D_GNU_SOURCE -O2 -pthread".split()
    subprocess.run(["cc", *flags, "-o", program, CACHE_LINE], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        name, least, median = line.split()
        print(f"{name} of a line that was another CPU's: {least} ns, median {median}")


def list_preloads(directory: Path) -> dict[str, str]:
    """List the installed mallocs with what is preloaded for each."""
    return {"nothing": str(compile_nothing(directory)), **list_installed(MALLOCS)}


def list_installed(names: Sequence[str]) -> dict[str, str]:
    """List those of the mallocs that are installed, with what is preloaded for each."""
    preloads = {}
    for name in names:
        try:
            preloads[name] = ":".join(map(str, find_allocator(name).libraries))
        except UsageError as lacking:
            print(f"left out: {lacking}", file=sys.stderr)
    return preloads


def replay(plan: Path, name: str, preload: str) -> dict[str, Any]:
    """Replay once; over the malloc that does nothing no block may be written to."""
    touch = "none" if name == "nothing" else "recorded"
    done = subprocess.run(
        [run_replay.find_engine(), f"--touch={touch}", plan],
        env={"PATH": os.environ["PATH"], "LD_PRELOAD": preload},
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


def is_trace(trace: Trace, document: dict[str, Any]) -> bool:
    """Whether the replay's calls by thread, and its live bytes at the end of each stretch of
    epochs, are the trace's.
    """
    size = trace.objects.size.astype(np.int64)
    moments, changes = [], []
    for events, (live, *calls) in zip(trace.threads, document["threads"], strict=True):
        new, old = events.object != NONE, events.freed != NONE
        gained, lost = size[events.object[new]], size[events.freed[old]]
        if calls != np.bincount(events.kind, minlength=7)[1:].tolist():
            return False
        if live != int(gained.sum() - lost.sum()):
            return False
        moments += [events.completed[new], events.completed[old]]
        changes += [gained, -lost]
    moment = np.concatenate(moments)
    order = np.argsort(moment)
    total = np.concatenate(([0], np.cumsum(np.concatenate(changes)[order])))
    ends, live = np.array(document["live_curve"]).T
    return bool((total[np.searchsorted(moment[order], ends, "left")] == live).all())


def main() -> int:
    """Make the traces, replay, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--out", type=Path, help="keep the plans here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dbc-") as made:
        directory = options.out or Path(made)
        directory.mkdir(exist_ok=True)
        print_cache_line(Path(made))
        preloads = list_preloads(Path(made))
        kept = True
        for title, threads, handed in (
            ("1 thread", 1, 0.0),
            ("64 threads", 64, 0.057),
            ("64 threads, all handed over", 64, 1.0),
        ):
            objects = options.events // (2 if handed < 1 else 8)
            trace = make_server_like_trace(threads, objects, handed)
            began = time.process_time()
            plan = directory / f"{threads}-{handed}.plan"
            plan.unlink(missing_ok=True)
            write_plan(trace, plan)
            seconds = time.process_time() - began
            print(
                f"{title}: {2 * objects:,} events; the plan took {seconds:.1f} s of CPU, "
                f"{plan.stat().st_size / 2 / objects:.1f} bytes an event"
            )
            figures = measure(trace, plan, preloads, options.rounds)
            kept &= show(figures, PROMISED.get(title))
    return 0 if kept else 1


def measure(trace: Trace, plan: Path, preloads: dict[str, str], rounds: int) -> dict[str, Figures]:
    """Replay over every malloc in every round. SystemExit if a replay is not the trace."""
    figures = {name: Figures() for name in preloads}
    events = sum(len(each.kind) for each in trace.threads)
    for _ in range(rounds):
        for name in random.sample(list(preloads), len(preloads)):
            document = replay(plan, name, preloads[name])
            if not is_trace(trace, document):
                sys.exit(f"{name}: what was replayed is not the trace")
            handover = document["waits"][0]
            figures[name].nanoseconds.append(document["cpu"] / events)
            figures[name].waits.append(1000 * handover[0] / events)
            figures[name].wait_cpu.append(handover[2] / events)
    return figures


def show(figures: dict[str, Figures], promised: float | None) -> bool:
    """Print a line a malloc; whether the promise is kept."""
    for name, each in figures.items():
        quartiles = statistics.quantiles(each.nanoseconds, n=4)
        print(
            f"  {name:10} {quartiles[1]:7.1f} ns of CPU an event ({quartiles[0]:.1f} to "
            f"{quartiles[2]:.1f}); waits for a block in 1,000 events: "
            f"{statistics.median(each.waits):.1f}, {statistics.median(each.wait_cpu):.1f} ns of "
            "CPU an event left out"
        )
    median = statistics.median(figures["nothing"].nanoseconds)
    if promised is not None and median > promised:
        print(f"  the engine itself: {median:.1f} ns, and promised are {promised:.0f}")
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
