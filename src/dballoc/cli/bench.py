"""``dballoc bench``: run the comparison."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from dballoc.analysis import preference
from dballoc.campaign import estimate, prepare, run
from dballoc.campaign.directory import next_directory
from dballoc.cli import options, sources
from dballoc.cli.display import display, minutes
from dballoc.cli.report import Prefer
from dballoc.errors import Failure
from dballoc.experiment import file
from dballoc.experiment.cpus import format_cpus
from dballoc.report import terminal, write

INTERRUPTED = 130

ENDINGS = {
    "planned": "all planned blocks are done",
    "decided": "every comparison is decided",
    "budget": "the budget is used up",
    "interrupted": "interrupted; the same command resumes",
}


def bench(
    experiment: Annotated[Path | None, typer.Argument(metavar="FILE", help="An experiment file (TOML).")] = None,
    named: Annotated[
        str | None, typer.Option("--experiment", metavar="NAME", help="A shipped experiment; see dballoc list experiments.")
    ] = None,
    allocators: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="Allocators to compare; the first is the baseline, or glibc if it is one."),
    ] = None,
    like: Annotated[
        int | None,
        typer.Option(
            metavar="PID", min=1, help="A running server to take build, options, limits and the baseline's malloc from."
        ),
    ] = None,
    server: Annotated[str | None, typer.Option(metavar="NAME", help="Server family; see dballoc list servers.")] = None,
    basedir: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the server was unpacked or installed.")] = None,
    engine: Annotated[str | None, typer.Option(metavar="NAME", help="Storage engine: innodb, rocksdb, aria, myisam.")] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A my.cnf option of the server; may be given again.")
    ] = None,
    defaults_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A my.cnf: the server's options, below those of --option.")
    ] = None,
    login_path: Annotated[
        str | None, typer.Option(metavar="NAME", help="Login path that --like asks the server with, beside ~/.my.cnf.")
    ] = None,
    connect: Annotated[Literal["socket", "tcp"] | None, typer.Option(help="How the load reaches the server.")] = None,
    workloads: Annotated[
        str | None, typer.Option(metavar="W,W,…", help="Workloads of dballoc list workloads, or .lua and .sql files.")
    ] = None,
    threads: Annotated[str | None, typer.Option(metavar="N,N,…", help="Client threads, one level each.")] = None,
    load_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the sysbench script; may be given again.")
    ] = None,
    prepared: Annotated[bool | None, typer.Option("--prepared/--no-prepared", help="Server-side prepared statements.")] = None,
    design: Annotated[
        Literal["solo", "duet", "both"] | None,
        typer.Option(
            help="solo: one server at a time, for levels and memory. duet: two at once, swapped, for the cost of a "
            "transaction. Default: both, or solo alone on a machine that can play no duet."
        ),
    ] = None,
    levels: Annotated[
        Literal["rising", "fresh"] | None, typer.Option(help="All levels in one server start, or a fresh start for each.")
    ] = None,
    tables: Annotated[int | None, typer.Option(metavar="N", help="sysbench tables.")] = None,
    rows: Annotated[int | None, typer.Option(metavar="N", help="Rows of each table.")] = None,
    data_directory: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A server's data directory to run on copies of, instead of sysbench's tables."),
    ] = None,
    data_sql: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A dump or SQL script, .gz too, to make the data; may be given again."),
    ] = None,
    database: Annotated[str | None, typer.Option(metavar="NAME", help="The database that the load uses.")] = None,
    warmup: Annotated[str | None, typer.Option(metavar="TIME", help="Load before the first level, not measured.")] = None,
    level: Annotated[str | None, typer.Option(metavar="TIME", help="How long each level is measured.")] = None,
    idle: Annotated[str | None, typer.Option(metavar="TIME", help="Rest after the last level.")] = None,
    cpus: Annotated[int | None, typer.Option(metavar="N", help="Number of CPUs for server and client together.")] = None,
    server_cpus: Annotated[str | None, typer.Option(metavar="LIST", help='CPUs of the server, like "0-3".')] = None,
    client_cpus: Annotated[str | None, typer.Option(metavar="LIST", help='CPUs of the client, like "4-7".')] = None,
    memory: Annotated[str | None, typer.Option(metavar="SIZE", help="Memory limit of each server (a cgroup), like 2G.")] = None,
    blocks: Annotated[int | None, typer.Option(metavar="N", help="Blocks to run: each runs every variant once.")] = None,
    budget: Annotated[str | None, typer.Option(metavar="TIME", help="Time for the whole campaign, like 20m.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of the order of trials.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Results directory; default: under dballoc-results/.")] = None,
    prefer: Prefer = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, print trials, minutes, memory and disk, and stop.")
    ] = False,
    print_: Annotated[bool, typer.Option("--print", help="Print the experiment file that this is, and stop.")] = False,
) -> None:
    """Compare allocators under a real server. With no argument: the demo, ten minutes on two cores.

    The same command resumes what was interrupted. Flags are laid over the experiment file.
    """
    flags = {
        "allocators": options.words(allocators), "server.use": server, "server.basedir": str(basedir) if basedir else None,
        "server.engine": engine, "server.options": options.pairs(option, "--option"), "server.connect": connect,
        "workloads": options.words(workloads), "threads": options.numbers(threads, "--threads"), "levels": levels,
        "design": design,
        "load.options": options.pairs(load_option, "--load-option"), "load.prepared_statements": prepared,
        "data.tables": tables, "data.rows": rows, "data.directory": str(data_directory) if data_directory else None,
        "data.sql": [str(p) for p in data_sql] if data_sql else None, "data.database": database,
        "time.warmup": warmup, "time.level": level, "time.idle": idle,
        "cpu.count": cpus, "cpu.server": server_cpus, "cpu.client": client_cpus, "limits.memory": memory,
        "blocks": blocks, "budget": budget, "seed": seed,
    }  # fmt: skip
    layers = sources.layers(like, login_path, defaults_file, flags)
    model = options.experiment(experiment, named, flags, layers)
    if print_:
        print(file.dump(model), end="")
        return
    preferred = preference.parse(prefer)
    preference.check(preferred, [v.name for v in model.variant], model.workloads, bool(model.time.idle))
    setting = prepare.settle(model)
    if dry_run:
        _print_plan(setting)
        return
    directory = out or next_directory(Path("dballoc-results"), model)
    with display() as watcher:
        ending = run.run(setting, directory, watcher)
    console = Console()
    done = ", ".join(f"{number} {design_} blocks" for design_, number in ending.blocks.items())
    console.print(f"{ENDINGS[ending.why]} ({done})\n", highlight=False)
    if run.has_trials(directory):
        page = write(directory, preference=preferred)
        terminal.print_answer(console, directory, preferred)
        console.print(f"\nReport: {page}", soft_wrap=True, highlight=False)
    if ending.why == "interrupted":
        raise typer.Exit(INTERRUPTED)
    if ending.good_trials == 0:
        raise Failure("every trial ended in a fault; the report has what each server and client said")


def _print_plan(setting: prepare.Setting) -> None:
    plan = estimate.estimate(setting)
    blocks = " and ".join(f"{plan.blocks[d]} {d} blocks of {plan.trials_per_block[d]}" for d in plan.blocks)
    print(f"trials:  {plan.trials} ({blocks})")
    print(f"time:    about {minutes(plan.seconds)}, {plan.measured_share:.0%} of it measuring, warming up or idling on purpose")
    print(f"memory:  about {setting.memory_needed / 2**20:,.0f} MiB")
    print(f"disk:    about {setting.disk_needed / 2**20:,.0f} MiB in the cache")
    if setting.duet:
        halves = " and ".join(format_cpus(half) for half in setting.duet.halves)
        pilot = f"; a pilot of about {plan.pilot:.0f} s settles slices and blocks" if plan.pilot else ""
        print(f"duet:    CPUs {halves}, {setting.duet.threads} clients a side{pilot}")
    if setting.no_duet:
        print(f"no duet: {setting.no_duet}")
    for name, prepared in setting.variants.items():
        libraries = prepared.env.get("LD_PRELOAD", "no preload")
        title = " ".join(filter(None, [prepared.allocator.name, prepared.allocator.version]))
        print(f"variant: {name}: {prepared.build.title} {prepared.server.engine}, {title} ({libraries})")
