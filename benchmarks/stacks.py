"""How many of the heap probe's stacks reach a thread's start, and how many of their frames have
names, on real servers.

    python benchmarks/stacks.py [--out DIR] [SERVER[@VERSION] …]

Each server (default: the system's MariaDB, MySQL 9.7, and MariaDB 11.4.5, whose build has symbols;
dballoc fetch brings them) is loaded once under the probe as `dballoc bench --profile heap` does it.
The promises: 99 % of the samples have a stack that reaches a thread's start; 95 % of the frames
have names where the build has symbols. Of frames every stack counts once, however often it was
sampled, which is stricter than what `profile heap` prints: rare ways count as much as common ones.
"""

import argparse
from collections import Counter
from pathlib import Path

from campaigns import run

from dballoc.questions.campaign.figures import profiles

SERVERS = ["mariadb", "mysql@9.7", "mariadb@11.4.5"]
# Modules of which the table says how many of their frames have no name.
MOST = 4


def measure(out: Path, use: str) -> None:
    """One block of one variant, profiled; prints what came of it."""
    table = {
        "name": "stacks",
        "design": "solo",
        "baseline": "glibc",
        "workloads": ["oltp_read_write"],
        "threads": [8],
        "blocks": 1,
        "profile": "heap",
        "server": {"use": use, "options": {"innodb_buffer_pool_size": "128M"}},
        "data": {"tables": 4, "rows": 20_000},
        "time": {"warmup": "2s", "level": "10s", "idle": "0s"},
        "variant": [{"name": "glibc"}],
    }
    found = profiles.load_heap_profiles(out / use, run(out / use, table, "--no-report"))
    assert found
    for seen in found.profiles:
        assert seen.profile, seen.missing
        frames = [frame for sample in seen.profile.samples for frame in sample.stack]
        nameless = Counter(frame.module for frame in frames if not frame.named)
        said = seen.profile.facts["stacks that reach a thread's start"]
        print(
            f"{use}: {said} of the samples reach a thread's start; "
            f"{1 - nameless.total() / len(frames):.2%} of",
            end=" ",
        )
        print(f"{len(frames):,} frames have names", flush=True)
        for module, n in nameless.most_common(MOST):
            print(
                f"    without: {n:,} in {module or 'no file'} of "
                f"{sum(f.module == module for f in frames):,}",
                flush=True,
            )


def main() -> None:
    """Measure the servers asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("server", nargs="*", default=SERVERS)
    parser.add_argument("--out", type=Path, default=Path("dballoc-results/benchmark-stacks"))
    args = parser.parse_args()
    for use in args.server:
        measure(args.out.absolute(), use)


if __name__ == "__main__":
    main()
