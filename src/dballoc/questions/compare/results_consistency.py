"""Check that the tables of a results directory fit together: what one table names, another has."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import polars as pl
from pydantic import TypeAdapter

from dballoc.experiment.designs import Design
from dballoc.experiment.model import REPLAY, CounterName, Experiment
from dballoc.ground import readers
from dballoc.ground.errors import Failure
from dballoc.store import column_types as forms
from dballoc.store.facts import Facts, ImportedFacts, parse_environment
from dballoc.store.open_database import FILE

Tables = Mapping[str, pl.DataFrame]

_ROLES = {"A1", "A2"}
# As perf names them: in all modes, in user mode, in the kernel.
_EVENTS = {name + mode for name in get_args(CounterName) for mode in ("", ":u", ":k")}
_JSON: dict[str, TypeAdapter[Any]] = {
    "libraries": forms.LIBRARIES,
    "environment": forms.ENVIRONMENT,
    "command": forms.COMMAND,
}


def check_tables(
    directory: Path, facts: Facts, experiment: Experiment, tables: Tables
) -> dict[str, pl.DataFrame]:
    """Return the tables, with the variants' JSON checked and written anew. Raises Failure for the
    first thing that does not fit.
    """
    try:
        variant = _check_variants(facts, experiment, tables["variant"])
        _check_trials(facts, experiment, tables)
        _check_loads(facts, experiment, tables)
        _check_hosts(tables)
        if facts.imported is not None:
            _check_machines(facts.imported, tables["trial"])
            _check_imported_profiles(facts.imported, experiment)
        if facts.replay is not None:
            _check_replay_marks(len(facts.replay.marks), tables["replay_mark"])
        return {**tables, "variant": variant}
    except readers.Unfit as error:
        raise Failure(
            f"{directory / FILE}: damaged: {error}; restore the directory from a copy, or run the "
            "campaign again"
        ) from None


def _check_variants(facts: Facts, experiment: Experiment, variants: pl.DataFrame) -> pl.DataFrame:
    missing = {v.name for v in experiment.variant} - set(variants["name"])
    # A search makes variants as it goes.
    is_search = facts.kind == "tune"
    if missing or (len(variants) != len(experiment.variant) and not is_search):
        raise readers.Unfit("variant: the variants differ from those of the experiment")
    columns = [
        pl.Series(
            column,
            [forms.check_json(text, of, f"variant.{column}") for text in variants[column]],
            dtype=pl.String,
        )
        for column, of in _JSON.items()
    ]
    return variants.with_columns(columns)


def _check_trials(facts: Facts, experiment: Experiment, tables: Tables) -> None:
    trials, names = tables["trial"], set(tables["variant"]["name"])
    _check_values(trials["variant"], names.__contains__, "trial.variant: not in the experiment")
    baselines = {part.baseline for part in experiment.split_by_cpus()}
    columns = ["trial", "variant", "role", "design", "block", "attempt", "proof"]
    for row in trials.select(columns).iter_rows(named=True):
        place = f"trial {row['trial']}"
        of_baseline = row["variant"] in baselines
        if (
            row["design"] == Design.SOLO
            and (row["role"] in _ROLES) != of_baseline
            and facts.kind not in ("fit", "tune")
        ):
            raise readers.Unfit(f"{place}: {row['variant']} cannot have the role {row['role']}")
        if row["design"] == Design.SOLO and Design.SOLO not in facts.designs:
            raise readers.Unfit(f"{place}: solo, which is not a design of the campaign")
        if not 0 <= row["block"] < 10**6 or not 0 <= row["attempt"] < 10**6:
            raise readers.Unfit(
                f"{place}: impossible block {row['block']} or attempt {row['attempt']}"
            )
        if row["proof"] is not None:
            forms.check_json(row["proof"], forms.PROOF, f"{place}: proof")
    blocks = tables["block"]
    _check_values(blocks["block"], lambda n: 0 <= n < 10**6, "block.block: impossible number")


def _check_loads(facts: Facts, experiment: Experiment, tables: Tables) -> None:
    workloads = set(experiment.loads)
    levels = set(experiment.threads)
    steps = tables["step"].filter(kind="level")
    if facts.kind == "tune":
        # Its first stage replays a trace, with the threads that this has.
        workloads.add(REPLAY)
        steps = steps.filter(pl.col("workload") != REPLAY)
    for table in ("trial", "step", "slice", "slice_counter"):
        _check_values(
            tables[table]["workload"].drop_nulls(),
            workloads.__contains__,
            f"{table}.workload: not in the experiment",
        )
    for table in ("step_counter", "slice_counter"):
        _check_values(
            tables[table]["event"], _EVENTS.__contains__, f"{table}.event: dballoc counts no such"
        )
    _check_values(steps["threads"], levels.__contains__, "step.threads: not in the experiment")


def _check_hosts(tables: Tables) -> None:
    """Check the hosts of a campaign on several, and that every block was on one of them."""
    for text in tables["host"]["environment"]:
        parse_environment(text, "host.environment")
    names = set(tables["host"]["host"])
    placement = tables["placement"]
    _check_values(placement["host"], names.__contains__, "placement.host: no such host")
    clients = placement["client"].drop_nulls()
    _check_values(clients, names.__contains__, "placement.client: no such host")


def _check_machines(imported: ImportedFacts, trials: pl.DataFrame) -> None:
    numbers = sorted(trials["trial"].to_list())
    if numbers != list(range(1, len(numbers) + 1)):
        raise readers.Unfit("trial: the numbers of imported trials have gaps")
    if sum(machine.trials for machine in imported.machines) != len(numbers):
        raise readers.Unfit("campaign: imported: the machines' numbers of trials do not add up")
    if imported.relative_to is not None and imported.relative_to not in set(trials["variant"]):
        raise readers.Unfit(
            f"campaign: imported.relative_to: {readers.shown(imported.relative_to)} is not in the "
            "results"
        )


def _check_imported_profiles(imported: ImportedFacts, experiment: Experiment) -> None:
    names, workloads = {v.name for v in experiment.variant}, set(experiment.workloads)
    machines = {machine.name for machine in imported.machines}
    for i, place in enumerate(imported.profiles):
        for key, present in (("variant", names), ("workload", workloads), ("machine", machines)):
            name = getattr(place, key)
            if name not in present:
                raise readers.Unfit(
                    f"campaign: imported.profiles.{i}: {key} {readers.shown(name)} is not in the "
                    "results"
                )


def _check_replay_marks(count: int, marks: pl.DataFrame) -> None:
    if not marks["mark"].is_between(0, count - 1).all():
        raise readers.Unfit("replay_mark.mark: the trace has fewer marks")


def _check_values(values: pl.Series, is_allowed: Callable[[Any], bool], complaint: str) -> None:
    for value in values.unique():
        if value is None or not is_allowed(value):
            raise readers.Unfit(f"{complaint}: {readers.shown(str(value))}")
