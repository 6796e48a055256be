"""Carry out what a command line of ``dballoc bench`` asks for.

What measures is imported when something is to be measured: it takes most of a second, and --print
and most refusals need none of it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dballoc.analysis.decisions import preference
from dballoc.campaign.results_directory import load_experiment
from dballoc.cli.shared import campaign_on_hosts, experiment_from_flags
from dballoc.cli.shared.one_thread_for_numpy import one_thread_for_numpy
from dballoc.cli.shared.safe_output import say
from dballoc.cli.shared.size_and_duration_flags import duration
from dballoc.errors import UsageError
from dballoc.experiment import experiment_file
from dballoc.experiment.model import Experiment

if TYPE_CHECKING:
    from dballoc.campaign.looks import Extension


def run_bench(arguments: dict[str, Any]) -> None:
    """Print the experiment or the plan, or run the campaign. ``arguments``: the verb's, by name.
    UsageError for what cannot be run as asked.
    """
    out: Path | None = arguments["out"]
    if arguments["ray"] is not None:
        campaign_on_hosts.check_flags(arguments["extend"])
    extension = _plan_extension(arguments)
    model = load_experiment(out) if extension and out else _read_experiment(arguments)
    if arguments["print_"]:
        say(experiment_file.format_experiment(model).removesuffix("\n"))
        return
    preferred = _read_preference(arguments["prefer"], model)
    chosen_margin = preference.parse_margin(arguments["margin"])
    with one_thread_for_numpy():
        from dballoc.cli.bench_parts import bench_campaign

    setting = bench_campaign.prepare_setting(model, chosen_margin)
    if arguments["dry_run"]:
        bench_campaign.print_plan(setting, extension)
    elif arguments["ray"] is not None:
        directory = bench_campaign.choose_directory(out, setting)
        joined = campaign_on_hosts.join_cluster(arguments["ray"], setting, directory)
        with joined as (kind, fitting):
            bench_campaign.run_campaign(
                fitting, directory, preferred, arguments["report"], kind=kind
            )
    else:
        bench_campaign.run_campaign(setting, out, preferred, arguments["report"], extension)


def _plan_extension(arguments: dict[str, Any]) -> "Extension | None":
    """Return the extension that --extend asks for. UsageError if it cannot be had."""
    if arguments["extend"] is None:
        return None
    if arguments["out"] is None:
        raise UsageError("--extend: of which campaign? Give its results directory, --out DIR")
    beside = {"extend", "out", "prefer", "report", "dry_run", "print_"}
    changes = sorted(name for name, value in arguments.items() if value and name not in beside)
    if changes:
        raise UsageError(
            f"--extend: the experiment is that of --out, and cannot be changed by {changes[0]!r}; "
            "leave it out"
        )
    seconds = duration(arguments["extend"], "--extend")
    with one_thread_for_numpy():
        from dballoc.campaign.interim_looks import plan_extension
        from dballoc.cli.shared.campaign_display import minutes

    extension = plan_extension(arguments["out"], seconds)
    say(f"extending to {extension.words}, in about {minutes(extension.seconds)}")
    return extension


def _read_preference(text: str | None, model: Experiment) -> preference.Preference:
    """Return what --prefer asks for. UsageError if the experiment has no such thing."""
    preferred = preference.parse_preference(text)
    preference.check_preference(
        preferred, [v.name for v in model.variant], model.workloads, bool(model.time.idle)
    )
    return preferred


def _read_experiment(arguments: dict[str, Any]) -> Experiment:
    """Return the experiment that the verb's arguments describe."""
    record = experiment_from_flags.make_record_changes(arguments["record"], arguments["limit"])
    return experiment_from_flags.read_experiment(arguments, record)
