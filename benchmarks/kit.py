"""What a kit does on a host that has nothing, and whether its results are those of this checkout.

    kit.py KIT ROOTS [SUITE[=MIRROR]…] [-- OPTION…]

KIT is what `make kit` built; ROOTS keeps a minimal root of each suite (fresh_hosts.py), made if it
is not there: Debian 11's, and Ubuntu 22.04's where its archive and keys can be had. There is no
network, compiler, Python or sysbench in them. In each, as root and as an ordinary user, the kit is
unpacked and run to its end (`--design solo`, two blocks; options of `bench` may follow, like
`--cpus 1,2` for the kit of `scaling` on a small machine), then run again, killed by SIGKILL, its
guardian too, in its second trial, and resumed. Printed: the kit's size by part; seconds from the
begin of unpacking to the first trial, and to the end; what changed outside the kit's directory;
what of it runs 15 s after the kill; and in what the rows and the report of both results differ from
those of the same campaign run by this checkout, figures aside. Needs root, and five minutes a
suite. The exit status is 1 where the kit is larger than 60 MiB, the first trial begins after more
than 20 s, or anything changed, runs on or differs.
"""

import gzip
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from fresh_hosts import DBALLOC, make_root, run_inside

MOST_BYTES = 60 << 20
MOST_SECONDS = 20.0
SUITES = ("bullseye", "jammy")
RUN = "--design solo --blocks 2 --repeat-noisy 0 --seed 1"
# Beside the kit's directory root has this: the machine's lock, shared with other dballocs.
LOCK = "/run/dballoc"
ACCOUNTS = {"root": "", "ordinary user": "setpriv --reuid 1000 --regid 1000 --clear-groups"}

_TOOLS = (
    "for tool in cc gcc clang python3 sysbench mariadbd mysqld; do command -v $tool || true; done"
)
# After $as, $arguments and $kit. seen/: what this benchmark notes. The exe of a process that has
# ended cannot be read.
_LINE = """
cd /tmp
mkdir seen
list() {
    find / -xdev \\( -path /proc -o -path /sys -o -path /tmp/seen -o -path /tmp/dballoc-kit \\) \\
        -prune -o ! -path /tmp -printf '%p %y %m %U %s %T@ %C@\\n' | sort
}
list_running() {
    for process in /proc/[0-9]*; do
        case $(readlink "$process/exe" || true) in
        /tmp/dballoc-kit/$1*)
            echo "${process#/proc/} $(tr '\\0\\n' '  ' <"$process/cmdline" | cut -c1-99 || true)" ;;
        esac
    done 2>/dev/null
}
fail() {
    echo "$1: $(tail -n 5 "$2")" >&2
    exit 1
}
run() {
    $as ./dballoc-kit/run $arguments </dev/null >"seen/$1.log" 2>&1 || fail "$1" "seen/$1.log"
    mv dballoc-kit/results "seen/$1"
}
list >seen/before
date +%s.%N >seen/begin
$as tar -xzf "$kit"
run whole
date +%s.%N >seen/end
list | diff seen/before - >seen/changed || true
$as setsid ./dballoc-kit/run $arguments </dev/null >seen/killed.log 2>&1 &
waited=0
until [ "$(ls dballoc-kit/results/trials 2>/dev/null | wc -l)" -ge 2 ]; do
    [ $((waited += 1)) -lt 1200 ] || fail "no second trial" seen/killed.log
    sleep 0.1
done
sleep 1
list_running '' >seen/at-the-kill
kill -9 $(list_running python/ | cut -d' ' -f1) || true
waited=0
until [ -z "$(list_running '')" ] || [ $((waited += 1)) -gt 150 ]; do sleep 0.1; done
list_running '' >seen/left
run resumed
"""

# An attempt at a block that was cut has no row in its table; its trials do not count.
_ROWS = """
SELECT t.design, t.block, t.position, t.variant, t.role, t.level, t.workload, t.outcome, t.fault,
       s.step, s.kind, s.workload, s.threads
FROM trial t JOIN block USING (design, block, attempt) LEFT JOIN step s ON s.trial = t.trial
"""
_TRIAL_COLUMNS = 13
_VARIANTS = "SELECT name, allocator, allocator_version, server, server_version, engine FROM variant"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Results without their figures. ``rows``: of trials with their steps, and of variants;
    ``report``: each table of csv/ with its columns, and each heading of report.md.
    """

    rows: Counter[tuple]
    report: Counter[tuple]


def read_outcome(directory: Path) -> Outcome:
    """Read a results directory, and the report that was made of it."""
    with closing(sqlite3.connect(directory / "results.sqlite")) as db:
        rows = Counter(row for sql in (_ROWS, _VARIANTS) for row in db.execute(sql))
    tables = [
        (path.name, path.read_text().partition("\n")[0]) for path in directory.glob("csv/*.csv")
    ]
    text = (directory / "report.md").read_text()
    headings = [(line,) for line in text.splitlines() if line.startswith("#")]
    return Outcome(rows=rows, report=Counter([*tables, *headings]))


def forget_order(outcome: Outcome) -> Outcome:
    """Return an outcome without the positions of trials: a block that was cut is repeated in an
    order that is drawn anew.
    """
    rows: Counter[tuple] = Counter()
    for row, count in outcome.rows.items():
        rows[(*row[:2], *row[3:]) if len(row) == _TRIAL_COLUMNS else row] += count
    return Outcome(rows=rows, report=outcome.report)


def list_differences(one: Outcome, other: Outcome) -> list[str]:
    """Return what only one of two outcomes has."""
    pairs = ((one.rows, other.rows), (one.report, other.report))
    return [
        f"{side} {row}"
        for left, right in pairs
        for side, rest in (("-", left - right), ("+", right - left))
        for row in sorted(rest.elements(), key=repr)
    ]


def list_changes(lines: Iterable[str]) -> list[str]:
    """Return the paths that a diff of two listings names, but for the machine's lock."""
    paths = {line.split()[1] for line in lines if line[:1] in "<>"}
    return sorted(p for p in paths if p not in (LOCK, "/run") and not p.startswith(f"{LOCK}/"))


def print_sizes(kit: Path) -> None:
    """Print each part's bytes, as they are and by themselves compressed."""
    sizes: dict[str, list[int]] = {}
    with tarfile.open(kit) as archive:
        for member in archive:
            if (stream := archive.extractfile(member)) is None:
                continue
            words = member.name.removeprefix("./").split("/")[1:]
            part = "/".join(words[:2] if words[0] == "store" else words[:1])
            content = stream.read()
            size = sizes.setdefault(part, [0, 0])
            size[0] += len(content)
            size[1] += len(gzip.compress(content))
    print(f"{kit.name}: {kit.stat().st_size / 2**20:.1f} MiB; its parts, MiB unpacked and packed:")
    for part, (plain, packed) in sorted(sizes.items(), key=lambda item: -item[1][1]):
        print(f"  {part:40} {plain / 2**20:7.1f} {packed / 2**20:7.1f}")


def report_at_home(results: Path, home: Path) -> Outcome:
    """Copy results, as they come home, and let this checkout judge them."""
    shutil.copytree(results, home)
    subprocess.run([DBALLOC, "report", home], check=True, stdout=subprocess.DEVNULL)
    return read_outcome(home)


def run_here(kit: Path, options: str, scratch: Path) -> Outcome:
    """Run the kit's experiment by this checkout in the same way."""
    with tarfile.open(kit) as archive:
        [member] = [
            m for m in archive if m.name.count("/") == 1 and m.name.endswith("/experiment.toml")
        ]
        stream = archive.extractfile(member)
        assert stream is not None
        (scratch / "experiment.toml").write_bytes(stream.read())
    words: list[str | Path] = [DBALLOC, "bench", scratch / "experiment.toml", "--measure-only"]
    words += [*options.split(), "--out", scratch / "here"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return report_at_home(scratch / "here", scratch / "here-at-home")


def measure_account(
    name: str, root: Path, kit: Path, options: str, here: Outcome, scratch: Path
) -> list[str]:
    """Print what the kit does in a root as one user, and return what is missed."""
    own = scratch / f"{root.name} {name}"
    own.mkdir()
    own.chmod(0o1777)
    line = f"as='{ACCOUNTS[name]}' arguments='{options}' kit='{kit.name}'{_LINE}"
    run_inside(root, [kit], line, own)
    seen = own / "seen"
    with closing(sqlite3.connect(seen / "whole/results.sqlite")) as db:
        [(first,)] = db.execute("SELECT min(started) FROM trial")
    begin, end = (float((seen / when).read_text()) for when in ("begin", "end"))
    changes = list_changes((seen / "changed").read_text().splitlines())
    at_the_kill = (seen / "at-the-kill").read_text().splitlines()
    left = (seen / "left").read_text().splitlines()
    print(
        f"  {name}: {first - begin:.1f} s to the first trial, {end - begin:.0f} s to the end; "
        f"changed outside: {', '.join(changes) or 'nothing'}; of {len(at_the_kill)} processes "
        f"after the kill: {', '.join(left) or 'none'}"
    )
    missed = [f"{path} changed" for path in changes] + [f"runs on: {each}" for each in left]
    if first - begin > MOST_SECONDS:
        missed.append(f"{first - begin:.1f} s to the first trial, more than {MOST_SECONDS:g}")
    for results in ("whole", "resumed"):
        there = report_at_home(seen / results, own / results)
        pair = (here, there) if results == "whole" else (forget_order(here), forget_order(there))
        differences = list_differences(*pair)
        print(f"    {results}: differs from this checkout's in {differences or 'figures alone'}")
        missed += [f"{results} differs: {each}" for each in differences]
    return [f"{root.name}, {name}: {each}" for each in missed]


def measure_suite(root: Path, mirror: str, kit: Path, options: str, here: Outcome) -> list[str]:
    """Print what the kit does in a suite's root, and return what is missed."""
    suite = root.name
    try:
        make_root(suite, root, mirror)
    except subprocess.CalledProcessError as error:
        print(f"{suite}: not measured: its root cannot be made: {error}")
        return [] if suite in SUITES[1:] else [f"{suite}: its root cannot be made"]
    _, tools = run_inside(root, [DBALLOC], _TOOLS)
    print(f"{suite}: has {' '.join(tools.split()) or 'no compiler, Python, sysbench or server'}")
    missed = [f"{suite}: has {tool}" for tool in tools.split()]
    with tempfile.TemporaryDirectory(prefix="kit-") as scratch:
        Path(scratch).chmod(0o755)
        for name in ACCOUNTS:
            missed += measure_account(name, root, kit, options, here, Path(scratch))
    return missed


def main(words: Sequence[str]) -> int:
    """Measure each suite; return the exit status."""
    if len(words) < 2 or os.geteuid() != 0:
        sys.exit(f"{__doc__}\nRun it as root.")
    end = words.index("--") if "--" in words else len(words)
    options = " ".join((RUN, *words[end + 1 :]))
    kit, roots = Path(words[0]).absolute(), Path(words[1]).absolute()
    roots.mkdir(parents=True, exist_ok=True)
    print_sizes(kit)
    missed = []
    if kit.stat().st_size > MOST_BYTES:
        missed.append(f"{kit} is larger than {MOST_BYTES >> 20} MiB")
    with tempfile.TemporaryDirectory(prefix="kit-") as scratch:
        here = run_here(kit, options, Path(scratch))
    for word in words[2:end] or SUITES:
        suite, _, mirror = word.partition("=")
        missed += measure_suite(roots / suite, mirror, kit, options, here)
    for line in missed:
        print(f"MISSED: {line}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
