"""``dballoc tune``: which settings of which malloc, searched in noise and confirmed."""

from pathlib import Path
from typing import Annotated

import typer

from dballoc.campaign.results_directory import choose_results_directory
from dballoc.cli.shared import experiment_from_flags, flags
from dballoc.cli.shared.campaign_display import display, minutes
from dballoc.cli.shared.field_flags import Changes, takes_flags
from dballoc.cli.shared.perform_campaign import INTERRUPTED, show_report
from dballoc.cli.shared.safe_output import Console, say
from dballoc.experiment import experiment_file
from dballoc.experiment.flag import Flag
from dballoc.experiment.model import Experiment
from dballoc.ground.numbers import count
from dballoc.search import run_confirmation
from dballoc.search.prepare_tune import PreparedTune, prepare_tune
from dballoc.search.run_search import run_search
from dballoc.search.search_space import Knob, describe_parameters
from dballoc.search.short_experiment import count_most_workloads

VERB = "tune"


@takes_flags(
    [
        ("experiment", "named", "scale", "allocators", "tune.aim", "from_", "tune.replay"),
        ("budget", "like"),
        flags.SERVER,
        ("defaults_file", "login_path", "workloads", "threads"),
        flags.TABLES,
        ("time.warmup", "time.level", "cpu.count", "limits.memory"),
        ("tune.leave", "tune.presets", "tune.thp", "seed"),
        ("out", "report", "dry_run", "print_"),
    ],
    budget=Flag("--budget", "TIME", "For search and confirmation together; default: 1h."),
    count=Flag("--cpus", "N", "Number of CPUs for server and client together."),
)
def tune(
    source: flags.ExperimentSource,
    changes: Annotated[Changes, Experiment],
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="TRACE",
            help="A trace of this workload, like bench --record makes one, for the replays that "
            "the search begins with.",
        ),
    ] = None,
    out: flags.Out = None,
    report: flags.Report = True,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check everything, print what is searched, and stop."),
    ] = False,
    print_: flags.PrintFile = False,
) -> None:
    """Search the settings of mallocs for this workload, and confirm what was found in a campaign of
    its own.

    The same command resumes what was interrupted. dballoc deploy prints the winner.
    """
    if from_ is not None:
        changes["tune.trace"] = experiment_from_flags.name_trace(from_)
    model = experiment_from_flags.read_experiment(source, changes, out=out)
    if print_:
        say(experiment_file.format_experiment(model).removesuffix("\n"))
        return
    setting = prepare_tune(model)
    if dry_run:
        _print_plan(setting)
        return
    directory = choose_results_directory(out, setting.experiment, VERB)
    _run(setting, directory, report)


def _run(setting: PreparedTune, directory: Path, report: bool) -> None:
    """Search, confirm, report. typer.Exit after an interruption."""
    console = Console()

    def write_report(path: Path) -> None:
        if report:
            # Slow to import: polars, scipy, vl-convert.
            from dballoc.questions.write_report import write_report_outputs

            write_report_outputs(path, preference=setting.preference)

    with display(console) as watcher:
        ending = run_search(setting, directory, watcher)
        if ending == "searched":
            confirmations = run_confirmation.declare_confirmations(setting, directory)
            ending = run_confirmation.run_confirmations(
                confirmations, directory, watcher, write_report
            )
    run_confirmation.store_ending(
        directory, "interrupted" if ending == "interrupted" else "planned"
    )
    show_report(console, directory, report=report)
    if ending == "interrupted":
        console.print("interrupted; run the same command to resume", highlight=False)
        raise typer.Exit(INTERRUPTED)


def _print_plan(setting: PreparedTune) -> None:
    experiment = setting.experiment
    assert experiment.budget
    say(f"for:     {setting.preference.text}")
    clients = count(experiment.threads[-1], "client")
    if setting.surveys:
        most, workloads = count_most_workloads(experiment), len(experiment.workloads)
        say(
            f"load:    {most} of {workloads} workloads at {clients}: those with the highest peak "
            "RSS in short starts"
        )
    else:
        say(f"load:    {', '.join(experiment.workloads)} at {clients}")
    say(f"search:  {minutes(experiment.budget * setting.tune.share)} at most")
    say(f"confirm: {minutes(experiment.budget * (1 - setting.tune.share))} at least")
    if setting.records:
        say("replay:  of a trace that the first trial makes")
    elif setting.replays is not None:
        say(f"replay:  of {setting.replays.path}")
    if setting.no_thp:
        say(f"thp:     left alone: {setting.no_thp}")
    for name, space in setting.spaces.items():
        for knob in space.knobs:
            say(f"knob:    {name}: {knob.name}: {_describe_values(knob)}")
        for preset in space.presets:
            say(f"preset:  {name}: {describe_parameters(preset)}")


def _describe_values(knob: Knob) -> str:
    values = ", ".join(knob.words) or f"{knob.least} to {knob.most}"
    scale = ", powers of two" if knob.powers else ", logarithmic" if knob.log else ""
    needs = f", with {describe_parameters(knob.needs)}" if knob.needs else ""
    return f"{values}{scale}{needs}"
