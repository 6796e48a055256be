"""How long dballoc takes to begin: each verb's --help, the version, and a small process explained.

    python benchmarks/start_up.py [--rounds 9] [--beside SRC] [VERB …]

Every command is run once a round, in random order; with --beside also with the package in another
directory, like the src of another checkout, so that both share the machine's noise. Printed are,
for each command, the least and the median CPU seconds (user and system) and the median elapsed
seconds, how many modules it imported, and with --beside the median ratio of CPU, round by round.
Promised: the verbs of a production host (those without an extra) begin within 0.3 s of CPU, by the
least of the rounds, as other work on the machine can only add to it. Exit status 1 if one does not.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import dballoc
from dballoc.cli.verb_list import VERBS

PROMISED = 0.3
MAIN = """
import sys
sys.argv[0] = "dballoc"
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


def run_once(package: Path, words: list[str], figures: Figures) -> None:
    """Run a command with the package in that directory, and add what it took."""
    read_end, write_end = os.pipe()
    start = time.monotonic()
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", MAIN, *words],
        {**os.environ, "PYTHONPATH": os.fspath(package)},
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


def print_figures(words: list[str], figures: Figures, other: Figures | None) -> None:
    """Print a line of the table."""
    line = (
        f"{' '.join(words):28} | {min(figures.cpu):5.2f} | {statistics.median(figures.cpu):5.2f} | "
        f"{statistics.median(figures.elapsed):7.2f} | {figures.modules:7}"
    )
    if other:
        ratios = [mine / theirs for mine, theirs in zip(figures.cpu, other.cpu, strict=True)]
        line += f" | {min(other.cpu):5.2f} | {other.modules:7} | {statistics.median(ratios):5.2f}"
    print(line, flush=True)


def main() -> int:
    """Run every command, print the table; 1 if a verb of a production host begins too late."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", nargs="*", choices=[[], *VERBS])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--beside", type=Path)
    args = parser.parse_args()
    packages = [Path(dballoc.__file__).resolve().parents[1], *filter(None, [args.beside])]
    # It ends with its input, which is closed however this ends.
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as explained:
        commands = [[verb, "--help"] for verb in args.verb or VERBS]
        if not args.verb:
            explain = ["explain", "--no-sql", "--pid", str(explained.pid)]
            commands += [["--version"], ["--help"], explain, ["verify", str(explained.pid)]]
        table = [[Figures() for _ in packages] for _ in commands]
        for _ in range(args.rounds):
            for row in random.sample(range(len(commands)), len(commands)):
                for column in random.sample(range(len(packages)), len(packages)):
                    run_once(packages[column], commands[row], table[row][column])
    headings = "command                      | least |   CPU | elapsed | modules"
    print(headings + (" | least | modules | ratio" if args.beside else ""))
    late = []
    for words, row_figures in zip(commands, table, strict=True):
        print_figures(words, row_figures[0], row_figures[1] if args.beside else None)
        verb = VERBS.get(words[0])
        if (verb is None or verb.extra is None) and min(row_figures[0].cpu) > PROMISED:
            late.append(" ".join(words))
    if late:
        print(f"later than {PROMISED} s: {', '.join(late)}")
    return int(bool(late))


if __name__ == "__main__":
    sys.exit(main())
