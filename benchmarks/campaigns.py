"""What several benchmarks begin with: a campaign of a table that they make; and how noisy its hour
was.
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from dballoc.campaign import results_directory
from dballoc.experiment import experiment_file
from dballoc.questions.compare.campaign_tables import Campaign, load_campaign
from dballoc.store.facts import FINAL_ENDINGS
from dballoc.store.open_database import FILE

# The slice scatter of a noisy hour, at least.
NOISY = 0.10


def run(
    out: Path,
    table: dict[str, Any],
    *flags: str,
    prefix: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Campaign:
    """Run or resume it in ``out`` with the command that users have, and their ``flags``; its
    experiment file lies beside. One that has ended is read as it is. ``prefix``: of the command;
    ``environment``: the command's, or ours.
    """
    path = write_experiment(out, table)
    if not is_finished(out, path):
        program = [*prefix, sys.executable, "-I", "-m", "dballoc", "bench"]
        command: list[str | Path] = [*program, path, "--out", out, *flags]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return load_campaign(out)


def write_experiment(out: Path, table: dict[str, Any]) -> Path:
    """Write the experiment's file beside its results directory, and return its path."""
    out.parent.mkdir(parents=True, exist_ok=True)
    path = out.with_name(f"{out.name}.toml")
    path.write_text(tomli_w.dumps(table))
    return path


def is_finished(out: Path, path: Path) -> bool:
    """Whether the experiment of that file has ended in ``out``, and not by an interruption."""
    if not (out / FILE).exists() or load_campaign(out).facts.ending not in FINAL_ENDINGS:
        return False
    stored, asked = results_directory.load_experiment(out), experiment_file.load_experiment(path)
    identities = {experiment_file.compute_identity(e) for e in (stored, asked)}
    return len(identities) == 1


def find_slice_scatter(campaign: Campaign) -> float | None:
    """Return the relative standard deviation of slices that the pilot found, of the workload in
    which it is largest; None where there was no duet.
    """
    components = campaign.facts.duet.components
    return max((each.slice for each in components.values()), default=None)
