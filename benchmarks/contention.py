"""Whether the lock of a heap with one lock is what a server's threads wait for, and is gone under
another malloc.

    python benchmarks/contention.py DIR [--clients 256] [--seconds 10]

Runs a campaign of three variants (glibc with one arena, glibc, jemalloc), oltp_read_only on data
that fit the pool, with
--profile contention, in DIR; an interrupted run goes on where it stopped. Prints the split of the
  waits, what recording cost and lost, and the table of frames. The exit status is 1 unless the
  first allocator frame of the table is the lock wait, and its share under jemalloc is below a tenth
  of that with one arena.
"""

import argparse
import sys
from pathlib import Path

from campaigns import run

from dballoc.profile.contention.dominant_frames import rank_dominant_frames
from dballoc.profile.contention.waits_below_malloc import WaitCost, split_waits
from dballoc.profile.symbols import cpp_names
from dballoc.questions.campaign.figures import profiles

# Where libc has no debug symbols its static functions have no name, and the wait shows as malloc's
# own.
LOCK_WAIT = "__lll_lock_wait"


def watch(out: Path, clients: int, seconds: int) -> profiles.CampaignContention:
    """Run or resume the campaign; what it watched."""
    table = {
        "name": "contention",
        "baseline": "arena1",
        "workloads": ["oltp_read_only"],
        "threads": [clients],
        "design": "solo",
        "blocks": 1,
        "profile": "contention",
        "server": {"options": {"innodb_buffer_pool_size": "256M"}},
        "data": {"tables": 4, "rows": 20_000},
        "time": {"warmup": "2s", "level": f"{seconds}s", "idle": "0s"},
        "noise": {"repeats": 0},
        "variant": [
            {"name": "arena1", "allocator": "glibc", "tunables": {"arena_max": "1"}},
            {"name": "glibc", "allocator": "glibc"},
            {"name": "jemalloc", "allocator": "jemalloc"},
        ],
    }
    found = profiles.load_contention(out, run(out, table))
    assert found is not None
    return found


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--clients", type=int, default=256)
    parser.add_argument("--seconds", type=int, default=10)
    asked = parser.parse_args()
    watched = watch(asked.out, asked.clients, asked.seconds).of("oltp_read_only")
    profiles = {name: one.switches for name, one in watched.items() if one.switches}
    for name, profile in profiles.items():
        said = split_waits(profile)
        lock, memory = (
            said.share(said.malloc.get(group, WaitCost())) for group in ("lock", "memory")
        )
        print(
            f"{name}: {said.total.waits / profile.seconds:,.0f} waits/s, below malloc "
            f"{said.share(said.below):.1%} (locks "
            f"{lock:.1%}, kernel memory calls {memory:.1%}), {said.preemption:.1%} of switches "
            "preemptions"
        )
        print("  " + ", ".join(f"{key}: {value}" for key, value in profile.facts.items()))
    rows = rank_dominant_frames(profiles, "waits")
    for row in rows:
        shares = " ".join(f"{row.shares[name]:8.2%}" for name in profiles)
        print(
            f"{shares}  {'malloc' if row.allocator else '':6} "
            f"{cpp_names.shorten_name(row.function)}"
        )
    first = next((row for row in rows if row.allocator), None)
    gone = first is not None and first.shares["jemalloc"] < first.shares["arena1"] / 10
    met = first is not None and first.function.startswith(LOCK_WAIT) and gone
    print(
        f"first allocator frame: {first.function if first else 'none'}; gone under jemalloc: "
        f"{'yes' if gone else 'no'}"
    )
    print("met" if met else "MISSED")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
