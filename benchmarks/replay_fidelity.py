"""How far replays are from real servers: peak heap of a server under each malloc, beside that of
its trace, recorded under glibc alone and replayed on the same mallocs.

    python benchmarks/replay_fidelity.py [record] [real] [replay] [timed] [control] [table]
    [--rounds 6] [--servers mariadb,…] [--seconds 20] [--idle 15] [--clients 16]
    [--docs docs/replay-fidelity.md]

record    each server once under glibc, into a trace.
real      each server under each malloc, --rounds times, without the recorder.
replay    the traces on the same mallocs, as fast as their order allows.
timed     the same at the recorded pace and with the same rest, for mallocs that give memory back by
the clock.
control   as replay, with lifetimes shuffled within threads and size classes, as a histogram has it.
table     what came out; with --docs, into the generated part of that page.

All parts by default; what is there already is not run again. The exit status is 1 if the targets
are missed: the median error at most 3 %, the worst at most 10 %, and every pair of mallocs that the
real servers show different has the same sign in the replay; or if a malloc under a server lacks its
replay, or a second start of the real server. Shown different is a pair as by `dballoc bench`, where
memory's error of 2.5 % is shared by the comparisons with one baseline. Beside it stands what 5 %
for each pair alone gives, which errs in one or two of thirty pairs.

A real server's peak heap is the most RSS that it had less what was not heap at rest after the load.
That is taken from dballoc's ledger of the starts under glibc, whose heap is walked exactly: pool,
stacks and files are the server's, whatever its malloc, and under others a pool may look like heap.
Its idle heap is RSS after --idle seconds without load, less the same; of replays those at the
recorded pace have one.
"""

import argparse
import itertools
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from typing import Any, Literal

import polars as pl
from campaigns import run
from scipy import stats

from dballoc.campaign.interim_looks import InterimLooks
from dballoc.campaign.observer import Observer
from dballoc.campaign.replay.describe_trace import describe_trace
from dballoc.campaign.replay.hash_trace import hash_trace
from dballoc.campaign.replay.prepare_replay import prepare_replay
from dballoc.campaign.run_blocks import run_campaign
from dballoc.campaign.ways.replay import REPLAYS
from dballoc.cli.shared.experiment_from_replay import ReplayFlags, build_replay_experiment
from dballoc.cli.shared.flags import ExperimentSource
from dballoc.experiment.model import Experiment, Noise
from dballoc.questions.compare.campaign_tables import Campaign, load_campaign
from dballoc.questions.compare.procedure import MEMORY_ERROR
from dballoc.trace.changes.shuffle_lifetimes import shuffle_lifetimes
from dballoc.trace.trace_file.read_trace import read_trace
from dballoc.trace.trace_file.write_trace import write_trace

PARTS = ("record", "real", "replay", "timed", "control", "table")
ALLOCATORS = ("glibc", "jemalloc", "mimalloc", "tcmalloc", "tbbmalloc")
RECORDED = "glibc"
MOST_MEDIAN, MOST_ERROR = 0.03, 0.10
# The error by which two mallocs are shown different: bench's, of each comparison; a pair's alone.
SHOWN, ALONE = MEMORY_ERROR / (len(ALLOCATORS) - 1), 0.05
# The rest after a replay in which time passes as it likes: its idle heap says nothing.
SHORT_IDLE = "50ms"
CACHE = {"innodb": "innodb_buffer_pool_size", "rocksdb": "rocksdb_block_cache_size"}
MIB = 2**20
BEGIN, END = "<!-- benchmarks/replay_fidelity.py begins -->", "<!-- and ends -->"


@dataclass(frozen=True, kw_only=True)
class ServerKind:
    """A server of the matrix, with what is cached at most. ``rate``: transactions a second, as many
    under each malloc, where the heap grows with them; 0: as many as it can.
    """

    title: str
    use: str
    engine: str
    cache: str = "128M"
    rate: int = 0


SERVERS = {
    "mariadb": ServerKind(title="MariaDB InnoDB", use="mariadb", engine="innodb"),
    "mysql": ServerKind(title="MySQL InnoDB", use="mysql@8.0.33", engine="innodb"),
    "myrocks": ServerKind(title="MariaDB MyRocks", use="mariadb@11.8", engine="rocksdb", rate=60),
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A malloc under a server. ``real``, ``replayed``, ``timed``, ``control``: peak heaps, one a
    start or replay; ``real_idle``, ``timed_idle``: heaps at rest, where there was a rest. Bytes.
    """

    server: str
    allocator: str
    real: tuple[float, ...]
    replayed: tuple[float, ...]
    timed: tuple[float, ...]
    control: tuple[float, ...]
    real_idle: tuple[float, ...] = ()
    timed_idle: tuple[float, ...] = ()

    @property
    def scatter(self) -> float | None:
        """The standard deviation of the real peaks' logarithms; None of a single one."""
        return statistics.stdev(map(log, self.real)) if len(self.real) > 1 else None

    @property
    def error(self) -> float:
        """By which share the replay has more than the real server."""
        return compute_error(self.real, self.replayed)


def compute_error(real: Sequence[float], replayed: Sequence[float]) -> float:
    """Return by which share the second ones are higher, by geometric means."""
    return exp(average_log(replayed) - average_log(real)) - 1


def average_log(values: Sequence[float]) -> float:
    """Return the mean of the logarithms."""
    return statistics.fmean(map(log, values))


def make_table(
    kind: ServerKind, seed: int, args: argparse.Namespace, allocators: Sequence[str]
) -> dict[str, Any]:
    """Make an experiment: one block of these mallocs."""
    return {
        "name": "fidelity",
        "design": "solo",
        "baseline": RECORDED,
        "workloads": ["oltp_read_write"],
        "threads": [args.clients],
        "blocks": 1,
        "seed": seed,
        "warmup_sql": [],
        "noise": {"repeats": 0},
        "server": {
            "use": kind.use,
            "engine": kind.engine,
            "options": {CACHE[kind.engine]: kind.cache},
        },
        **({"load": {"options": {"rate": kind.rate}}} if kind.rate else {}),
        "data": {"tables": 4, "rows": 20_000},
        "time": {"warmup": "2s", "level": f"{args.seconds}s", "idle": f"{args.idle}s"},
        "variant": [{"name": name, "allocator": name} for name in allocators],
    }


def run_real(name: str, number: int, args: argparse.Namespace) -> None:
    """Run one round of a server under every malloc."""
    say(f"{name}: round {number}")
    table = make_table(SERVERS[name], number, args, ALLOCATORS)
    run(args.out / name / f"real-{number}", table, "--no-report")


def record_server(name: str, args: argparse.Namespace) -> None:
    """Record a server, unless it was."""
    if find_trace(args.out, name).exists():
        return
    say(f"{name}: recording")
    table = make_table(SERVERS[name], 1, args, [RECORDED])
    run(args.out / name / "record", {**table, "record": {}}, "--no-report")


def find_trace(out: Path, name: str) -> Path:
    """Return where the trace of a server is."""
    return out / name / "record" / f"fidelity-{RECORDED}.trace"


def run_replays(
    trace: Path,
    out: Path,
    blocks: int,
    mode: Literal["fast", "timed"] = "fast",
    idle: str = SHORT_IDLE,
) -> None:
    """Replay a trace on every malloc. Blocks are not repeated where others use the machine: that
    hardly changes memory.
    """
    say(f"{out}")
    recorded = describe_trace(read_trace(trace))
    model = make_experiment(trace, hash_trace(trace), recorded.threads, blocks, mode, idle)
    model = model.model_copy(update={"noise": Noise(repeats=0)})
    run_campaign(
        prepare_replay(model, trace, recorded), out, Observer(), looks=InterimLooks(), kind=REPLAYS
    )


def make_experiment(
    trace: Path,
    sha256: str,
    threads: int,
    blocks: int,
    mode: Literal["fast", "timed"] = "fast",
    idle: str = SHORT_IDLE,
) -> Experiment:
    """Return the experiment of ``dballoc replay``: its own defaults but for what is given here."""
    flags = ReplayFlags(trace=trace, mode=mode, idle=idle)
    source = ExperimentSource(allocators=",".join(ALLOCATORS))
    return build_replay_experiment(flags, source, {"blocks": blocks}, sha256, threads)


def make_control(trace: Path, target: Path) -> Path:
    """Write the trace with shuffled lifetimes, unless it is there already."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        write_trace(shuffle_lifetimes(read_trace(trace), seed=1), target)
    return target


def list_real_peaks(campaign: Campaign) -> Iterator[tuple[str, float]]:
    """Yield of every start its malloc and its peak heap, bytes."""
    outside = statistics.fmean(list_outside(campaign))
    marks = dict(campaign.mark.group_by("trial").agg(pl.col("rss").max()).iter_rows())
    columns = campaign.good.select("trial", "variant", "rss_peak")
    for trial, variant, peak in columns.iter_rows():
        # What a malloc does when the clients leave comes after the last step's samples.
        yield variant, max(peak, marks[trial]) - outside


def list_real_idle(campaign: Campaign) -> Iterator[tuple[str, float]]:
    """Yield of every start with a rest its malloc and its heap at the end of that, bytes."""
    outside = statistics.fmean(list_outside(campaign))
    rows = campaign.good.drop_nulls("rss_idle").select("variant", "rss_idle").iter_rows()
    return ((variant, size - outside) for variant, size in rows if size > outside)


def list_outside(campaign: Campaign) -> list[int]:
    """Return what of RSS was not heap after the load, bytes, of each start under glibc."""
    ledger = campaign.of(campaign.ledger).filter(
        (pl.col("variant") == RECORDED) & (pl.col("part") != "heap")
    )
    return ledger.group_by("trial").agg(pl.col("resident").sum())["resident"].to_list()


def list_replayed(out: Path, column: str = "rss_peak") -> dict[str, tuple[float, ...]]:
    """Return the peak heaps of replays by malloc, bytes, or what another column has; nothing if
    there are none.
    """
    if not (out / "results.sqlite").exists():
        return {}
    rows = load_campaign(out).good.drop_nulls(column).select("variant", column).iter_rows()
    return group_by_malloc(rows)


def group_by_malloc(rows: Iterable[tuple[str, float]]) -> dict[str, tuple[float, ...]]:
    """Return the figures of each malloc, in their order."""
    figures: dict[str, list[float]] = {}
    for allocator, figure in rows:
        figures.setdefault(allocator, []).append(figure)
    return {allocator: tuple(each) for allocator, each in figures.items()}


def load_rounds(name: str, out: Path) -> list[Campaign]:
    """Load what there is of the real starts of a server."""
    results = sorted((out / name).glob("real-*/results.sqlite"))
    return [load_campaign(path.parent) for path in results]


def read_cells(name: str, out: Path) -> list[Cell]:
    """Read what there is of a server."""
    rounds = load_rounds(name, out)
    real = group_by_malloc(pair for each in rounds for pair in list_real_peaks(each))
    real_idle = group_by_malloc(pair for each in rounds for pair in list_real_idle(each))
    replays = {part: list_replayed(out / name / part) for part in PARTS[2:5]}
    timed_idle = list_replayed(out / name / "timed", "rss_idle")
    return [
        Cell(
            server=SERVERS[name].title,
            allocator=allocator,
            real=real[allocator],
            replayed=replays["replay"][allocator],
            timed=replays["timed"].get(allocator, ()),
            control=replays["control"].get(allocator, ()),
            real_idle=real_idle.get(allocator, ()),
            timed_idle=timed_idle.get(allocator, ()) if allocator in real_idle else (),
        )
        for allocator in ALLOCATORS
        if allocator in real and allocator in replays["replay"]
    ]


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Pairs of mallocs under one server: how many the real starts show different (Welch's t of
    logarithms), how many of those have the same sign in the replay, and which do not.
    """

    differing: int
    agreeing: int
    exceptions: tuple[str, ...]


def compare_pairs(cells: Sequence[Cell], error: float = SHOWN) -> Pairs:
    """Compare every two mallocs of a server, each pair with that error."""
    differing = 0
    exceptions = []
    for one, other in itertools.combinations(cells, 2):
        if min(len(one.real), len(other.real)) < 2:
            continue
        logs = [list(map(log, cell.real)) for cell in (one, other)]
        if stats.ttest_ind(*logs, equal_var=False).pvalue > error:
            continue
        differing += 1
        real = average_log(one.real) - average_log(other.real)
        replayed = average_log(one.replayed) - average_log(other.replayed)
        if real * replayed <= 0:
            exceptions.append(
                f"{one.allocator} ÷ {other.allocator}: real {exp(real):.3f}, "
                f"replayed {exp(replayed):.3f}"
            )
    return Pairs(
        differing=differing,
        agreeing=differing - len(exceptions),
        exceptions=tuple(exceptions),
    )


def format_cells(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield the table of cells."""
    yield (
        "| server | malloc | real peak heap, MiB | from start to start | replayed, MiB | error | "
        "at the recorded pace | control | real idle heap, MiB | at the recorded pace |"
    )
    yield "| --- | --- | --: | --: | --: | --: | --: | --: | --: | --: |"
    for cell in cells:
        scatter = "" if cell.scatter is None else f"±{cell.scatter:.1%}"
        timed, control, idle = (
            f"{compute_error(real, values):+.1%}" if real and values else ""
            for real, values in (
                (cell.real, cell.timed),
                (cell.real, cell.control),
                (cell.real_idle, cell.timed_idle),
            )
        )
        real_idle = f"{exp(average_log(cell.real_idle)) / MIB:.1f}" if cell.real_idle else ""
        yield (
            f"| {cell.server} | {cell.allocator} | {exp(average_log(cell.real)) / MIB:.1f} | "
            f"{scatter} | {exp(average_log(cell.replayed)) / MIB:.1f} | {cell.error:+.1%} | "
            f"{timed} | {control} | {real_idle} | {idle} |"
        )


def format_summary(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield what the cells say together, a list of lines."""
    for title, errors in (
        ("Replayed", [cell.error for cell in cells]),
        ("At the recorded pace", [compute_error(c.real, c.timed) for c in cells if c.timed]),
        ("Control", [compute_error(c.real, c.control) for c in cells if c.control]),
        (
            "Idle heap, at the recorded pace",
            [compute_error(c.real_idle, c.timed_idle) for c in cells if c.timed_idle],
        ),
    ):
        if errors:
            sizes = sorted(map(abs, errors))
            yield (
                f"- {title}: median error {statistics.median(sizes):.1%}, worst {sizes[-1]:.1%} "
                f"({len(sizes)} cells)."
            )
    for server in dict.fromkeys(cell.server for cell in cells):
        of_server = [cell for cell in cells if cell.server == server]
        rank = stats.kendalltau(
            [average_log(c.real) for c in of_server], [average_log(c.replayed) for c in of_server]
        ).statistic
        shown, alone = compare_pairs(of_server), compare_pairs(of_server, ALONE)
        wrong = f" Not: {'; '.join(alone.exceptions)}." if alone.exceptions else ""
        yield (
            f"- {server}: Kendall's τ of the order {rank:.2f}; of {shown.differing} pairs that "
            f"`bench` would show different, {shown.agreeing} have the same sign in the replay; at "
            f"an error of 5 % for each pair alone {alone.agreeing} of {alone.differing}.{wrong}"
        )


def describe_runs(names: Sequence[str], out: Path) -> Iterator[str]:
    """Yield what was run, of each server a line."""
    for name in names:
        facts = load_campaign(out / name / "replay").facts.replay
        assert facts
        trials = [load_campaign(out / name / part).trial for part in ("replay", "control")]
        rows = pl.concat([trial.select("outcome", "fault_text") for trial in trials])
        good = rows.filter(pl.col("outcome") == "ok").height
        rounds = load_rounds(name, out)
        outside = [size / MIB for campaign in rounds for size in list_outside(campaign)]
        yield (
            f"- {SERVERS[name].title}: {facts.events:,} events of {facts.threads} threads in "
            f"{facts.seconds:.0f} s, at most {facts.peak_live / MIB:.1f} MiB alive, "
            f"{facts.dropped} events lost; calls of each thread and live curve were those of the "
            f"trace in {good} of {rows.height} replays. {len(rounds)} rounds of real starts; "
            f"{min(outside):.1f} to {max(outside):.1f} MiB of their RSS were not heap."
        )


def misses_targets(cells: Sequence[Cell]) -> bool:
    """Whether the replays are further from the real servers than promised."""
    errors = [abs(cell.error) for cell in cells]
    servers = {cell.server for cell in cells}
    pairs = [compare_pairs([c for c in cells if c.server == server]) for server in servers]
    return (
        statistics.median(errors) > MOST_MEDIAN
        or max(errors) > MOST_ERROR
        or any(each.exceptions for each in pairs)
    )


def list_lacking(names: Sequence[str], cells: Sequence[Cell]) -> list[str]:
    """Return the mallocs and servers without a replay, or with fewer than two real starts."""
    there = {(cell.server, cell.allocator) for cell in cells if len(cell.real) > 1}
    return [
        f"{allocator} under {SERVERS[name].title}"
        for name in names
        for allocator in ALLOCATORS
        if (SERVERS[name].title, allocator) not in there
    ]


def write_generated_part(page: Path, text: str) -> None:
    """Replace what stands between the page's two marks."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def print_results(names: Sequence[str], args: argparse.Namespace) -> bool:
    """Print the table, and put it into the page. Returns whether targets are missed."""
    there = [name for name in names if (args.out / name / "replay/results.sqlite").exists()]
    cells = [cell for name in there for cell in read_cells(name, args.out)]
    if not cells:
        say("nothing was run yet")
        return True
    lines = [*format_cells(cells), "", *format_summary(cells), *describe_runs(there, args.out)]
    say("\n".join(lines))
    if args.docs:
        write_generated_part(args.docs, "\n".join(lines))
    lacking = list_lacking(names, cells)
    for text in lacking:
        say(f"lacks {text}")
    return bool(lacking) or misses_targets(cells)


def say(text: str) -> None:
    """Print at once."""
    print(text, flush=True)


def main() -> int:
    """Run what was asked for and is not there yet."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--servers", default=",".join(SERVERS))
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--idle", type=int, default=15, help="seconds without load, at the end")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--out", type=Path, default=Path("dballoc-results/replay-fidelity"))
    parser.add_argument("--docs", type=Path, help="the page whose generated part is written")
    args = parser.parse_args()
    args.out = args.out.absolute()
    parts, names = args.parts or PARTS, args.servers.split(",")
    for name in names if "record" in parts else ():
        record_server(name, args)
    for number in range(1, args.rounds + 1) if "real" in parts else ():
        for name in names:
            run_real(name, number, args)
    for name in names:
        trace, home = find_trace(args.out, name), args.out / name
        if "replay" in parts:
            run_replays(trace, home / "replay", 2)
        if "timed" in parts:
            run_replays(trace, home / "timed", 1, "timed", f"{args.idle}s")
        if "control" in parts:
            run_replays(make_control(trace, home / "control.trace"), home / "control", 1)
    return int(print_results(names, args)) if "table" in parts else 0


if __name__ == "__main__":
    sys.exit(main())
