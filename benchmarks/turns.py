"""What turns resolve on this machine, and that how they are taken does not change the result.

    python benchmarks/turns.py [--part ways|lengths|thaw|planted|collapse] [--blocks N]
                               [--seeds N] [--minutes N] [--out DIR]

ways      who is stopped while another has its turn: the server and its client, the server alone, or
          the client alone, whose server finishes what it has begun. Each: N blocks
lengths   turns of 0.25 to 2 s, N blocks each, with mallocs and planted losses: CPU burnt in each
          malloc (2 and 5 %), and the same under a lock that all threads share (5 %)
thaw      what servers do in each 50 ms of their turns of 0.5 and 2 s, and the ratios without the
          first 50, 100 … ms of each turn, beside those of solo starts, N blocks of each
planted   for each seed a campaign of so many minutes: glibc, itself as a variant, and a lock held
          for 3 % of the CPUs' time: how often it is found, and how often a difference is seen that
          is not there
collapse  256 clients by turns and by solo starts, 10 blocks of each: one arena of glibc's, the same
          without thread caches, and the preload's lock held so long that throughput collapses

The planted loss is known: the preload says how long it spun, as a share of the turns' CPU time.
Every campaign's directory is kept below DIR, and an interrupted run goes on where it stopped. The
machine must be quiet. Needs cc.
"""

import argparse
import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

from campaigns import run
from duet import SAID, build, spinning

from dballoc.host.resources.cpus import list_available_cpus
from dballoc.questions.compare.baseline_comparison import collect_logs, compare_with_baseline
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.measures import THROUGHPUT, Metric
from dballoc.questions.compare.verdict import Verdict

LENGTHS = ("250ms", "500ms", "1s", "2s")
# Rounds of the calibration, and the share of the CPUs that each planted variant is to spin, under a
# lock or not, while it does as many transactions as glibc. Waiting for the lock comes on top:
# locked3 loses 6 to 7 % of throughput on two cores. What collapsed spins is too long to be timed.
SPIN = 1000
LOCK = {"DBALLOC_SPIN_LOCK": "1"}
PLANTED: dict[str, tuple[float, dict[str, str]]] = {
    "burnt2": (0.02, {}),
    "burnt5": (0.05, {}),
    "locked3": (0.03, LOCK),
    "locked5": (0.05, LOCK),
    "collapsed": (0.4, LOCK),
}
# How dballoc is run with another way to stop: what is sent to whom, in place of both.
WAYS = {
    "both": "",
    "server": "lambda self, number: self.life.running.process.send(number)",
    "client": "lambda self, number: self.client_process and self.client_process.send(number)",
}
# Seconds between two readings of a turn's counters, in the script that dballoc is run by.
MARK = 0.05
THAW = """import json, runpy, sys, time
from dballoc.campaign.trial import turns_trial

log = open({log!r}, "a")
take_turn = turns_trial._RunningRotation._take_turn

def read_marks(self, step, member, number, place):
    marks, began, sleep = [], time.monotonic(), time.sleep
    def sleep_and_read(seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            sleep(min({mark}, left))
            done = member.counter.read_total() - member.transactions
            marks.append((time.monotonic() - began, done))
    time.sleep = sleep_and_read
    try:
        row = take_turn(self, step, member, number, place)
    finally:
        time.sleep = sleep
    name, role = self.rotation.servers[self.members.index(member)]
    line = [self.directory.name, name, role, number, marks, row.seconds, row.transactions]
    print(json.dumps(line), file=log, flush=True)
    return row

turns_trial._RunningRotation._take_turn = read_marks
sys.argv = sys.argv[sys.argv.index("dballoc"):]
runpy.run_module("dballoc", run_name="__main__")
"""
GLIBC: dict[str, Any] = {"name": "glibc", "allocator": "glibc"}


def make_table(
    name: str, variants: list[dict[str, Any]], threads: int = 64, **more: Any
) -> dict[str, Any]:
    """Return the demo's load, by turns."""
    return {
        "name": name,
        "baseline": "glibc",
        "workloads": ["oltp_read_only"],
        "threads": [threads],
        "design": "turns",
        "warmup_sql": [],
        "server": {"use": "mariadb", "options": {"innodb_buffer_pool_size": "128M"}},
        "data": {"tables": 4, "rows": 50_000},
        "load": {"options": {"range_size": "1000"}},
        "time": {"warmup": "1s", "level": "4s", "idle": "0s"},
        "noise": {"repeats": 0},
        "variant": variants,
        **more,
    }


def find_logs(campaign: Campaign) -> dict[str, list[float]]:
    """Return the blocks' ln ratios of throughput by variant; the baseline's of its A/A pair."""
    design = THROUGHPUT.choose_design(campaign.facts.designs)
    assert design
    threads = campaign.experiment.threads[-1]
    metric = Metric(measure=THROUGHPUT, workload="oltp_read_only", threads=threads, design=design)
    return collect_logs(campaign, metric)


def describe_logs(logs: list[float]) -> str:
    """Return the mean ratio with its standard error, and the blocks' scatter."""
    mean, scatter = statistics.mean(logs), statistics.stdev(logs)
    error = scatter / math.sqrt(len(logs))
    return f"{math.exp(mean):.4f} ± {error:.4f}, a block {scatter:.2%}"


def find_loss(out: Path, campaign: Campaign, name: str) -> float:
    """Return the truth: the throughput that a variant must have ÷ the baseline's, as the machine's
    CPUs are busy all the time, of which the preload's spins took a known part.
    """
    turns = campaign.experiment.turns
    shares = []
    for trial, directory in (
        campaign.rotation.filter(variant=name).select("trial", "directory").rows()
    ):
        rounds = campaign.turn.filter(trial=trial)["round"].n_unique()
        warm = math.ceil(campaign.experiment.turns_warmup / turns.length)
        seconds = (rounds + warm) * turns.length * len(list_available_cpus())
        for log in (out / "trials" / directory).glob(f"*-{name}/server.log"):
            if said := SAID.search(log.read_text(errors="replace")):
                shares.append(float(said[1]) / seconds)
    assert shares, f"{out}: the preload of {name} has said nothing"
    return 1 - statistics.mean(shares)


def show(out: Path, campaign: Campaign, planted: list[str]) -> None:
    """Print each variant's ratio, and beside planted ones what it must be."""
    for name, logs in find_logs(campaign).items():
        truth = f"; planted: {find_loss(out, campaign, name):.4f}" if name in planted else ""
        print(f"  {name:10} {describe_logs(logs)}{truth}", flush=True)


def plant(out: Path, *names: str) -> list[dict[str, Any]]:
    """Return those of PLANTED as variants, calibrated by two blocks."""
    library = build(out, "spin")
    first = [GLIBC, spinning("calibrated", library, SPIN, **LOCK)]
    table = make_table("calibration", first, blocks=2)
    loss = 1 - find_loss(out / "calibration", run(out / "calibration", table), "calibrated")
    variants = []
    for name in names:
        share, lock = PLANTED[name]
        rounds = max(1, round(SPIN * share / loss))
        print(f"{SPIN} rounds take {loss:.2%} of the CPUs; {name}: {rounds} rounds", flush=True)
        variants.append(spinning(name, library, rounds, **lock))
    return variants


def compare_ways(out: Path, blocks: int) -> None:
    """Print the same campaign by each way to stop."""
    mallocs = [GLIBC, {"name": "twin", "allocator": "glibc"}]
    mallocs += [{"name": name, "allocator": name} for name in ("jemalloc", "tcmalloc", "mimalloc")]
    for way, patch in WAYS.items():
        prefix: list[str] = []
        if patch:
            script = out / f"{way}.py"
            script.write_text(
                "import runpy, sys\n"
                "from dballoc.campaign.trial import turns_trial\n"
                f"turns_trial._TurnTaker._send = {patch}\n"
                "sys.argv = sys.argv[sys.argv.index('dballoc'):]\n"
                "runpy.run_module('dballoc', run_name='__main__')\n"
            )
            prefix = [sys.executable, "-I", str(script)]
        print(f"stopped: {way}", flush=True)
        show(out, run(out / way, make_table(way, mallocs, blocks=blocks), prefix=prefix), [])


def compare_lengths(out: Path, blocks: int) -> None:
    """Print the same campaign by turns of each length."""
    planted = ["burnt2", "burnt5", "locked5"]
    mallocs = [{"name": name, "allocator": name} for name in ("jemalloc", "tcmalloc")]
    variants = [GLIBC, {"name": "twin", "allocator": "glibc"}, *mallocs, *plant(out, *planted)]
    for length in LENGTHS:
        print(f"turns of {length}", flush=True)
        seconds = float(length[:-2]) / 1000 if length.endswith("ms") else float(length[:-1])
        turns = {"length": length, "rounds": max(2, round(3 / seconds))}
        table = make_table(f"turns-{length}", variants, turns=turns, blocks=blocks)
        show(out / length, run(out / length, table), planted)


def compare_thaw(out: Path, blocks: int) -> None:
    """Print what a turn's begin is to its result."""
    mallocs = [{"name": name, "allocator": name} for name in ("jemalloc", "mimalloc")]
    variants = [GLIBC, *mallocs, *plant(out, "burnt5", "locked5")]
    for length, rounds in (("500ms", 10), ("2s", 4)):
        log, script = out / f"{length}.jsonl", out / f"{length}.py"
        script.write_text(THAW.format(log=str(log), mark=MARK))
        turns = {"length": length, "rounds": rounds, "warmup": "2s"}
        table = make_table(f"thaw-{length}", variants, turns=turns, blocks=blocks)
        run(out / length, table, prefix=[sys.executable, "-I", str(script)])
        print(f"turns of {length}", flush=True)
        show_thaw(log)
    print("solo", flush=True)
    table = make_table("solo", variants, blocks=blocks) | {"design": "solo"}
    show(out / "solo", run(out / "solo", table), [])


def show_thaw(log: Path) -> None:
    """Print the rates of turns in a log of marks, and the ratios by how much is left out."""
    turns = [json.loads(line) for line in log.read_text().splitlines()]
    # Those without a mark were over before the first: dballoc had got no CPU.
    turns = [turn for turn in turns if turn[3] >= 0 and turn[4]]
    for name in dict.fromkeys(turn[1] for turn in turns):
        of_name = [turn for turn in turns if turn[1] == name]
        bins = [count_in_bins(marks) for *_, marks, _, _ in of_name]
        means = [statistics.mean(column) / MARK for column in zip(*bins, strict=False)]
        print(f"  {name:10} a second, by 50 ms: {' '.join(f'{mean:.0f}' for mean in means)}")
    for left_out in (0.0, 0.05, 0.1, 0.15, 0.2):
        logs: dict[str, list[float]] = {}
        for block in dict.fromkeys(turn[0] for turn in turns):
            rates = {
                key: sum_rate([t for t in turns if (t[0], t[1], t[2]) == (block, *key)], left_out)
                for key in dict.fromkeys((t[1], t[2]) for t in turns if t[0] == block)
            }
            a1, a2 = (math.log(rates["glibc", role]) for role in ("A1", "A2"))
            for (name, role), rate in rates.items():
                if role != "A1":
                    base = a1 if role == "A2" else (a1 + a2) / 2
                    logs.setdefault(name, []).append(math.log(rate) - base)
        words = "; ".join(f"{name} {describe_logs(each)}" for name, each in logs.items())
        print(f"  without {left_out * 1000:3.0f} ms: {words}", flush=True)


def count_in_bins(marks: list[list[float]]) -> list[float]:
    """Return the transactions of each whole MARK of a turn, between its readings in a line."""
    number = int(marks[-1][0] / MARK)
    ends = [interpolate(marks, (i + 1) * MARK) for i in range(number)]
    return [b - a for a, b in zip([0.0, *ends], ends, strict=False)]


def interpolate(marks: list[list[float]], at: float) -> float:
    """Return the transactions at a time of a turn."""
    before = (0.0, 0.0)
    for t, done in marks:
        if t >= at:
            share = (at - before[0]) / (t - before[0]) if t > before[0] else 1.0
            return before[1] + share * (done - before[1])
        before = (t, done)
    return before[1]


def sum_rate(turns: list[Any], left_out: float) -> float:
    """Return the rate over some turns without the first seconds of each."""
    done = sum(
        total - (interpolate(marks, left_out) if left_out else 0) for *_, marks, _, total in turns
    )
    return float(done / sum(seconds - left_out for *_, seconds, _ in turns))


def find_planted(out: Path, seeds: int, minutes: float) -> None:
    """Print how often the planted lock is found, and how often a twin seems to differ."""
    variants = [GLIBC, {"name": "twin", "allocator": "glibc"}, *plant(out, "locked3")]
    found = invented = held = pairs = 0
    for seed in range(1, seeds + 1):
        table = make_table(f"planted-{seed}", variants, seed=seed, budget=f"{minutes * 60:.0f}s")
        path = out / f"planted-{seed}"
        campaign = run(path, table)
        comparisons = compare_with_baseline(campaign)
        print(f"seed {seed}: {campaign.blocks('turns')} blocks", flush=True)
        show(path, campaign, ["locked3"])
        for c in (*comparisons.family, *comparisons.floor):
            assert c.ratio
            if c.variant == "locked3":
                found += c.verdict is Verdict.LOWER
            else:
                differs = c.verdict in (Verdict.LOWER, Verdict.HIGHER)
                pairs, invented = pairs + 1, invented + differs
                plain = find_logs(campaign)[c.variant]
                error = statistics.stdev(plain) / math.sqrt(len(plain))
                held += abs(statistics.mean(plain)) <= 2 * error
    print(
        f"planted: found in {found} of {seeds}; of {pairs} identical pairs {invented} seem to "
        f"differ, and {held} lie within two standard errors of 1"
    )


def compare_collapse(out: Path) -> None:
    """Print one arena and a lock for 256 clients, by solo starts and by turns."""
    one: dict[str, Any] = {"arena_max": "1"}
    variants = [
        GLIBC,
        {"name": "one_arena", "allocator": "glibc", "tunables": one},
        {"name": "uncached", "allocator": "glibc", "tunables": one | {"tcache_count": "0"}},
        *plant(out, "collapsed"),
    ]
    for design in ("solo", "turns"):
        table = make_table(design, variants, 256, blocks=10) | {"design": design}
        print(f"{design}:", flush=True)
        show(out / design, run(out / design, table), [])


def main() -> None:
    """Run the parts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=("ways", "lengths", "thaw", "planted", "collapse"))
    parser.add_argument("--blocks", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--out", type=Path, default=Path("turns"))
    given = parser.parse_args()
    out: Path = given.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    for part, measure in (
        ("ways", lambda place: compare_ways(place, given.blocks)),
        ("lengths", lambda place: compare_lengths(place, given.blocks)),
        ("thaw", lambda place: compare_thaw(place, given.blocks)),
        ("planted", lambda place: find_planted(place, given.seeds, given.minutes)),
        ("collapse", compare_collapse),
    ):
        if given.part in (None, part):
            (out / part).mkdir(exist_ok=True)
            measure(out / part)


if __name__ == "__main__":
    main()
