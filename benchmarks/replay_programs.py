"""Whether a replay ranks mallocs as the program itself does: three programs of the kind that
mimalloc-bench has, recorded under glibc and replayed on each malloc.

    python benchmarks/replay_programs.py [--rounds 7] [--programs larson,mstress,xmalloc]
    [--allocators glibc,jemalloc,…]

The programs are larson.c (threads come and go), mstress.c (threads swap blocks) and xmalloc.c
(every block is freed by another thread) in tests/native. Each round runs every program and its
replay once on every malloc, in random order. Printed are for each program and malloc, as geometric
means over the rounds: peak heap in MB (of the program, the most RSS less what is of files), and CPU
in ns a call, in the program with what it does beside its calls. Two mallocs differ if their
difference is more than three standard errors, in the program and in the replay. The exit status is
1 if a pair that differs in both has another sign in the replay.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import exp, hypot, log, sqrt
from pathlib import Path
from statistics import fmean, stdev

from replay_engine import MALLOCS, list_installed

from dballoc.instruments.ways_in.preload import add_to_environment
from dballoc.instruments.ways_in.preload_socket import RECORDER
from dballoc.trace.compilation.compile_recording import compile_recording
from dballoc.trace.recording.read_recording import read_recording
from dballoc.trace.replay import run_replay
from dballoc.trace.replay.plan_file import write_plan
from dballoc.trace.replay.run_replay import parse_figures

SOURCES = Path(__file__).parent.parent / "tests" / "native"
# Their arguments: some million calls on some ten MB.
PROGRAMS = {
    "larson": ("8", "12000", "10", "40000"),
    "mstress": ("8", "10", "40000"),
    "xmalloc": ("8", "4000"),
}
LIMIT = 1 << 30
STANDARD_ERRORS = 3.0


@dataclass
class Figures:
    """Of one program on one malloc, an element a round: ``peaks`` in MB, ``costs`` in ns a call."""

    peaks: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A program with its ``arguments``, its plan, and the ``calls`` in that."""

    program: Path
    arguments: Sequence[str]
    plan: Path
    calls: int


def make_case(program: Path, arguments: Sequence[str], directory: Path) -> Case:
    """Record the program under glibc, and make the plan of its replay."""
    directory.mkdir()
    environ = add_to_environment({}, RECORDER, str(directory), LIMIT)
    subprocess.run([program, *arguments], env=environ, check=True, stdout=subprocess.DEVNULL)
    [recording] = directory.glob("*.recording")
    trace = compile_recording(read_recording(recording))
    recording.unlink()
    if trace.facts.dropped:
        sys.exit(f"{program.name}: {trace.facts.dropped} events were lost")
    write_plan(trace, directory / "plan")
    calls = sum(len(thread.kind) for thread in trace.threads)
    return Case(program=program, arguments=arguments, plan=directory / "plan", calls=calls)


def read_memory(pid: int) -> dict[str, int]:
    """Return the lines of a process's status that are amounts, in kB; none once it has ended."""
    lines = [line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return {words[0]: int(words[1]) for words in lines if words[2:] == ["kB"]}


def run_program(case: Case, preload: str) -> tuple[float, float]:
    """Run the program; return its peak heap in MB and its CPU in ns a call."""
    # ru_maxrss would be that of this process, from before the program was executed.
    process = subprocess.Popen(
        [case.program, *case.arguments], env={"LD_PRELOAD": preload}, stdout=subprocess.DEVNULL
    )
    peak = 0
    while memory := read_memory(process.pid):
        peak = memory["VmHWM:"] - memory["RssFile:"]
        time.sleep(0.001)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{case.program} under {preload or 'glibc'} ended with {process.returncode}")
    return peak * 1024 / 1e6, (usage.ru_utime + usage.ru_stime) * 1e9 / case.calls


def replay_program(case: Case, preload: str) -> tuple[float, float]:
    """Replay it; return the peak heap in MB and the CPU in ns a call."""
    engine = run_replay.find_engine()
    done = subprocess.run(
        [engine, "--touch=recorded", case.plan],
        env={"LD_PRELOAD": preload},
        check=True,
        capture_output=True,
        text=True,
    )
    figures = parse_figures(done.stdout, run_replay.measure_own_memory(engine), ())
    return figures.peak_heap / 1e6, figures.cpu / max(1, figures.events) * 1e9


def compare(left: Sequence[float], right: Sequence[float]) -> tuple[float, float]:
    """Return ln of the ratio of the geometric means, and its standard error."""
    one, other = [log(v) for v in left], [log(v) for v in right]
    return fmean(other) - fmean(one), hypot(
        stdev(one) / sqrt(len(one)), stdev(other) / sqrt(len(other))
    )


def count_signs(
    programs: dict[str, Sequence[float]], replays: dict[str, Sequence[float]]
) -> tuple[int, int, list[str]]:
    """Return how many pairs of mallocs differ in the program, how many of those in the replay too,
    and which of these have another sign there.
    """
    differing = both = 0
    contrary = []
    for left, right in combinations(programs, 2):
        real, real_error = compare(programs[left], programs[right])
        replayed, replayed_error = compare(replays[left], replays[right])
        if abs(real) <= STANDARD_ERRORS * real_error:
            continue
        differing += 1
        if abs(replayed) > STANDARD_ERRORS * replayed_error:
            both += 1
            if real * replayed < 0:
                contrary.append(f"{left} and {right}")
    return differing, both, contrary


def compile_program(name: str, directory: Path) -> Path:
    """Compile one of the programs."""
    program = directory / name
    flags = "-std=c17 -D_GNU_SOURCE -O2 -pthread -fno-builtin".split()
    subprocess.run(["cc", *flags, "-o", program, SOURCES / f"{name}.c"], check=True)
    return program


def measure_program(
    case: Case, preloads: dict[str, str], rounds: int
) -> dict[str, dict[str, Figures]]:
    """Return the figures of the ``program`` and of its ``replay`` by malloc."""
    ways = {"program": run_program, "replay": replay_program}
    figures = {way: {malloc: Figures() for malloc in preloads} for way in ways}
    runs = [(way, malloc) for way in ways for malloc in preloads]
    for _ in range(rounds):
        for way, malloc in random.sample(runs, len(runs)):
            peak, cost = ways[way](case, preloads[malloc])
            figures[way][malloc].peaks.append(peak)
            figures[way][malloc].costs.append(cost)
    return figures


def print_program(name: str, program: dict[str, Figures], replayed: dict[str, Figures]) -> bool:
    """Print a program's table and its pairs. False if a pair has another sign in the replay."""
    print(f"\n{name:10} {'peak heap, MB':>22} {'CPU, ns a call':>22}")
    print(f"{'':10} {'program':>11} {'replay':>10} {'program':>11} {'replay':>10}")
    for malloc, figures in program.items():
        means = [
            exp(fmean(log(v) for v in values))
            for values in (
                figures.peaks, replayed[malloc].peaks, figures.costs, replayed[malloc].costs
            )
        ]  # fmt: skip
        print(f"{malloc:10} {means[0]:11.1f} {means[1]:10.1f} {means[2]:11.1f} {means[3]:10.1f}")
    good = True
    for what in ("peaks", "costs"):
        differing, both, contrary = count_signs(
            {malloc: getattr(f, what) for malloc, f in program.items()},
            {malloc: getattr(f, what) for malloc, f in replayed.items()},
        )
        title = "peak heap" if what == "peaks" else "CPU"
        print(
            f"{title}: {differing} pairs differ in the program, {both} of them in the replay too, "
            f"{both - len(contrary)} with the same sign"
            + (f"; contrary: {', '.join(contrary)}" if contrary else "")
        )
        good &= not contrary
    return good


def main() -> int:
    """Record, run and replay, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--allocators", default=",".join(MALLOCS))
    options = parser.parse_args()
    preloads = list_installed(options.allocators.split(","))
    good = True
    with tempfile.TemporaryDirectory(prefix="dbr-") as directory:
        for name in options.programs.split(","):
            program = compile_program(name, Path(directory))
            case = make_case(program, PROGRAMS[name], Path(directory) / f"{name}-recorded")
            figures = measure_program(case, preloads, options.rounds)
            good &= print_program(name, figures["program"], figures["replay"])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
