"""``dballoc kit make``: everything that measures an experiment elsewhere, in one file."""

from pathlib import Path
from typing import Annotated

import tomli_w
import typer

from dballoc.catalogue import cycles, experiments, look_up, workloads
from dballoc.cli.shared.experiment_from_flags import read_experiment
from dballoc.cli.shared.flags import ExperimentSource
from dballoc.cli.shared.safe_output import say
from dballoc.experiment import experiment_file
from dballoc.experiment.durations_and_sizes import LONGEST_DURATION
from dballoc.experiment.experiment_paths import anchor_paths
from dballoc.ground import readers


def make(
    named: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NAME",
            help="An experiment file (TOML), or a shipped experiment; see dballoc list "
            "experiments.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The archive to write.")] = Path(
        "kit.tar.gz"
    ),
    portable: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|DIR",
            help="The portable file of this very version (make portable), or the directory that "
            "it was unpacked to; default: the one that runs.",
        ),
    ] = None,
) -> None:
    """Put everything that measures an experiment into one file, for a machine without network.

    The file has this dballoc with its own Python, and the servers, sysbench, mallocs and C library
    that the experiment would use here. There, unpack it and start dballoc-kit/run, as root or not;
    it measures every planned block, and the results directory is judged here: dballoc report.
    """
    from dballoc.kit.make_kit import KitSource, make_kit  # here: --help needs none of it

    file = Path(named) if "/" in named or named.endswith(".toml") or Path(named).is_file() else None
    source = ExperimentSource(experiment=file, named=None if file else named)
    model = read_experiment(source, {})
    text = read_for_elsewhere(file) if file else look_up(experiments(), named, "experiment")
    is_longer = experiment_file.LONGER in experiment_file.parse_table(text, named)
    longer = read_experiment(source, {"budget": LONGEST_DURATION}) if is_longer else None
    kit = make_kit(
        KitSource(text=text, experiment=model, longer=longer),
        portable,
        out,
        lambda step: say(f"kit: {step}", error=True),
    )
    for part in kit.parts:
        say(f"{part.kind}: {part.name} {part.version} (sha256 {part.sha256[:12]}…)")
    for place, size in kit.sizes.items():
        if size > 10_000:
            say(f"{size / 2**20:6.1f} MiB  {place}")
    for name in kit.unlicensed:
        say(f"no licence found of {name}", error=True)
    say(f"{out}: {kit.size / 2**20:.1f} MiB; unpack it there, and run dballoc-kit/run")


def read_for_elsewhere(path: Path) -> str:
    """Return the file's text; where it has relative paths, which would lead elsewhere there, its
    table with absolute ones. UsageError if it cannot be read, or is not TOML.
    """
    with readers.naming(path):
        text = readers.text(path)
    table = experiment_file.parse_table(text, str(path))
    names = {**workloads(), **cycles()}
    anchored = anchor_paths(table, path.parent, names)
    is_absolute = anchored == anchor_paths(table, Path("/"), names)
    return text if is_absolute else tomli_w.dumps(anchored)
