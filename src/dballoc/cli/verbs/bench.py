"""``dballoc bench``: run the comparison."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dballoc.allocators import host_requirements
from dballoc.analysis.decisions import preference
from dballoc.campaign import duration_estimate
from dballoc.campaign.extension import Extension, plan_extension
from dballoc.campaign.preparation import prepare
from dballoc.campaign.results_directory import choose_results_directory, load_experiment
from dballoc.campaign.run_blocks import SERVERS, CampaignKind
from dballoc.cli.results_verbs.report import Prefer
from dballoc.cli.shared import (
    campaign_on_hosts,
    experiment_from_flags,
    flags,
    perform_campaign,
    server_options_sources,
)
from dballoc.cli.shared.campaign_display import minutes
from dballoc.cli.shared.safe_output import Console, say
from dballoc.cli.shared.size_and_duration_flags import duration
from dballoc.errors import UsageError
from dballoc.experiment import experiment_file
from dballoc.experiment.cpu_list import format_cpus
from dballoc.experiment.model import Experiment
from dballoc.report.outputs import terminal

Like = Annotated[
    int | None,
    typer.Option(
        metavar="PID",
        min=1,
        help="Take build, options, limits and the baseline's malloc from this running server.",
    ),
]
DefaultsFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A my.cnf: the server's options, below those of --option."),
]
LoginPath = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Login path with which --like connects, besides ~/.my.cnf."),
]
Connect = Annotated[
    Literal["socket", "tcp"] | None, typer.Option(help="How the load reaches the server.")
]
LoadOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE", help="An option of the sysbench script; may be given again."
    ),
]
Prepared = Annotated[
    bool | None,
    typer.Option("--prepared/--no-prepared", help="Server-side prepared statements."),
]
Levels = Annotated[
    Literal["rising", "fresh"] | None,
    typer.Option(help="All levels in one server start, or a fresh start for each."),
]
Sequence = Annotated[
    Literal["cycle", "fresh"] | None,
    typer.Option(
        help="All workloads in one server start, or a fresh start and copy of the data for each."
    ),
]
DataDirectory = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="A server's data directory to run on copies of, instead of sysbench's tables.",
    ),
]
DataSql = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="A dump or SQL script, .gz too, to make the data; may be given again.",
    ),
]
Database = Annotated[
    str | None, typer.Option(metavar="NAME", help="The database that the load uses.")
]
Cpus = Annotated[
    int | None, typer.Option(metavar="N", help="Number of CPUs for server and client together.")
]
ServerCpus = Annotated[
    str | None, typer.Option(metavar="LIST", help='CPUs of the server, like "0-3".')
]
ClientCpus = Annotated[
    str | None, typer.Option(metavar="LIST", help='CPUs of the client, like "4-7".')
]
Memory = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Memory limit of each server (a cgroup), like 2G."),
]
Profiled = Annotated[
    Literal["contention", "heap", "none"] | None,
    typer.Option(
        help="Also profile each variant once, outside what is measured. contention: what its "
        "threads wait for. heap: which code holds its memory, and how long its mallocs take. none: "
        "nothing, whatever the experiment says."
    ),
]
ProfileAt = Annotated[
    str | None,
    typer.Option(
        metavar="[WORKLOAD][:CLIENTS]",
        help="Profile under this workload and level alone, like oltp_read_only:512; without it, "
        "under every workload at the highest level.",
    ),
]
Recorded = Annotated[
    bool,
    typer.Option(
        "--record",
        help="Also record every allocation of the baseline, in a start of its own, as a trace for "
        "dballoc replay.",
    ),
]
RecordLimit = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="With --record: of the raw recording; default: 4G."),
]
NoCounters = Annotated[
    bool,
    typer.Option(
        "--no-counters",
        help="Do not count the server's instructions and cycles, which bench does where the host "
        "can.",
    ),
]
Margin = Annotated[
    str | None,
    typer.Option(
        metavar="PERCENT",
        help="What a variant may lose and still count as no worse: 3% unless given. Stored before "
        "the first block.",
    ),
]
Extend = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Go on with the finished campaign in --out, as far as the last of its declared looks "
        "that is reached in this time, like 20m. Give no experiment: the directory has it.",
    ),
]
Ray = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Run the blocks on the hosts of this Ray cluster instead of here: its nodes with the "
        "resource dballoc_server; with nodes that have dballoc_client, the load comes from those.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Check everything, print trials, minutes, memory and disk, and stop."
    ),
]


def bench(
    experiment: flags.File = None,
    named: flags.Named = None,
    scale: flags.Scale = None,
    allocators: flags.Allocators = None,
    sweep: flags.Sweeps = None,
    like: Like = None,
    server: flags.Server = None,
    basedir: flags.Basedir = None,
    engine: flags.Engine = None,
    option: flags.ServerOptions = None,
    defaults_file: DefaultsFile = None,
    login_path: LoginPath = None,
    connect: Connect = None,
    workloads: flags.Workloads = None,
    threads: flags.Threads = None,
    load_option: LoadOption = None,
    prepared: Prepared = None,
    design: flags.Design = None,
    levels: Levels = None,
    sequence: Sequence = None,
    tables: flags.Tables = None,
    rows: flags.Rows = None,
    data_directory: DataDirectory = None,
    data_sql: DataSql = None,
    database: Database = None,
    warmup: flags.Warmup = None,
    level: flags.Level = None,
    idle: flags.Idle = None,
    cpus: Cpus = None,
    server_cpus: ServerCpus = None,
    client_cpus: ClientCpus = None,
    memory: Memory = None,
    profile: Profiled = None,
    profile_at: ProfileAt = None,
    record: Recorded = False,
    limit: RecordLimit = None,
    no_counters: NoCounters = False,
    blocks: flags.Blocks = None,
    budget: flags.Budget = None,
    extend: Extend = None,
    seed: flags.Seed = None,
    out: flags.Out = None,
    ray: Ray = None,
    prefer: Prefer = None,
    margin: Margin = None,
    report: flags.Report = True,
    dry_run: DryRun = False,
    print_: flags.PrintFile = False,
) -> None:
    """Compare allocators under a real server. With no argument: the demo, ten minutes on two cores.

    The same command resumes what was interrupted. Flags are laid over the experiment file.
    """
    _bench(locals())


def _bench(arguments: dict[str, Any]) -> None:
    """Do what the verb's arguments ask for."""
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
    setting = replace(prepare.prepare_campaign(model), margin=chosen_margin)
    if arguments["dry_run"]:
        _print_plan(setting)
    elif arguments["ray"] is not None:
        directory = _choose_directory(out, setting)
        joined = campaign_on_hosts.join_cluster(arguments["ray"], setting, directory)
        with joined as (kind, fitting):
            _run(fitting, directory, preferred, arguments["report"], kind=kind)
    else:
        _run(setting, out, preferred, arguments["report"], extension)


def _plan_extension(arguments: dict[str, Any]) -> Extension | None:
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
    extension = plan_extension(arguments["out"], duration(arguments["extend"], "--extend"))
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
    file, shipped, scale = (arguments[name] for name in ("experiment", "named", "scale"))
    changes = experiment_from_flags.changes_of(arguments)
    changes |= experiment_from_flags.make_record_changes(arguments["record"], arguments["limit"])
    layers = server_options_sources.layers(
        arguments["like"], arguments["login_path"], arguments["defaults_file"], changes
    )
    if scale is not None:
        layers.insert(0, experiment_from_flags.make_scale_layer(scale, file, shipped or "demo"))
    return experiment_from_flags.experiment(file, shipped, changes, layers)


def _choose_directory(out: Path | None, setting: prepare.PreparedCampaign) -> Path:
    return out or choose_results_directory(Path("dballoc-results"), setting.experiment)


def _run(
    setting: prepare.PreparedCampaign,
    out: Path | None,
    preferred: preference.Preference,
    report: bool,
    extension: Extension | None = None,
    kind: CampaignKind = SERVERS,
) -> None:
    directory = _choose_directory(out, setting)
    console = Console()

    def show() -> None:
        terminal.print_answer(console, directory, preferred)

    perform_campaign.perform(
        setting,
        directory,
        show,
        console,
        preference=preferred,
        report=report,
        extension=extension,
        kind=kind,
    )


def _print_plan(setting: prepare.PreparedCampaign) -> None:
    plan = duration_estimate.estimate_duration(setting)
    blocks = " and ".join(
        f"{plan.blocks[d]} {d} blocks of {plan.trials_per_block[d]}" for d in plan.blocks
    )
    say(f"trials:  {plan.trials} ({blocks})")
    say(
        f"time:    about {minutes(plan.seconds)}, {plan.measured_share:.0%} of it measuring, "
        "warming up or idling on purpose"
    )
    say(f"memory:  about {setting.memory_needed / 2**20:,.0f} MiB")
    say(f"disk:    about {setting.disk_needed / 2**20:,.0f} MiB in the cache")
    if setting.duet:
        halves = " and ".join(format_cpus(half) for half in setting.duet.halves)
        pilot = (
            f"; a pilot of about {plan.pilot:.0f} s sets slices and blocks" if plan.pilot else ""
        )
        say(f"duet:    CPUs {halves}, {setting.duet.threads} clients a side{pilot}")
    if setting.no_duet:
        say(f"no duet: {setting.no_duet}")
    if setting.experiment.counters:
        events = ", ".join(event.name for event in setting.countable.events) or "none"
        say("; ".join(filter(None, [f"counts:  {events}", setting.countable.refusal])))
    for name, prepared in setting.variants.items():
        libraries = prepared.env.get("LD_PRELOAD", "no preload")
        title = " ".join(filter(None, [prepared.allocator.name, prepared.allocator.version]))
        # What dballoc sets by itself, beside what the variant says.
        by_variant = host_requirements.find_rseq_setting(prepared.variant.env)
        rseq = None if by_variant else host_requirements.find_rseq_setting(prepared.env)
        values = {
            **prepared.variant.tunables,
            **prepared.variant.env,
            **({host_requirements.RSEQ: rseq} if rseq else {}),
            **prepared.variant.server.options,
        }
        settings = "".join(f", {key}={value}" for key, value in values.items())
        say(
            f"variant: {name}: {prepared.build.title} {prepared.server.engine}, {title} "
            f"({libraries}){settings}"
        )
