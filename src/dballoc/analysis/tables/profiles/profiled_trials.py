"""Find the trials whose variants were profiled, and their workloads."""

from pathlib import Path
from typing import Any

import polars as pl

from dballoc import readers
from dballoc.analysis.campaign_tables import Campaign

# The characters of a note that are shown.
_LONGEST = 2000


def list_profiled_trials(campaign: Campaign) -> list[tuple[dict[str, Any], list[str]]]:
    """Return the row and the workloads of each profiled trial
    (:func:`dballoc.experiment.trial_steps.is_profiled`), in the order of the variants.
    """
    rows = campaign.trial.filter(
        pl.col("counted") & (pl.col("block") == 1) & (pl.col("role") != "A2")
        & pl.col("level").is_in([None, campaign.experiment.profiled_level], nulls_equal=True)
    )  # fmt: skip
    ordered = sorted(
        rows.iter_rows(named=True), key=lambda row: campaign.names.index(row["variant"])
    )
    return [
        (row, workloads)
        for row in ordered
        if (workloads := campaign.experiment.list_profiled(row["workload"]))
    ]


def read_note(path: Path, directory: Path) -> str:
    """Read the note that a trial left in a results directory in place of a profile; where it cannot
    be read, say why.
    """
    try:
        return readers.text(path, errors="replace", below=directory).strip()[:_LONGEST]
    except readers.Unfit as error:
        return f"{path.name}: {error}"
