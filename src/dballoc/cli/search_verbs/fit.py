"""``dballoc fit``: the largest cache with which a server survives a load under a memory limit."""

import json
from pathlib import Path
from typing import Annotated

import typer

from dballoc.analysis.tables import largest_cache as analysis
from dballoc.campaign import fit_search as campaign
from dballoc.campaign.duration_estimate import estimate_solo_trial_seconds
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.results_directory import choose_results_directory
from dballoc.campaign.run_blocks import has_trials
from dballoc.cli.shared import experiment_from_flags, flags
from dballoc.cli.shared.campaign_display import display, minutes
from dballoc.cli.shared.perform_campaign import ENDINGS, INTERRUPTED, print_report_place
from dballoc.cli.shared.safe_output import Console, say
from dballoc.errors import Failure
from dballoc.experiment import cache_size_search, experiment_file
from dballoc.experiment.durations_and_sizes import format_size
from dballoc.report import write_report_outputs
from dballoc.report.outputs import terminal

LevelTime = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="How long each size is under load at each level."),
]
Start = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="The first size of the cache; default: half of the memory."),
]
From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="TRACE",
        help="A trace of such a server (bench --record): each malloc's first size is what a replay "
        "of it leaves of the memory.",
    ),
]
Tolerance = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Search until the answer is this close to a size that gets killed; default: a "
        "fiftieth of the memory.",
    ),
]
Repeats = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="How many trials a size must survive without an OOM kill; default: 2, which show that "
        "at least 22 % of such trials survive (with 95 % confidence); 14 show 80 %, 29 show 90 %.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check everything, print sizes and minutes, and stop.")
]


def fit(
    experiment: flags.File = None,
    named: flags.Named = None,
    scale: flags.Scale = None,
    memory: flags.Memory = None,
    allocators: flags.Allocators = None,
    sweep: flags.Sweeps = None,
    server: flags.Server = None,
    basedir: flags.Basedir = None,
    engine: flags.Engine = None,
    option: flags.ServerOptions = None,
    workloads: flags.Workloads = None,
    threads: flags.Threads = None,
    tables: flags.Tables = None,
    rows: flags.Rows = None,
    warmup: flags.Warmup = None,
    time: LevelTime = None,
    start: Start = None,
    from_: From = None,
    tolerance: Tolerance = None,
    repeats: Repeats = None,
    budget: flags.Budget = None,
    seed: flags.Seed = None,
    out: flags.Out = None,
    report: flags.Report = True,
    as_json: flags.AsJson = False,
    dry_run: DryRun = False,
    print_: flags.PrintFile = False,
) -> None:
    """Find the largest buffer pool (InnoDB) or block cache (RocksDB) with which the server survives
    a load under a memory limit, for each malloc.

    Every trial runs a server in a memory cgroup; the search needs as few trials as possible. The
    same command resumes it.
    """
    model = experiment_from_flags.read_experiment(locals(), default="fit")
    if print_:
        say(experiment_file.format_experiment(model).removesuffix("\n"))
        return
    setting = campaign.prepare_fit(model)
    if dry_run:
        _print_plan(setting)
        return
    directory = out or choose_results_directory(
        Path("dballoc-results"), setting.experiment, analysis.VERB
    )
    console = Console(stderr=as_json)
    with display(console) as watcher:
        ending = campaign.run_fit(setting, directory, watcher)
    fits = analysis.load_fits(directory) if has_trials(directory) else None
    words = "every search is over" if ending == "planned" else ENDINGS[ending]
    console.print(f"{words}\n", highlight=False)
    if fits:
        _show(fits, directory, console, report=report, as_json=as_json)
    if ending == "interrupted":
        raise typer.Exit(INTERRUPTED)
    if fits and all(f.state.why == "faults" for f in fits.fitted):
        raise Failure(
            "every search ended in faults; the report has each server's and client's message"
        )


def _show(
    fits: analysis.Fits, directory: Path, console: Console, *, report: bool, as_json: bool
) -> None:
    page = write_report_outputs(directory) if report else None
    if as_json:
        from dballoc.report import fit_report

        print(json.dumps(fit_report.describe_fits(fits), indent=1))
    else:
        terminal.print_fit(console, directory)
    print_report_place(console, directory, page)


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
        title = " ".join(filter(None, [prepared.allocator.name, prepared.allocator.version]))
        say(f"variant: {name}: {prepared.build.title} {prepared.server.engine}, {title}")
