"""Carry out what a command line of ``dballoc bench`` asks for.

What measures is imported when something is to be measured: it takes most of a second, and --print
and most refusals need none of it.
"""

from typing import TYPE_CHECKING

from dballoc.campaign.results_directory import load_experiment
from dballoc.cli.bench_parts.bench_flags import Run
from dballoc.cli.extras import require_extra
from dballoc.cli.shared import campaign_on_hosts, experiment_from_flags
from dballoc.cli.shared.field_flags import Changes, name_flag
from dballoc.cli.shared.flags import ExperimentSource
from dballoc.cli.shared.one_thread_for_numpy import one_thread_for_numpy
from dballoc.cli.shared.safe_output import say
from dballoc.cli.shared.size_and_duration_flags import duration
from dballoc.experiment import experiment_file
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import UsageError

if TYPE_CHECKING:
    from dballoc.campaign.looks import Extension


def run_bench(source: ExperimentSource, changes: Changes, run: Run) -> None:
    """Print the experiment or the plan, or run the campaign. Raises UsageError for what cannot be
    run as asked.
    """
    if run.measure_only:
        _check_measuring(run)
    if run.ray is not None:
        campaign_on_hosts.check_flags(run.extend)
    extension = _plan_extension(source, changes, run)
    if extension and run.out:
        model = load_experiment(run.out)
    else:
        record = experiment_from_flags.make_record_changes(run.record, run.limit)
        model = experiment_from_flags.read_experiment(source, changes | record, out=run.out)
    if run.print_:
        say(experiment_file.format_experiment(model).removesuffix("\n"))
        return
    if model.record is not None:
        require_extra("bench", "dballoc bench --record")
    with one_thread_for_numpy():
        from dballoc.cli.bench_parts import bench_campaign

    preferred = bench_campaign.read_preference(run.prefer, model)
    setting = bench_campaign.prepare_setting(model, run.margin)
    if run.dry_run:
        bench_campaign.print_plan(setting, extension)
    elif run.measure_only:
        bench_campaign.measure_campaign(setting, run.out)
    elif run.ray is not None:
        directory = bench_campaign.choose_directory(run.out, setting)
        joined = campaign_on_hosts.join_cluster(run.ray, setting, directory)
        with joined as (kind, fitting):
            bench_campaign.run_campaign(fitting, directory, preferred, run.report, kind=kind)
    else:
        bench_campaign.run_campaign(setting, run.out, preferred, run.report, extension)


def _check_measuring(run: Run) -> None:
    """Raise UsageError for a flag that makes no sense where nothing is judged."""
    if run.extend is not None:
        raise UsageError(
            "--extend: not with --measure-only, whose results are judged once; run the experiment "
            "with more blocks in a new --out"
        )
    if run.prefer is not None:
        raise UsageError("--prefer: not with --measure-only; give it to dballoc report")
    if run.ray is not None:
        raise UsageError("--ray: not with --measure-only; leave out one of the two")


def _plan_extension(source: ExperimentSource, changes: Changes, run: Run) -> "Extension | None":
    """Return the extension of --extend. Raises UsageError if none is possible."""
    if run.extend is None:
        return None
    if run.out is None:
        raise UsageError("--extend: give the results directory of the campaign, --out DIR")
    beside = {"extend", "out", "design", "prefer", "report", "dry_run", "print_"}
    of_experiment = {name_flag(Experiment, key): value for key, value in changes.items()}
    written = {**vars(source), **of_experiment, **vars(run)}
    if changed := sorted(name for name, value in written.items() if value and name not in beside):
        raise UsageError(
            f"--extend: the campaign of --out keeps its experiment; leave out {changed[0]!r}"
        )
    seconds = duration(run.extend, "--extend")
    with one_thread_for_numpy():
        from dballoc.campaign.plan_extension import plan_extension
        from dballoc.cli.shared.campaign_display import minutes

    extension = plan_extension(run.out, seconds, changes.get("design"))
    say(f"extending to {extension.words}, in about {minutes(extension.seconds)}")
    return extension
