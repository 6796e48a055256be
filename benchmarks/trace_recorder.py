"""What recording every allocation costs: nanoseconds and bytes an event, memory, and server CPU per
transaction with the recorder ÷ without, through the duet.

    python benchmarks/trace_recorder.py [calls] [server] [drops] [--rounds 20] [--blocks 8]
    [--drop-minutes 10] [--use mariadb] [--engine innodb] [--threads 4] [--out DIR]

calls     a program of one thread and of two (tests/native/calls.c) without the recorder, with an
idle one, and with one that records, one after another in random order; what is printed are the
means of the differences within the rounds, with 95 % intervals. Promised: 20 ns an event more than
malloc's own in the thread that calls it, 8 bytes an event, 64 MiB.
server    as benchmarks/probe.py, of --blocks: a duet of oltp_read_only under the recorder, and one
under an idle one and under heaptrack where it is here, each with a baseline beside it. Promised of
the first: 1.03.
drops     64 clients for --drop-minutes, and 256 for a minute: what was lost, and the most RSS that
the server had. Promised: nothing lost, 8 bytes an event.

The exit status is 1 if a promise is broken; what an interval leaves undecided breaks none.
Recordings are removed afterwards. The machine must be quiet.
"""

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import probe
from campaigns import run
from probe_calls import SOURCE
from scipy import stats

from dballoc.instruments.ways_in.preload import add_to_environment, find_library
from dballoc.instruments.ways_in.preload_socket import RECORDER
from dballoc.trace.recording.read_recording import RecordingCondition, verify_recording

WAYS = ("without", "idle", "recording")
PROMISED_NS, PROMISED_BYTES, PROMISED_MIB, PROMISED_CPU = 20.0, 8.0, 64.0, 1.03
LIMIT = 8 << 30
PARTS = ("calls", "server", "drops")
# A recording with fewer events is not the server's, but of a program that it starts.
FEW_EVENTS = 100_000


def run_calls(program: Path, way: str, pairs: int, threads: int) -> dict[str, float]:
    """One run: ns an event in the calling threads and in all of the process, peak RSS in MiB, and
    bytes an event.
    """
    with tempfile.TemporaryDirectory(prefix="dbrec-") as out:
        env = {}
        if way != "without":
            env = add_to_environment({}, RECORDER, out, LIMIT, way == "idle")
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


def print_difference(name: str, values: list[float], unit: str, promise: float | None) -> bool:
    """Print a mean with its 95 % interval, and return whether it breaks the promise."""
    mean = statistics.fmean(values)
    error = statistics.stdev(values) / len(values) ** 0.5
    half = float(stats.t.ppf(0.975, len(values) - 1)) * error
    verdict = probe.judged(mean - half, mean + half, promise)
    print(
        f"{name}: {mean:+.2f} {unit} [{mean - half:+.2f}, {mean + half:+.2f}]{verdict}", flush=True
    )
    return promise is not None and mean - half > promise


def measure_calls(rounds: int, pairs: int) -> bool:
    """Print what an event costs. Returns whether a promise is broken."""
    is_broken = False
    with tempfile.TemporaryDirectory(prefix="dbc-") as made:
        program = Path(made) / "calls"
        flags = ["-std=c17", "-D_GNU_SOURCE", "-O2", "-fno-builtin-malloc", "-pthread"]
        subprocess.run(["cc", *flags, "-o", program, SOURCE], check=True)
        for threads in (1, 2):
            figures: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
            for _ in range(rounds):
                for way in random.sample(WAYS, len(WAYS)):
                    figures[way].append(run_calls(program, way, pairs // threads, threads))
            is_broken |= print_calls(threads, figures)
    return is_broken


def print_calls(threads: int, figures: dict[str, list[dict[str, float]]]) -> bool:
    """Print the differences of one number of threads. Returns whether a promise is broken."""

    def subtract(way: str, name: str) -> list[float]:
        pairs = zip(figures[way], figures["without"], strict=True)
        return [a[name] - b[name] for a, b in pairs]

    own = statistics.median(row["ns"] for row in figures["without"])
    print(f"{threads} threads: malloc's own {own:.1f} ns an event")
    print_difference("  idle", subtract("idle", "ns"), "ns", None)
    is_slow = print_difference("  recording", subtract("recording", "ns"), "ns", PROMISED_NS)
    print_difference("  recording, with the writer", subtract("recording", "all ns"), "ns", None)
    is_large = print_difference("  memory", subtract("recording", "MiB"), "MiB", PROMISED_MIB)
    size = statistics.fmean(row["bytes"] for row in figures["recording"])
    lost = sum(row["dropped"] for row in figures["recording"])
    verdict = probe.judged(size, size, PROMISED_BYTES)
    print(f"  file: {size:.2f} bytes an event{verdict}; {lost:.0f} lost")
    return is_slow or is_large or size > PROMISED_BYTES


def under_recorder(name: str, out: Path, is_idle: bool) -> dict[str, Any]:
    """The system's malloc under the recorder."""
    request = f"{'idle' if is_idle else 'start'}:{LIMIT}:{out}"
    return {
        "name": name,
        "allocator": "glibc",
        "preload": [str(find_library(RECORDER))],
        "env": {RECORDER.variable: request},
    }


def measure_server(out: Path, recordings: Path, args: argparse.Namespace) -> bool:
    """Print the ratios of the server's CPU per transaction. Returns whether a promise is broken.
    What is promised has a campaign of its own: with others its interval would share the error.
    """
    campaigns = {
        "server": [under_recorder("recorded", recordings, False)],
        "server-others": [under_recorder("idle", recordings, True), *probe.heaptrack()],
    }
    plain = {"name": "glibc", "allocator": "glibc"}
    promised = {"recorded": PROMISED_CPU}
    is_broken = False
    for name, variants in campaigns.items():
        chosen = [v for v in variants if not args.only or v["name"] in args.only]
        if chosen:
            is_broken |= probe.measure(out, name, [plain, *chosen], promised, args)
    return is_broken


@dataclass(frozen=True, kw_only=True)
class ServerRecording:
    """A server's recording: how far it is whole, and the file's bytes."""

    condition: RecordingCondition
    size: int

    @property
    def is_good(self) -> bool:
        """Whether it has all that was promised, up to the server's end."""
        return (
            self.condition.dropped == 0
            and self.condition.ended_by == "exit"
            and self.size <= PROMISED_BYTES * self.condition.events
        )


def read_server_recordings(directory: Path) -> list[ServerRecording]:
    """Read the recordings of servers among those in a directory."""
    recordings = [
        ServerRecording(condition=verify_recording(path, LIMIT), size=path.stat().st_size)
        for path in sorted(directory.glob("*.recording"))
    ]
    return [each for each in recordings if each.condition.events > FEW_EVENTS]


def measure_drops(out: Path, minutes: float, args: argparse.Namespace) -> bool:
    """Print what was lost with many clients, and the server's memory. Returns whether a promise is
    broken.
    """
    is_broken = False
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
            peaks = run(out / name, table, "--no-report").good["rss_peak"].to_list()
            title = f"{threads} clients, {seconds:.0f} s"
            is_broken |= print_drops(title, read_server_recordings(Path(recordings)), peaks)
    return is_broken


def print_drops(title: str, recordings: list[ServerRecording], peaks: list[float | None]) -> bool:
    """Print what was lost, and the most RSS, bytes, of each start. Returns whether a promise is
    broken: also if there is no recording.
    """
    for recording in recordings:
        condition = recording.condition
        print(
            f"{title}: {condition.events:,} events, {condition.dropped:,} lost, "
            f"{recording.size / condition.events:.2f} bytes an event, ended by "
            f"{condition.ended_by}; promised none lost, {PROMISED_BYTES} bytes: "
            f"{'kept' if recording.is_good else 'BROKEN'}",
            flush=True,
        )
    if not recordings:
        print(f"{title}: no recording of a server; promised none lost: BROKEN")
    sizes = [f"{peak / 2**20:,.0f}" for peak in peaks if peak is not None]
    print(f"{title}: RSS of at most {', '.join(sizes) or 'an unknown number of'} MiB", flush=True)
    return not recordings or not all(each.is_good for each in recordings)


def main() -> int:
    """Measure what was asked for, all of it by default. Returns 1 if a promise is broken."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=2_000_000)
    probe.add_blocks(parser)
    parser.add_argument("--drop-minutes", type=float, default=10, help="with 64 clients")
    parser.add_argument("--use", default="mariadb")
    parser.add_argument("--engine", default="innodb")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--workload", default="oltp_read_only")
    parser.add_argument("--only", action="append", metavar="NAME", help="recorded, idle, heaptrack")
    parser.add_argument("--out", type=Path, default=Path("dballoc-results/benchmark-recorder"))
    args = parser.parse_args()
    parts = args.parts or PARTS
    is_broken = False
    if "calls" in parts:
        is_broken |= measure_calls(args.rounds, args.pairs)
    with tempfile.TemporaryDirectory(prefix="dbr-") as recordings:
        Path(recordings).chmod(0o777)  # the servers' user makes files there
        if "server" in parts:
            is_broken |= measure_server(args.out.absolute(), Path(recordings), args)
    if "drops" in parts:
        is_broken |= measure_drops(args.out.absolute(), args.drop_minutes, args)
    return int(is_broken)


if __name__ == "__main__":
    sys.exit(main())
