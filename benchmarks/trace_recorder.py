"""What recording every allocation costs: nanoseconds and bytes an event, memory, and server CPU per
transaction with the recorder ÷ without, through the duet.

    python benchmarks/trace_recorder.py [calls] [server] [drops] [--rounds 20] [--minutes 6]
    [--use mariadb] [--engine innodb] [--threads 4] [--out DIR]

calls     a program of one thread and of two (tests/native/calls.c) without the recorder, with an
idle one, and with one that records, one after another in random order; what is printed are the
means of the differences within the rounds, with 95 % intervals. Promised: 20 ns an event more than
malloc's own in the thread that calls it, 8 bytes an event, 64 MiB.
server    as benchmarks/probe.py: a duet of oltp_read_only under the recorder, under an idle one,
and under heaptrack where it is here, each with a baseline beside it. Promised: 1.03.
drops     64 clients for --minutes, and 256 for a minute: what was lost. Promised: nothing.

Recordings are removed afterwards. The machine must be quiet.
"""

import argparse
import random
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import probe
from campaigns import run
from probe_calls import SOURCE
from scipy import stats

from dballoc.host.preload.preload_socket import RECORDER
from dballoc.trace.recorder import recorder_launch
from dballoc.trace.recording.read_recording import verify_recording

WAYS = ("without", "idle", "recording")
PROMISED_NS, PROMISED_BYTES, PROMISED_MIB, PROMISED_CPU = 20.0, 8.0, 64.0, 1.03
LIMIT = 8 << 30
PARTS = ("calls", "server", "drops")


def run_calls(program: Path, way: str, pairs: int, threads: int) -> dict[str, float]:
    """One run: ns an event in the calling threads and in all of the process, peak RSS in MiB, and
    bytes an event.
    """
    with tempfile.TemporaryDirectory(prefix="dbrec-") as out:
        env = {}
        if way != "without":
            env = recorder_launch.add_recorder_to_environment({}, out, LIMIT, way == "idle")
        done = subprocess.run(
            [program, str(pairs), str(threads)], env=env, check=True, capture_output=True, text=True
        )
        per_pair, of_all, kib = map(float, done.stdout.split())
        figures = {"ns": per_pair / 2, "all ns": of_all / 2, "MiB": kib / 1024}
        for path in Path(out).glob("*.recording"):
            condition = verify_recording(path, LIMIT)
            figures["bytes"] = path.stat().st_size / condition.events
            figures["dropped"] = condition.dropped
        return figures


def print_difference(name: str, values: list[float], unit: str, promise: float | None) -> None:
    """Print a mean with its 95 % interval, and whether a promise is kept."""
    mean = statistics.fmean(values)
    error = statistics.stdev(values) / len(values) ** 0.5
    half = float(stats.t.ppf(0.975, len(values) - 1)) * error
    verdict = probe.judged(mean - half, mean + half, promise)
    print(
        f"{name}: {mean:+.2f} {unit} [{mean - half:+.2f}, {mean + half:+.2f}]{verdict}", flush=True
    )


def measure_calls(rounds: int, pairs: int) -> None:
    """Print what an event costs."""
    with tempfile.TemporaryDirectory(prefix="dbc-") as made:
        program = Path(made) / "calls"
        flags = ["-std=c17", "-D_GNU_SOURCE", "-O2", "-fno-builtin-malloc", "-pthread"]
        subprocess.run(["cc", *flags, "-o", program, SOURCE], check=True)
        for threads in (1, 2):
            figures: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
            for _ in range(rounds):
                for way in random.sample(WAYS, len(WAYS)):
                    figures[way].append(run_calls(program, way, pairs // threads, threads))
            print_calls(threads, figures)


def print_calls(threads: int, figures: dict[str, list[dict[str, float]]]) -> None:
    """Print the differences of one number of threads."""

    def subtract(way: str, name: str) -> list[float]:
        pairs = zip(figures[way], figures["without"], strict=True)
        return [a[name] - b[name] for a, b in pairs]

    own = statistics.median(row["ns"] for row in figures["without"])
    print(f"{threads} threads: malloc's own {own:.1f} ns an event")
    print_difference("  idle", subtract("idle", "ns"), "ns", None)
    print_difference("  recording", subtract("recording", "ns"), "ns", PROMISED_NS)
    print_difference("  recording, with the writer", subtract("recording", "all ns"), "ns", None)
    print_difference("  memory", subtract("recording", "MiB"), "MiB", PROMISED_MIB)
    size = statistics.fmean(row["bytes"] for row in figures["recording"])
    lost = sum(row["dropped"] for row in figures["recording"])
    print(f"  file: {size:.2f} bytes an event, promised {PROMISED_BYTES}; {lost:.0f} lost")


def under_recorder(name: str, out: Path, is_idle: bool) -> dict[str, Any]:
    """The system's malloc under the recorder."""
    request = f"{'idle' if is_idle else 'start'}:{LIMIT}:{out}"
    return {
        "name": name,
        "allocator": "glibc",
        "preload": [str(recorder_launch.find_recorder_library())],
        "env": {RECORDER.variable: request},
    }


def measure_server(out: Path, recordings: Path, args: argparse.Namespace) -> None:
    """Print the ratios of the server's CPU per transaction."""
    probe.PROMISED.update({"recorded": PROMISED_CPU})
    variants = [
        under_recorder("recorded", recordings, False),
        under_recorder("idle", recordings, True),
        *probe.heaptrack(),
    ]
    chosen = [v for v in variants if not args.only or v["name"] in args.only]
    probe.measure(out, "server", [{"name": "glibc", "allocator": "glibc"}, *chosen], args)


def measure_drops(out: Path, minutes: float, args: argparse.Namespace) -> None:
    """Print what was lost with many clients."""
    for threads, seconds in ((64, minutes * 60), (256, 60)):
        with tempfile.TemporaryDirectory(prefix="dbd-") as recordings:
            Path(recordings).chmod(0o777)
            name = f"drops-{threads}"
            table = {
                "name": name,
                "design": "solo",
                "baseline": "recorded",
                "workloads": ["oltp_read_only"],
                "threads": [threads],
                "blocks": 1,
                "server": {"use": args.use, "options": {"max_connections": 400}},
                "data": {"tables": 4, "rows": 50_000},
                "time": {"warmup": "2s", "level": f"{round(seconds)}s", "idle": "0s"},
                "noise": {"repeats": 0},
                "variant": [under_recorder("recorded", Path(recordings), False)],
            }
            run(out / name, table, "--no-report")
            for path in sorted(Path(recordings).glob("*.recording")):
                found = verify_recording(path, LIMIT)
                if found.events > 100_000:
                    print(
                        f"{threads} clients, {seconds:.0f} s: {found.events:,} events, "
                        f"{found.dropped:,} lost, {path.stat().st_size / found.events:.2f} bytes "
                        f"an event, ended by {found.ended_by}",
                        flush=True,
                    )


def main() -> None:
    """Measure what was asked for, all of it by default."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=2_000_000)
    parser.add_argument("--minutes", type=float, default=6)
    parser.add_argument("--use", default="mariadb")
    parser.add_argument("--engine", default="innodb")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--workload", default="oltp_read_only")
    parser.add_argument("--only", action="append", metavar="NAME", help="recorded, idle, heaptrack")
    parser.add_argument("--out", type=Path, default=Path("dballoc-results/benchmark-recorder"))
    args = parser.parse_args()
    parts = args.parts or PARTS
    if "calls" in parts:
        measure_calls(args.rounds, args.pairs)
    with tempfile.TemporaryDirectory(prefix="dbr-") as recordings:
        Path(recordings).chmod(0o777)  # the servers' user makes files there
        if "server" in parts:
            measure_server(args.out.absolute(), Path(recordings), args)
    if "drops" in parts:
        measure_drops(args.out.absolute(), args.minutes, args)


if __name__ == "__main__":
    main()
