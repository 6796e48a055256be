"""Read a results directory as data frames."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import polars as pl

from dballoc.experiment import experiment_file
from dballoc.experiment.designs import Design
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import UsageError
from dballoc.ground.numbers import count
from dballoc.questions.compare import results_consistency
from dballoc.questions.compare.measures import (
    CPU,
    OF_LEVEL,
    PEAK,
    Measure,
    list_judged,
    list_measures,
)
from dballoc.store.facts import FINAL_ENDINGS, Environment, Facts
from dballoc.store.replay_facts import ReplayFacts
from dballoc.store.results import HOST_LOST, Results
from dballoc.store.rows import TABLES

_STEP = ["trial", "step"]

# MariaDB 10.11.12 and later reserves 8 TiB for its buffer pool at its start, beside which nothing
# else in VSZ could be seen. No malloc reserves as much so early: of glibc's arenas, 64 MiB each, it
# would take sixteen thousand.
_OF_THE_SERVER = 2**40

# Those with a row a second, or many for a step: nearly all of a long campaign.
_SERIES = frozenset({"sample", "interval", "histogram", "host_sample"})


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """The tables of results.sqlite (dballoc.store.rows). ``trial`` and ``block`` are those of the
    solo design, ``duet`` and ``duet_block`` those of the duet, ``pilot`` the trials that sized the
    duet, ``rotation`` and ``rotation_block`` those of turns. The column ``counted`` says whether a
    trial enters the figures: of a block that was repeated because the machine was disturbed, only
    the last attempt does.
    """

    facts: Facts
    experiment: Experiment
    environment: Environment
    variant: pl.DataFrame
    block: pl.DataFrame
    trial: pl.DataFrame
    duet_block: pl.DataFrame
    duet: pl.DataFrame
    pilot: pl.DataFrame
    rotation_block: pl.DataFrame
    rotation: pl.DataFrame
    step: pl.DataFrame
    sample: pl.DataFrame
    interval: pl.DataFrame
    histogram: pl.DataFrame
    mark: pl.DataFrame
    slice: pl.DataFrame
    turn: pl.DataFrame
    ledger: pl.DataFrame
    step_counter: pl.DataFrame
    slice_counter: pl.DataFrame
    replica: pl.DataFrame
    host_sample: pl.DataFrame
    host_step: pl.DataFrame
    replay: pl.DataFrame
    replay_point: pl.DataFrame
    replay_mark: pl.DataFrame
    replay_latency: pl.DataFrame
    host: pl.DataFrame
    placement: pl.DataFrame
    client_step: pl.DataFrame
    client_connection: pl.DataFrame

    @property
    def is_replay(self) -> bool:
        """Whether the trials are replays of a trace: there is no server, RSS is that of the heap,
        and an operation is a call of malloc or its family.
        """
        return self.facts.kind == "replay"

    @property
    def has_whole_heap(self) -> bool:
        """Whether peak memory is that of the whole heap: always, but for the replay of a trace
        whose recording began late.
        """
        return self.facts.replay is None or self.facts.replay.from_start

    @property
    def imported(self) -> bool:
        """Whether the results were made elsewhere: they have no A/A pair, no proof of use, no noise
        guard, and mostly no repeats.
        """
        return self.facts.imported is not None

    def describe_clients(self, threads: int) -> str:
        """Return ``256 clients``; in other words where imported files do not say how many."""
        imported = self.facts.imported
        if imported is not None and not imported.clients_stated:
            return "an unstated number of clients"
        return count(threads, "client")

    @property
    def has_clients_apart(self) -> bool:
        """Whether the clients ran on other hosts than the servers."""
        return self.facts.clients == "apart"

    @property
    def judged(self) -> list[str]:
        """The names of the measures that have verdicts."""
        if self.is_replay:
            return [CPU.name, *([PEAK.name] if self.has_whole_heap else [])]
        return list_judged(self.facts.designs)

    @property
    def baseline_roles(self) -> tuple[str, str]:
        """The roles of the baseline's two runs in a block, whose mean the other variants are
        relative to. Imported results have one run, named twice.
        """
        return ("A1", "A1") if self.imported else ("A1", "A2")

    @property
    def starts(self) -> list[tuple[int | None, str | None]]:
        """The server starts of a variant in a block, as (level, workload); None where one start
        runs all levels, or all workloads.
        """
        experiment = self.experiment
        levels: list[int | None] = (
            list(experiment.threads) if experiment.levels == "fresh" else [None]
        )
        return [
            (level, w)
            for w in (experiment.workloads if experiment.sequence == "fresh" else [None])
            for level in levels
        ]

    def blocks(self, design: str) -> int:
        """Return the number of finished blocks of a design."""
        if self.imported:
            return self.trial["block"].n_unique() if design == Design.SOLO else 0
        return self.list_attempts(design)["block"].n_unique()

    def list_attempts(self, design: str) -> pl.DataFrame:
        """Return the attempts at blocks of a design."""
        of_design = {Design.SOLO: self.block, Design.DUET: self.duet_block}
        return of_design.get(Design(design), self.rotation_block)

    @property
    def every_block(self) -> pl.DataFrame:
        """The attempts at blocks of all designs."""
        return pl.concat([self.list_attempts(design) for design in Design])

    def part(self, start: tuple[int | None, str | None]) -> "Campaign":
        """Return the campaign reduced to the solo trials of one of :attr:`starts`."""
        level, workload = start
        of_start = pl.col("level").eq_missing(level) & pl.col("workload").eq_missing(workload)
        return replace(self, trial=self.trial.filter(of_start))

    def split_by_cpus(self) -> list["Campaign"]:
        """Return a part for each number of CPUs, the lowest first, with the variants that are
        compared with the baseline on that number; the campaign itself where it has one number. The
        parts share the blocks and the error.
        """
        parts = self.experiment.split_by_cpus()
        if len(parts) == 1:
            return [self]
        compared = self.experiment.count_compared()
        return [self._select_variants(part, compared) for part in parts]

    def _select_variants(self, part: Experiment, compared: int) -> "Campaign":
        names = [variant.name for variant in part.variant]
        elsewhere = compared - part.count_compared()
        of_part = pl.col("variant").is_in(names)
        return replace(
            self,
            experiment=part,
            facts=replace(self.facts, compared_elsewhere=self.facts.compared_elsewhere + elsewhere),
            variant=self.variant.filter(pl.col("name").is_in(names)),
            trial=self.trial.filter(of_part),
            duet=self.duet.filter(of_part),
            pilot=self.pilot.filter(of_part),
            rotation=self.rotation.filter(of_part),
        )

    @property
    def cpus(self) -> int | None:
        """The number of CPUs of all its variants; None where they have several numbers, or sets."""
        counts = {self.experiment.cpu_of(v).count for v in self.experiment.variant}
        return counts.pop() if len(counts) == 1 else None

    @property
    def names(self) -> list[str]:
        """The variants' names in the experiment's order, the baseline first."""
        others = [v.name for v in self.experiment.variant if v.name != self.experiment.baseline]
        return [self.experiment.baseline, *others]

    @property
    def trials(self) -> pl.DataFrame:
        """The trials of all designs, the pilot's included."""
        return pl.concat([self.trial, self.duet, self.pilot, self.rotation])

    @property
    def good(self) -> pl.DataFrame:
        """Counted solo trials without a fault."""
        return self.trial.filter("counted", outcome="ok")

    @property
    def measures(self) -> dict[str, Measure]:
        """What it measures, by name, in the words of its kind."""
        return list_measures(is_replay=self.is_replay)

    @cached_property
    def levels(self) -> pl.DataFrame:
        """One row a good solo trial and level: block, variant, role, workload, threads, and the
        measures of a level (:data:`dballoc.questions.compare.measures.OF_LEVEL`) in their units,
        null where one has no value.
        """
        return (
            self.of(self.step)
            .filter(kind="level")
            .join(_find_highest_vsz(self.sample), on=_STEP, how="left", maintain_order="left")
            .join(_share_host_time(self.host_step), on=_STEP, how="left", maintain_order="left")
            .select(
                *("block", "variant", "role", "workload", "threads"),
                *(measure.expression for measure in OF_LEVEL.values()),
            )
        )

    def of(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return a table's rows of good solo trials, joined with each trial's variant, role, block
        and level.
        """
        places = self.good.select(
            "trial", "variant", "role", "block", pl.col("level", "workload").name.prefix("trial_")
        )
        return table.join(places, on="trial", how="inner", maintain_order="left")


def _omit_zero(column: str) -> pl.Expr:
    return pl.when(pl.col(column) > 0).then(pl.col(column))


def _find_highest_vsz(samples: pl.DataFrame) -> pl.DataFrame:
    return add_virtual_size(samples).group_by(_STEP).agg(vsz_peak=pl.col("virtual").max())


def _share_host_time(host_steps: pl.DataFrame) -> pl.DataFrame:
    """Return what the host did in each step's window: its CPU time by kind, ``host_idle`` (waits
    for storage included), ``host_busy`` and ``host_total`` in seconds, ``host_switches`` (null
    where its kernel does not count them).
    """
    busy = pl.col("user") + pl.col("system")
    idle = pl.col("idle") + pl.col("iowait")
    return host_steps.select(
        *_STEP,
        host_user="user",
        host_system="system",
        host_idle=idle,
        host_busy=busy,
        host_total=busy + idle + pl.col("steal"),
        host_switches=_omit_zero("switches"),
    ).filter(pl.col("host_total") > 0)


def add_virtual_size(samples: pl.DataFrame) -> pl.DataFrame:
    """Return rows of table ``sample`` with ``virtual``: VSZ in bytes as ps(1) shows it, including
    what mallocs reserve without touching it. What a server that reserves terabytes for itself had
    reserved when it had started is left out.
    """
    at_start = pl.col("reserved").sort_by("t").first().over("trial")
    of_server = pl.when(at_start >= _OF_THE_SERVER).then(at_start).otherwise(0)
    return samples.with_columns(virtual=(pl.col("vsz") - of_server).clip(0))


def reserves_terabytes(samples: pl.DataFrame) -> bool:
    """Whether any server of these rows of table ``sample`` reserves terabytes for itself."""
    return bool((samples["reserved"] >= _OF_THE_SERVER).any())


def is_final(ending: str | None) -> bool:
    """Whether no more blocks come after such an ending; None: of a campaign under way."""
    return ending in FINAL_ENDINGS


def load_campaign(directory: Path, *, series: bool = True) -> Campaign:
    """Read the results of a campaign, of servers or of replays; without ``series`` those of its
    tables that have a row a second are empty, which is all that verdicts need. Raises UsageError if
    there are none, if they have another format, or if a verb without blocks made them.
    """
    campaign = read_results(directory, series=series)
    if campaign.facts.kind in ("fit", "tune"):
        raise UsageError(
            f"{directory}: results of dballoc {campaign.facts.kind}; dballoc report shows them"
        )
    return campaign


def _hide_unkept_idle(trial: pl.DataFrame, replay: ReplayFacts) -> pl.DataFrame:
    """Return replays without the idle heap of mallocs that give memory back by the clock, unless
    time passed as it did for the recorded process: it says nothing, so no table and no verdict has
    it.
    """
    if replay.keeps_the_clock:
        return trial
    unkept = pl.col("variant").is_in(list(replay.decaying))
    return trial.with_columns(rss_idle=pl.when(~unkept).then(pl.col("rss_idle")))


def read_results(directory: Path, *, series: bool = True) -> Campaign:
    """Read a results directory, whichever verb made it; ``series``: as for :func:`load_campaign`.
    Raises UsageError if it is not one or has another format.
    """
    results = Results.open(directory, read_only=True)
    try:
        facts = results.facts()
        experiment = experiment_file.build_experiment(
            experiment_file.parse_table(facts.experiment, str(directory)), str(directory)
        )
        tables = {
            name: _read_table(results, name, is_read=series or name not in _SERIES)
            for name in TABLES
            if name in Campaign.__annotations__
        }
    finally:
        results.close()
    tables = results_consistency.check_tables(directory, facts, experiment, tables)
    every_trial, every_block = tables.pop("trial"), tables.pop("block")
    block, duet_block, rotation_block = (every_block.filter(design=design) for design in Design)
    trial, duet, rotation, pilot = (
        every_trial.filter(design=design) for design in (*Design, "pilot")
    )
    if facts.replay is not None:
        trial = _hide_unkept_idle(trial, facts.replay)
    return Campaign(
        facts=facts,
        experiment=experiment,
        environment=facts.environment,
        block=block,
        duet_block=duet_block,
        trial=trial.with_columns(_find_counted(trial, block)),
        duet=duet.with_columns(_find_counted(duet, duet_block)),
        pilot=pilot.with_columns(counted=pl.lit(False)),
        rotation_block=rotation_block,
        rotation=rotation.with_columns(_find_counted(rotation, rotation_block)),
        **tables,
    )


def load_server_campaign(directory: Path) -> Campaign:
    """Read the results of a campaign of servers that dballoc ran. Raises UsageError as for
    :func:`load_unimported_campaign`, and for a replay's.
    """
    campaign = load_unimported_campaign(directory)
    if campaign.is_replay:
        raise UsageError(
            f"{directory}: results of dballoc replay, which started no server; give results of "
            "dballoc bench"
        )
    return campaign


def load_unimported_campaign(directory: Path, *, series: bool = True) -> Campaign:
    """Read the results of a campaign that dballoc ran; ``series``: as for :func:`load_campaign`.
    Raises UsageError as there, and for imported results.
    """
    campaign = load_campaign(directory, series=series)
    if campaign.imported:
        raise UsageError(
            f"{directory}: its results were measured elsewhere and imported; dballoc can only "
            "report them"
        )
    return campaign


# By SQLite's declared types: a column that is all NULL shows no type of its own.
_TYPES = {"INTEGER": pl.Int64, "REAL": pl.Float64, "TEXT": pl.String}


def _read_table(results: Results, table: str, *, is_read: bool) -> pl.DataFrame:
    """Read a table; its columns alone, unless ``is_read``."""
    schema = {column.name: _TYPES[column.kind] for column in TABLES[table].list_stored()}
    rows = results.table(table) if is_read else []
    # SQLite does not enforce a column's type: a REAL column may return an int, and the reverse.
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pl.DataFrame(
        {
            name: pl.Series(name, column, dtype=kind, strict=False)
            for (name, kind), column in zip(schema.items(), columns, strict=True)
        }
    )


def _find_counted(trial: pl.DataFrame, block: pl.DataFrame) -> pl.Series:
    """Return whether each trial counts: it is of the last finished attempt at its block, or, where
    no attempt was finished, of the last one begun whose host was not lost.
    """
    places = trial.select("block", "attempt")
    lost = places.filter(trial["fault"] == HOST_LOST)
    kept = places.join(lost, on=["block", "attempt"], how="anti")
    begun, finished = (
        dict(rows.group_by("block").agg(pl.col("attempt").max()).iter_rows())
        for rows in (kept, block)
    )
    attempts = {**begun, **finished}
    return pl.Series(
        "counted",
        [attempts.get(b) == a for b, a in places.iter_rows()],
        dtype=pl.Boolean,
    )
