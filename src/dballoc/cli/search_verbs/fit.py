"""``dballoc fit``: the largest cache with which a server survives a load under a memory limit."""

from pathlib import Path
from typing import Annotated

import typer

from dballoc.campaign.looks import NoLooks
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.results_directory import choose_results_directory
from dballoc.campaign.run_blocks import has_trials, run_campaign
from dballoc.campaign.ways.fit import FIT, prepare_fit
from dballoc.campaign.ways.solo import estimate_solo_trial_seconds
from dballoc.cli.shared import experiment_from_flags, flags
from dballoc.cli.shared.campaign_display import display, minutes
from dballoc.cli.shared.field_flags import Changes, takes_flags
from dballoc.cli.shared.perform_campaign import ENDINGS, INTERRUPTED, show_report
from dballoc.cli.shared.safe_output import Console, print_json, say
from dballoc.experiment import cache_size_search, experiment_file
from dballoc.experiment.durations_and_sizes import format_size
from dballoc.experiment.flag import Flag
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import Failure


@takes_flags(
    [
        ("experiment", "named", "scale", "limits.memory", "allocators", "sweep"),
        flags.SERVER,
        ("workloads", "threads"),
        flags.TABLES,
        ("time.warmup", "time.level", "fit.start", "from_", "fit.tolerance"),
        ("fit.repeats", "budget", "seed", "out", "report", "as_json", "dry_run", "print_"),
    ],
    level=Flag("--time", "TIME", "How long each size is under load at each level."),
)
def fit(
    source: flags.ExperimentSource,
    changes: Annotated[Changes, Experiment],
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="TRACE",
            help="A trace of such a server (bench --record): each malloc's first size is what a "
            "replay of it leaves of the memory.",
        ),
    ] = None,
    out: flags.Out = None,
    report: flags.Report = True,
    as_json: flags.AsJson = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, print sizes and minutes, and stop.")
    ] = False,
    print_: flags.PrintFile = False,
) -> None:
    """Find the largest buffer pool (InnoDB) or block cache (RocksDB) with which the server survives
    a load under a memory limit, for each malloc.

    Every trial runs a server in a memory cgroup; the search needs as few trials as possible. The
    same command resumes it.
    """
    if from_ is not None:
        changes["fit.guess"] = experiment_from_flags.name_trace(from_)
    model = experiment_from_flags.read_experiment(source, changes, "fit", out)
    if print_:
        say(experiment_file.format_experiment(model).removesuffix("\n"))
        return
    setting = prepare_fit(model)
    if dry_run:
        _print_plan(setting)
        return
    directory = choose_results_directory(out, setting.experiment, "fit")
    console = Console(stderr=as_json)
    with display(console) as watcher:
        ending = run_campaign(setting, directory, watcher, kind=FIT, looks=NoLooks()).why
    words = "every search is over" if ending == "planned" else ENDINGS[ending]
    console.print(f"{words}\n", highlight=False)
    variants = []
    if has_trials(directory):
        show = (lambda document: print_json(document.data)) if as_json else None
        variants = show_report(console, directory, show, report=report).data["variants"]
    if ending == "interrupted":
        raise typer.Exit(INTERRUPTED)
    if variants and all(variant["search"] == "faults" for variant in variants):
        raise Failure(
            "every search ended in faults; the report has each server's and client's message"
        )


def _print_plan(setting: PreparedCampaign) -> None:
    of = cache_size_search.derive_range(setting.experiment)
    trials = len(setting.variants) * cache_size_search.count_trials_at_most(of, [])
    say(f"memory:  {format_size(of.memory)} for the server")
    guess = setting.experiment.fit.guess
    first = (
        f"the first by replay of {Path(guess.trace).name}"
        if guess
        else f"{format_size(of.nearest(of.start) * of.tolerance)} first"
    )
    say(f"sizes:   multiples of {format_size(of.tolerance)} up to it, {first}")
    say(f"trials:  {trials} at most")
    say(f"time:    {minutes(trials * estimate_solo_trial_seconds(setting))} at most")
    say(f"disk:    about {setting.disk_needed / 2**20:,.0f} MiB in the cache")
    for name, prepared in setting.variants.items():
        server = f"{prepared.build.title} {prepared.server.engine}"
        say(f"variant: {name}: {server}, {prepared.malloc_title}")
