"""How long dballoc takes to begin, and to answer: each verb's --help, the version, a small process
explained, and a MariaDB explained with SQL.

    python benchmarks/start_up.py [--rounds 9] [--beside SRC] [VERB …]
    python benchmarks/start_up.py --looks --rounds 15 --beside SRC

Every command is run once a round, in random order; with --beside also with the package in another
directory, like the src of another checkout, so that both share the machine's noise. Printed are,
for each command, the least and the median CPU seconds (user and system), the least and the median
elapsed seconds, how many modules it imported, and with --beside the median ratios of CPU and of
elapsed seconds, round by round. With --looks nothing is run but verify and explain, of the MariaDB.
The MariaDB is a private one, at rest; without mariadbd on this machine its row is left out,
and that is said. Promised, by the least of the rounds, as other work on the machine can only add to
it: the verbs of a production host (those without an extra) begin within 0.3 s, and within as much
explain has its answer, with SQL, of that server of 400 MiB. Exit status 1 if one does not.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from empty_mariadb import find_mariadbd, run_empty_mariadb

import dballoc
from dballoc.cli.verb_list import VERBS

PROMISED = 0.3
HISTORY = "performance-schema-events-statements-history-long-size"
MAIN = """
import sys
sys.path.insert(0, sys.argv[1])
sys.argv[:2] = ["dballoc"]
from dballoc.cli.main import main
try:
    main()
finally:
    print(len(sys.modules), file=sys.stderr)
"""


@dataclass
class Figures:
    """Of one command with one package, an element a round; the modules it imported."""

    cpu: list[float] = field(default_factory=list)
    elapsed: list[float] = field(default_factory=list)
    modules: int = 0


@dataclass(frozen=True)
class Command:
    """A command line, and the elapsed seconds that are promised of it, if any are."""

    title: str
    words: list[str]
    promised: float | None = None

    def find_misses(self, figures: Figures) -> list[str]:
        """Return a line if the promise is not kept."""
        least = min(figures.elapsed)
        if self.promised is None or least <= self.promised:
            return []
        return [f"{self.title}: {least:.2f} s, later than {self.promised} s"]


def run_once(package: Path, words: list[str], figures: Figures) -> None:
    """Run a command with the package in that directory, and add what it took."""
    read_end, write_end = os.pipe()
    start = time.monotonic()
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-c", MAIN, os.fspath(package), *words],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_DUP2, write_end, 2),
        ],
    )
    os.close(write_end)
    with open(read_end, encoding="utf-8", errors="replace") as errors:
        text = errors.read()
    _, status, usage = os.wait4(child, 0)
    if status:
        sys.exit(f"start_up: dballoc {' '.join(words)}: {text.strip()}")
    figures.cpu.append(usage.ru_utime + usage.ru_stime)
    figures.elapsed.append(time.monotonic() - start)
    figures.modules = int(text.split()[-1])


@contextmanager
def run_server() -> Iterator[tuple[int, str] | None]:
    """Run a MariaDB at rest; its PID and socket, None where this machine has none."""
    if (mariadbd := find_mariadbd()) is None:
        print("no mariadbd on this machine: explain with SQL is left out", flush=True)
        yield None
        return
    # Its tables in memory make it as large as a small server at work: 400 MiB.
    options = "--performance-schema=ON", f"--{HISTORY}=60000"
    with (
        tempfile.TemporaryDirectory(prefix="start-up-") as directory,
        run_empty_mariadb(mariadbd, Path(directory), *options) as server,
    ):
        yield server


def check_sql(package: Path, socket: str) -> None:
    """SystemExit if explain gets nothing by SQL there: its row would be of something else."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", MAIN, package, "explain", "--socket", socket, "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    explained = json.loads(done.stdout)
    if "SQL" not in explained["tiers"]:
        sys.exit(f"start_up: explain knows nothing by SQL: {explained['notes']}")


def list_commands(verbs: Sequence[str], pid: int, socket: str | None) -> list[Command]:
    """List the commands that are run: of these verbs, or of all and what is there beside them."""
    commands = [
        Command(f"{verb} --help", [verb, "--help"], None if VERBS[verb].extra else PROMISED)
        for verb in verbs or VERBS
    ]
    if verbs:
        return commands
    explain = ["explain", "--no-sql", "--pid", str(pid)]
    commands += [
        Command("--version", ["--version"], PROMISED),
        Command("--help", ["--help"], PROMISED),
        Command("explain, without SQL", explain, PROMISED),
        Command("verify", ["verify", str(pid)], PROMISED),
    ]
    if socket:
        words = ["explain", "--socket", socket]
        commands.append(Command("explain, with SQL", words, PROMISED))
    return commands


def list_looks(pid: int, socket: str) -> list[Command]:
    """List the commands that look at a MariaDB."""
    return [
        Command("verify", ["verify", str(pid)]),
        Command("explain, without SQL", ["explain", "--no-sql", "--pid", str(pid)]),
        Command("explain, with SQL", ["explain", "--socket", socket], PROMISED),
    ]


def measure(commands: list[Command], packages: list[Path], rounds: int) -> list[list[Figures]]:
    """Run every command so many times; a row a command, a column a package."""
    table = [[Figures() for _ in packages] for _ in commands]
    for _ in range(rounds):
        for row in random.sample(range(len(commands)), len(commands)):
            for column in random.sample(range(len(packages)), len(packages)):
                run_once(packages[column], commands[row].words, table[row][column])
    return table


def print_figures(title: str, figures: Figures, other: Figures | None) -> None:
    """Print a line of the table."""
    line = (
        f"{title:20} | {min(figures.cpu):5.2f} | {statistics.median(figures.cpu):5.2f} | "
        f"{min(figures.elapsed):5.2f} | {statistics.median(figures.elapsed):7.2f} | "
        f"{figures.modules:7}"
    )
    if other:
        ratios = [
            statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
            for ours, theirs in ((figures.cpu, other.cpu), (figures.elapsed, other.elapsed))
        ]
        line += (
            f" | {min(other.cpu):5.2f} | {other.modules:7} | {ratios[0]:5.2f} | {ratios[1]:7.2f}"
        )
    print(line, flush=True)


def main() -> int:
    """Run every command, print the table; 1 if a promise is not kept."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", nargs="*", choices=[[], *VERBS])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--beside", type=Path)
    parser.add_argument("--looks", action="store_true")
    args = parser.parse_args()
    packages = [Path(dballoc.__file__).resolve().parents[1], *filter(None, [args.beside])]
    if args.verb:
        commands = list_commands(args.verb, 0, None)
        table = measure(commands, packages, args.rounds)
    else:
        # The small process ends with its input, which is closed however this ends.
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as small, run_server() as server:
            if args.looks and not server:
                return 1
            pid, socket = server or (0, None)
            if socket:
                for package in packages:
                    check_sql(package, socket)
            if args.looks and socket:
                commands = list_looks(pid, socket)
            else:
                commands = list_commands([], small.pid, socket)
            table = measure(commands, packages, args.rounds)
    headings = "command              | least |   CPU | least | elapsed | modules"
    print(headings + (" | least | modules |   CPU | elapsed" if args.beside else ""))
    misses = []
    for command, row in zip(commands, table, strict=True):
        print_figures(command.title, row[0], row[1] if args.beside else None)
        misses += command.find_misses(row[0])
    for miss in misses:
        print(f"MISSED: {miss}")
    return int(bool(misses))


if __name__ == "__main__":
    sys.exit(main())
