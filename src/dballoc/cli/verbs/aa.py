"""``dballoc aa``: a malloc against itself, and what this host can resolve."""

from pathlib import Path
from typing import Annotated

import typer

from dballoc.campaign.preparation import prepare
from dballoc.campaign.results_directory import choose_results_directory
from dballoc.cli.shared import experiment_from_flags, flags, perform_campaign
from dballoc.cli.shared.field_flags import Changes, takes_flags
from dballoc.cli.shared.safe_output import Console, print_json
from dballoc.document.terminal import print_answer
from dballoc.experiment import experiment_file
from dballoc.experiment.flag import Flag
from dballoc.experiment.model import Experiment
from dballoc.questions.compare import campaign_tables
from dballoc.questions.resolution.answer import (
    answer_resolution,
    describe_resolution,
    make_needs_sections,
)
from dballoc.questions.resolution.figures import compute_resolution

BUDGET = "6m"


@takes_flags(
    [
        ("experiment", "allocator"),
        flags.SERVER,
        ("workloads", "threads", "design"),
        flags.TABLES,
        ("time.warmup", "time.level", "time.idle"),
        ("blocks", "noise.repeats", "budget", "variants", "seed"),
        ("out", "report", "as_json"),
    ],
    budget=Flag(
        "--budget",
        "TIME",
        f"Time for the whole campaign; default: {BUDGET}, or what --blocks need.",
    ),
)
def aa(
    source: flags.ExperimentSource,
    changes: Annotated[Changes, Experiment],
    allocator: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The malloc to run against itself; default: FILE's baseline, or glibc.",
        ),
    ] = None,
    variants: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=2,
            help="Variants, the baseline counted, of the campaigns whose intervals and minutes are "
            "promised; default: as many as the demo's.",
        ),
    ] = None,
    out: flags.Out = None,
    report: flags.Report = True,
    as_json: flags.AsJson = False,
) -> None:
    """Compare a malloc with itself: every difference is noise. Says how small a difference this
    host can resolve, and in what time.

    An ordinary campaign with two identical variants, and an ordinary report. The same command
    resumes it.
    """
    if allocator:
        changes["allocators"] = [allocator]
    if "blocks" not in changes:
        changes.setdefault("budget", BUDGET)
    experiment = source.experiment
    model = experiment_from_flags.experiment(experiment, None if experiment else "aa", changes)
    model = build_twins(model, str(experiment or "command line"))
    setting = prepare.prepare_campaign(model)
    directory = choose_results_directory(out, model)
    perform_campaign.perform(
        setting,
        directory,
        Console(stderr=as_json),
        lambda _: _show(directory, as_json, variants),
        report=report,
    )


def build_twins(experiment: Experiment, origin: str) -> Experiment:
    """Return the experiment with its baseline and an identical variant, and no other. Raises
    UsageError that begins with ``origin`` if the second variant's name becomes too long.
    """
    baseline = experiment.find(experiment.baseline).model_dump(mode="json", exclude_none=True)
    table = experiment.model_dump(mode="json", exclude_none=True)
    table["variant"] = [baseline, baseline | {"name": experiment.baseline + "-again"}]
    return experiment_file.build_experiment(table, origin)


def _show(directory: Path, as_json: bool, variants: int | None) -> None:
    promised = variants or len(experiment_from_flags.experiment(None, "demo", {}).variant)
    resolution = compute_resolution(campaign_tables.load_campaign(directory), promised)
    if as_json:
        print_json(describe_resolution(resolution))
        return
    answer = answer_resolution(resolution)
    print_answer(Console(), answer, make_needs_sections(resolution))
