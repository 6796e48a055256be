"""What a trace costs: events a second of compiling, writing and reading, bytes an event, peak
memory.

    python benchmarks/trace_format.py                     a recording made up, of 20 million events
    python benchmarks/trace_format.py --recording FILE    one that was recorded

A made-up recording has threads that allocate and free as a server does: lifetimes and pauses over
orders of magnitude, a few per cent of frees by other threads, sizes of some hundred call sites.
Each step runs in a process of its own, for its peak memory. The exit status is 1 if a target is
missed: 2 bytes an event, 2 minutes to compile and write 20 million.
"""

import argparse
import multiprocessing
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dballoc.trace.compilation.compile_recording import RESOLUTION, compile_recording
from dballoc.trace.model import (
    NONE,
    EventKind,
    Recording,
    RecordingFacts,
    ThreadCalls,
    TouchSample,
)
from dballoc.trace.recording.read_recording import read_recording
from dballoc.trace.trace_file.read_trace import read_trace
from dballoc.trace.trace_file.write_trace import write_trace

_STEPS = ("compile", "write", "read")
MOST_BYTES, MOST_SECONDS, EVENTS = 2.0, 120.0, 20_000_000


def make_recording(events: int, threads: int = 16, seed: int = 1) -> Recording:
    """Make a recording up: half of its events allocate, the other half free.

    Allocations come in bursts of a statement (some dozens, a few tens of ns apart) with pauses of
    the network between them; a block lives 50 ns to seconds, most of them in last-in-first-out
    order of their burst; one free in 20 is another thread's.
    """
    random = np.random.default_rng(seed)
    count = events // 2 // threads
    allocated, freed = [], []
    site_sizes = np.round(2 ** random.uniform(3, 13, 400)).astype(np.uint64)
    site_sizes[-8:] = 2 ** random.integers(16, 21, 8)
    weights = 1 / np.arange(1, 401) ** 0.8
    for thread in range(threads):
        gaps = np.round(random.lognormal(4.2, 0.9, count)).astype(np.int64) + 12
        gaps[random.random(count) < 0.01] += 200_000
        born = np.cumsum(gaps)
        # Statements repeat the same sites in the same order.
        pattern = random.choice(400, 73, p=weights / weights.sum())
        site = pattern[np.arange(count) % 73]
        site = np.where(random.random(count) < 0.1, random.integers(0, 400, count), site)
        died = born + 40 + np.round(random.lognormal(8.5, 2.2, count)).astype(np.int64)
        size = site_sizes[site]
        by = np.where(random.random(count) < 0.05, random.integers(0, threads, count), thread)
        # An address is used again by the next block of a thread that comes after its block's end.
        address = (np.uint64(thread + 1) << np.uint64(40)) + np.arange(count, dtype=np.uint64) * 64
        allocated.append((np.full(count, thread), born, address, size, site))
        freed.append((by, died, address))
    creator, born, address, size, site = map(np.concatenate, zip(*allocated, strict=True))
    by, died, gone = map(np.concatenate, zip(*freed, strict=True))
    owners = np.concatenate([creator, by])
    times = np.concatenate([born, died])
    kinds = np.repeat([EventKind.MALLOC, EventKind.FREE], [len(born), len(died)]).astype(np.uint8)
    order = np.lexsort((times, owners))
    edges = np.searchsorted(owners[order], np.arange(threads + 1))
    columns: dict[str, Any] = {
        "kind": kinds,
        "before": times,
        "after": times,
        "address": np.concatenate([address, gone]),
        "old": np.zeros(len(times), np.uint64),
        "size": np.concatenate([size, np.zeros(len(died), np.uint64)]),
        "alignment": np.zeros(len(times), np.uint32),
        "site": np.concatenate([np.where(size >= 32768, site, 0), np.zeros(len(died))]).astype(
            np.uint32
        ),
    }
    columns = {name: column[order] for name, column in columns.items()}
    return Recording(
        facts=RecordingFacts(
            from_start=True, dropped=0, ended_by="exit", program="made up", allocator="none",
            page_size=4096, seconds=float(times.max()) / 1e9,
        ),
        threads=tuple(
            ThreadCalls(
                number=i, tid=i, name=f"thread {i}", created_by=0 if i else NONE,
                **{name: column[edges[i] : edges[i + 1]] for name, column in columns.items()},
            )
            for i in range(threads)
        ),
        touches=tuple(
            TouchSample(size=int(s), site=392 + i, runs=((0, int(s) // 8192 + 1),))
            for i, s in enumerate(site_sizes[-8:])
        ),
        marks=(),
    )  # fmt: skip


def run_apart(step: Callable[..., Any], *arguments: object) -> dict[str, float]:
    """Run a step in a process of its own, and return its figures."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_report, args=(sender, step, *arguments))
    process.start()
    sender.close()
    try:
        figures: dict[str, float] = receiver.recv()
    except EOFError:
        sys.exit(f"{step.__name__} failed")
    process.join()
    return figures


def _report(sender: Any, step: Callable[..., dict[str, float]], *arguments: object) -> None:
    sender.send(step(*arguments))


def run_step(step: Callable[[], Any], traced: bool) -> tuple[Any, float]:
    """Run a step; its result, and its seconds, or with ``traced`` the bytes that it takes at most:
    numpy tells tracemalloc of its arrays.
    """
    if traced:
        tracemalloc.start()
    began = time.monotonic()
    result = step()
    figure = time.monotonic() - began
    if traced:
        figure = float(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return result, figure


def measure_trace(
    source: Path | None, events: int, resolution: int, path: Path, traced: bool
) -> dict[str, float]:
    """Compile, write and read: the figures of :func:`run_step`, and what they are of."""
    recording = make_recording(events) if source is None else read_recording(source)
    trace, compiling = run_step(lambda: compile_recording(recording, resolution), traced)
    size, writing = run_step(lambda: write_trace(trace, path), traced)
    count = sum(len(thread.kind) for thread in trace.threads)
    _, reading = run_step(lambda: read_trace(path), traced)
    return {
        "events": float(count),
        "bytes": float(size),
        "compile": compiling,
        "write": writing,
        "read": reading,
    }


def main() -> int:
    """Print a line for each resolution; the exit status says whether the targets are met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recording", type=Path, help="a recording, instead of a made-up one")
    parser.add_argument("--events", type=int, default=EVENTS, help="of a made-up one")
    parser.add_argument("--resolutions", default=f"1,{RESOLUTION},100", help="ns, with commas")
    options = parser.parse_args()
    missed = False
    source, events = options.recording, options.events
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "t.trace"
        for resolution in map(int, options.resolutions.split(",")):
            row = run_apart(measure_trace, source, events, resolution, path, False)
            spent, count = row["compile"] + row["write"], row["events"]
            print(
                f"{resolution:4} ns: {count:,.0f} events, {row['bytes'] / count:.2f} bytes each; "
                f"compile {row['compile']:.1f} s, write {row['write']:.1f} s "
                f"({count / spent / 1e6:.1f} million/s), "
                f"read {row['read']:.1f} s ({count / row['read'] / 1e6:.1f} million/s)",
                flush=True,
            )
            if resolution == RESOLUTION:
                missed |= row["bytes"] / count > MOST_BYTES
                missed |= spent / count > MOST_SECONDS / EVENTS
        few = min(events, 2_000_000)
        row = run_apart(measure_trace, source, few, RESOLUTION, path, True)
        print(
            "memory, bytes an event: "
            + ", ".join(f"{name} {row[name] / row['events']:.0f}" for name in _STEPS)
        )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
