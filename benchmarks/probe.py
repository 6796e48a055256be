"""What the heap probe costs: server CPU per transaction with it ÷ without, through the duet; beside
it what others cost.

    python benchmarks/probe.py [--blocks 8] [--engine innodb|rocksdb] [--use mariadb@11.8]
    [--threads 4] [--out DIR]

idle: the probe is loaded and samples nothing. Promised: 1.005.
probe: a sample every 512 KiB. Promised: 1.02, and 1.03 with MyRocks and 64 clients.
prof: jemalloc with prof:true beside jemalloc without, if it was built with the profiler.
heaptrack: its preload, if it is here. Its trace goes to a file that is removed.

Every variant's baseline is the same malloc without a profiler, and stands beside itself too. The
campaigns' directories are kept below DIR; an interrupted run goes on where it stopped. The machine
must be quiet.
"""

import argparse
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from campaigns import run

from dballoc.allocators import find_library
from dballoc.ground.errors import UsageError
from dballoc.instruments.ways_in import preload
from dballoc.instruments.ways_in.preload_socket import HEAP_PROBE
from dballoc.profile.heap import probe_client
from dballoc.questions.compare.baseline_comparison import compare_with_baseline

PROMISED = {"idle": 1.005, "probe": 1.02}
PROMISED_MYROCKS = 1.03


def under_probe(name: str, interval: int, sockets: Path) -> dict[str, Any]:
    """The system's malloc under the probe."""
    return {
        "name": name,
        "allocator": "glibc",
        "preload": [str(preload.find_library(HEAP_PROBE))],
        "env": {probe_client.VARIABLE: f"{interval}:{sockets}"},
    }


def heaptrack() -> list[dict[str, Any]]:
    """Its preload by itself, as its own script sets it."""
    found = sorted(Path("/usr/lib").glob("**/heaptrack/libheaptrack_preload.so"))
    if not found:
        return []
    variant = {"name": "heaptrack", "allocator": "glibc", "preload": [str(found[0])]}
    return [{**variant, "env": {"DUMP_HEAPTRACK_OUTPUT": "/dev/null"}}]


def profiling_jemalloc() -> bool:
    """Whether the jemalloc that is here has its profiler built in."""
    try:
        library = find_library.find_allocator("jemalloc").libraries[0]
    except UsageError:
        return False
    done = subprocess.run(
        ["true"],
        env={"LD_PRELOAD": str(library), "MALLOC_CONF": "prof:true,abort_conf:true"},
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def judged(low: float, high: float, promise: float | None) -> str:
    """Whether a promise is kept, as far as the interval tells."""
    if promise is None:
        return ""
    word = (
        "kept"
        if high <= promise
        else "BROKEN"
        if low > promise
        else "undecided, the interval holds both"
    )
    return f"; promised {promise}: {word}"


def measure(
    out: Path,
    name: str,
    variants: list[dict[str, Any]],
    promised: Mapping[str, float],
    args: argparse.Namespace,
) -> bool:
    """Run or resume a campaign, and print every variant's ratio, beside what is promised of it.
    Returns whether one breaks its promise.
    """
    server = {"use": args.use, "engine": args.engine}
    if args.engine == "innodb":
        server["options"] = {"innodb_buffer_pool_size": "128M"}
    table = {
        "name": name,
        "design": "duet",
        "baseline": variants[0]["name"],
        "workloads": [args.workload],
        "threads": [args.threads],
        "server": server,
        "data": {"tables": 4, "rows": 50_000},
        "time": {"warmup": "2s", "level": "5s", "idle": "1s"},
        "duet": {"threads": args.threads},
        "blocks": args.blocks,
        "variant": variants,
    }
    found = compare_with_baseline(run(out / name, table, "--no-report"))
    not_measured = promised.keys() & {v["name"] for v in variants}
    is_broken = False
    for comparison in [*found.floor, *found.family]:
        r = comparison.ratio
        if comparison.metric.key.startswith("cpu") and r and r.interval:
            promise = promised.get(comparison.variant)
            said = judged(*r.interval, promise)
            is_broken |= promise is not None and r.interval.low > promise
            not_measured -= {comparison.variant}
            print(
                f"{comparison.variant}: {r.estimate:.4f} [{r.low:.4f}, {r.high:.4f}], {r.blocks} "
                f"blocks{said}",
                flush=True,
            )
    for variant in sorted(not_measured):
        print(f"{variant}: not measured; promised {promised[variant]}: BROKEN", flush=True)
    return is_broken or bool(not_measured)


def add_blocks(parser: argparse.ArgumentParser) -> None:
    """Add the option of how long the duet is. With eight blocks or fewer it has no look before its
    end, so that no verdict ends it while a promise is still open.
    """
    parser.add_argument("--blocks", type=int, default=8, help="of the duet")


def main() -> None:
    """Measure all that is here."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_blocks(parser)
    parser.add_argument("--engine", default="innodb")
    parser.add_argument("--use", default="mariadb")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--workload", default="oltp_read_only")
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="idle, probe, heaptrack, prof"
    )
    parser.add_argument("--out", type=Path, default=Path("dballoc-results/benchmark-probe"))
    args = parser.parse_args()
    out = args.out.absolute()
    promised = {**PROMISED, "probe": PROMISED_MYROCKS} if args.engine == "rocksdb" else PROMISED
    with tempfile.TemporaryDirectory(prefix="dbp-") as sockets:
        Path(sockets).chmod(0o777)  # the servers' user makes sockets there
        variants = [
            under_probe("probe", 512 << 10, Path(sockets)),
            under_probe("idle", 0, Path(sockets)),
            *heaptrack(),
        ]
        chosen = [v for v in variants if not args.only or v["name"] in args.only]
        if chosen:
            plain = {"name": "glibc", "allocator": "glibc"}
            measure(out, "glibc", [plain, *chosen], promised, args)
        if profiling_jemalloc() and (not args.only or "prof" in args.only):
            plain = {"name": "jemalloc", "allocator": "jemalloc"}
            prof = {
                "name": "prof",
                "allocator": "jemalloc",
                "tunables": {"prof": "true", "prof_prefix": "/dev/null"},
            }
            measure(out, "jemalloc", [plain, prof], promised, args)


if __name__ == "__main__":
    main()
