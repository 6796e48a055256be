"""``dballoc bench``: run the comparison."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from dballoc.analysis.decisions import recommendation_rule
from dballoc.campaign import duration_estimate
from dballoc.campaign.preparation import prepare
from dballoc.campaign.results_directory import next_directory
from dballoc.cli.shared import experiment_options, flags, perform_campaign, server_options_sources
from dballoc.cli.shared.campaign_display import minutes
from dballoc.cli.shared.safe_output import Console, say
from dballoc.cli.verbs.report import Prefer
from dballoc.experiment import experiment_file
from dballoc.experiment import scale as scaling
from dballoc.experiment.cpu_list import format_cpus
from dballoc.host.resources import cpus as host_cpus
from dballoc.report.outputs import terminal


def bench(
    experiment: flags.File = None,
    named: Annotated[
        str | None,
        typer.Option(
            "--experiment",
            metavar="NAME",
            help="A shipped experiment; see dballoc list experiments.",
        ),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            metavar="small|SHARE",
            help="Make it smaller: this share of rows and memory, shorter times, fewer clients, "
            "the CPUs that are here.",
        ),
    ] = None,
    allocators: flags.Allocators = None,
    sweep: flags.Sweeps = None,
    like: Annotated[
        int | None,
        typer.Option(
            metavar="PID",
            min=1,
            help="A running server to take build, options, limits and the baseline's malloc from.",
        ),
    ] = None,
    server: flags.Server = None,
    basedir: flags.Basedir = None,
    engine: flags.Engine = None,
    option: flags.ServerOptions = None,
    defaults_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A my.cnf: the server's options, below those of --option."
        ),
    ] = None,
    login_path: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Login path that --like asks the server with, beside ~/.my.cnf."
        ),
    ] = None,
    connect: Annotated[
        Literal["socket", "tcp"] | None, typer.Option(help="How the load reaches the server.")
    ] = None,
    workloads: flags.Workloads = None,
    threads: flags.Threads = None,
    load_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="An option of the sysbench script; may be given again."
        ),
    ] = None,
    prepared: Annotated[
        bool | None,
        typer.Option("--prepared/--no-prepared", help="Server-side prepared statements."),
    ] = None,
    design: flags.Design = None,
    levels: Annotated[
        Literal["rising", "fresh"] | None,
        typer.Option(help="All levels in one server start, or a fresh start for each."),
    ] = None,
    sequence: Annotated[
        Literal["cycle", "fresh"] | None,
        typer.Option(
            help="All workloads in one server start, or a fresh start and copy of the data for "
            "each."
        ),
    ] = None,
    tables: flags.Tables = None,
    rows: flags.Rows = None,
    data_directory: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="A server's data directory to run on copies of, instead of sysbench's tables.",
        ),
    ] = None,
    data_sql: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A dump or SQL script, .gz too, to make the data; may be given again.",
        ),
    ] = None,
    database: Annotated[
        str | None, typer.Option(metavar="NAME", help="The database that the load uses.")
    ] = None,
    warmup: flags.Warmup = None,
    level: flags.Level = None,
    idle: flags.Idle = None,
    cpus: Annotated[
        int | None, typer.Option(metavar="N", help="Number of CPUs for server and client together.")
    ] = None,
    server_cpus: Annotated[
        str | None, typer.Option(metavar="LIST", help='CPUs of the server, like "0-3".')
    ] = None,
    client_cpus: Annotated[
        str | None, typer.Option(metavar="LIST", help='CPUs of the client, like "4-7".')
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Memory limit of each server (a cgroup), like 2G."),
    ] = None,
    profile: Annotated[
        Literal["contention", "heap"] | None,
        typer.Option(
            help="Profile each variant once, beside what is measured. contention: what its threads "
            "wait for. heap: which code "
            "holds its memory, and how long its mallocs take."
        ),
    ] = None,
    blocks: flags.Blocks = None,
    budget: flags.Budget = None,
    seed: flags.Seed = None,
    out: flags.Out = None,
    prefer: Prefer = None,
    report: flags.Report = True,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Check everything, print trials, minutes, memory and disk, and stop."
        ),
    ] = False,
    print_: Annotated[
        bool, typer.Option("--print", help="Print the experiment file that this is, and stop.")
    ] = False,
) -> None:
    """Compare allocators under a real server. With no argument: the demo, ten minutes on two cores.

    The same command resumes what was interrupted. Flags are laid over the experiment file.
    """
    given = {
        "allocators": experiment_options.words(allocators),
        "sweep": experiment_options.sweeps(sweep),
        "server.use": server,
        "server.basedir": str(basedir) if basedir else None,
        "server.engine": engine,
        "server.options": experiment_options.pairs(option, "--option"),
        "server.connect": connect,
        "workloads": experiment_options.words(workloads),
        "threads": experiment_options.numbers(threads, "--threads"),
        "levels": levels,
        "sequence": sequence,
        "design": design,
        "load.options": experiment_options.pairs(load_option, "--load-option"),
        "load.prepared_statements": prepared,
        "data.tables": tables,
        "data.rows": rows,
        "data.directory": str(data_directory) if data_directory else None,
        "data.sql": [str(p) for p in data_sql] if data_sql else None,
        "data.database": database,
        "time.warmup": warmup,
        "time.level": level,
        "time.idle": idle,
        "cpu.count": cpus,
        "cpu.server": server_cpus,
        "cpu.client": client_cpus,
        "limits.memory": memory,
        "profile": profile,
        "blocks": blocks,
        "budget": budget,
        "seed": seed,
    }
    layers = server_options_sources.layers(like, login_path, defaults_file, given)
    if scale is not None:
        origin = str(experiment or f"experiment {named or 'demo'}")
        layers.insert(
            0, partial(scaling.lay, text=scale, have=host_cpus.available(), origin=origin)
        )
    model = experiment_options.experiment(experiment, named, given, layers)
    if print_:
        say(experiment_file.dump(model).removesuffix("\n"))
        return
    preferred = recommendation_rule.parse(prefer)
    recommendation_rule.check(
        preferred, [v.name for v in model.variant], model.workloads, bool(model.time.idle)
    )
    setting = prepare.settle(model)
    if dry_run:
        _print_plan(setting)
        return
    directory = out or next_directory(Path("dballoc-results"), model)
    console = Console()

    def show() -> None:
        terminal.print_answer(console, directory, preferred)

    perform_campaign.perform(setting, directory, show, console, preferred, report)


def _print_plan(setting: prepare.Setting) -> None:
    plan = duration_estimate.estimate(setting)
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
            f"; a pilot of about {plan.pilot:.0f} s settles slices and blocks" if plan.pilot else ""
        )
        say(f"duet:    CPUs {halves}, {setting.duet.threads} clients a side{pilot}")
    if setting.no_duet:
        say(f"no duet: {setting.no_duet}")
    for name, prepared in setting.variants.items():
        libraries = prepared.env.get("LD_PRELOAD", "no preload")
        title = " ".join(filter(None, [prepared.allocator.name, prepared.allocator.version]))
        own = {
            **prepared.variant.tunables,
            **prepared.variant.env,
            **prepared.variant.server.options,
        }
        settings = "".join(f", {key}={value}" for key, value in own.items())
        say(
            f"variant: {name}: {prepared.build.title} {prepared.server.engine}, {title} "
            f"({libraries}){settings}"
        )
