"""How long a verdict on memory takes: a trace of 20 million events, replayed over six mallocs.

    python benchmarks/replay_verdict.py [--events 20000000] [--allocators A,B,…] [--blocks 3]
    [--trace FILE] [--out DIR]

The trace is made (replay_traces.py): 64 threads, of whose frees 5.7 % are of another thread's
block; or it is FILE. What is timed is ``dballoc replay`` as a user calls it: reading the trace, the
plan, all blocks of replays, and the report. Printed are the seconds, the CPU, and what the
report says first. Promised: at most 180 s with 20 million events and six mallocs, after which each
malloc's peak heap is known to be higher, lower or the same as the baseline's; exit status 1
if it takes longer, or leaves one undecided.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from replay_traces import make_server_like_trace

from dballoc.questions.compare.baseline_comparison import Comparisons, compare_with_baseline
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.compare.verdict import Verdict
from dballoc.trace.trace_file.write_trace import write_trace

PROMISED_SECONDS = 180.0
ALLOCATORS = "glibc,jemalloc,mimalloc,tcmalloc,tbbmalloc,scudo"
THREADS, HANDED, LARGEST = 64, 0.057, 32768


def run_replay(trace: Path, allocators: str, blocks: int, out: Path) -> float:
    """Replay by the command line; return the seconds that it takes. SystemExit if it fails."""
    began = time.monotonic()
    done = subprocess.run(
        [
            Path(sys.executable).with_name("dballoc"),
            *("replay", trace, "--allocators", allocators, "--blocks", str(blocks)),
            *("--out", out),
        ],
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"dballoc replay ended with {done.returncode}")
    return time.monotonic() - began


def list_undecided(comparisons: Comparisons) -> list[str]:
    """Return the mallocs whose peak heap has no verdict, those that failed among them."""
    decided = {
        each.variant
        for each in comparisons.family
        if each.metric.question == "memory"
        and each.variant not in comparisons.faulty
        and each.verdict not in (Verdict.UNDECIDED, Verdict.NOT_JUDGED)
    }
    judged = {each.variant for each in comparisons.family} | set(comparisons.faulty)
    return sorted(judged - decided)


def main() -> int:
    """Make the trace, replay it, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--allocators", default=ALLOCATORS)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--trace", type=Path, help="one that is there")
    parser.add_argument("--out", type=Path, help="keep the results here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dbc-") as made:
        trace = options.trace or Path(made) / "made.trace"
        if not options.trace:
            size = write_trace(
                make_server_like_trace(THREADS, options.events // 2, HANDED, largest=LARGEST),
                trace,
            )
            print(f"trace: {options.events:,} events, {size / options.events:.2f} bytes each")
        out = options.out or Path(made) / "results"
        seconds = run_replay(trace, options.allocators, options.blocks, out)
        undecided = list_undecided(compare_with_baseline(load_campaign(out)))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{options.blocks} blocks over {options.allocators}: {seconds:.0f} s, "
        f"{used.ru_utime + used.ru_stime:.0f} s of CPU; promised {PROMISED_SECONDS:.0f} s"
    )
    print(f"peak heap undecided: {', '.join(undecided) or 'none'}; promised: none")
    return 0 if seconds <= PROMISED_SECONDS and not undecided else 1


if __name__ == "__main__":
    sys.exit(main())
