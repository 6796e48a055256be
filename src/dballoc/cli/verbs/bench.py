"""``dballoc bench``: run the comparison."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from dballoc.cli.shared import flags

Connect = Annotated[
    Literal["socket", "tcp", "tls"] | None,
    typer.Option(help="How the load reaches the server; tls: TCP, encrypted."),
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
ServerCpus = Annotated[
    str | None, typer.Option(metavar="LIST", help='CPUs of the server, like "0-3".')
]
ClientCpus = Annotated[
    str | None, typer.Option(metavar="LIST", help='CPUs of the client, like "4-7".')
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
    typer.Option(metavar="SIZE", help="With --record: of the raw recording; default: 512M."),
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
    like: flags.Like = None,
    server: flags.Server = None,
    basedir: flags.Basedir = None,
    engine: flags.Engine = None,
    option: flags.ServerOptions = None,
    defaults_file: flags.DefaultsFile = None,
    login_path: flags.LikeLoginPath = None,
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
    cpus: flags.Cpus = None,
    server_cpus: ServerCpus = None,
    client_cpus: ClientCpus = None,
    memory: flags.Memory = None,
    profile: Profiled = None,
    profile_at: ProfileAt = None,
    record: Recorded = False,
    limit: RecordLimit = None,
    no_counters: NoCounters = False,
    blocks: flags.Blocks = None,
    repeat_noisy: flags.RepeatNoisy = None,
    budget: flags.Budget = None,
    extend: Extend = None,
    seed: flags.Seed = None,
    out: flags.Out = None,
    ray: Ray = None,
    prefer: flags.Prefer = None,
    margin: Margin = None,
    report: flags.Report = True,
    dry_run: DryRun = False,
    print_: flags.PrintFile = False,
) -> None:
    """Compare allocators under a real server. With no argument: the demo, ten minutes on two cores.

    The same command resumes what was interrupted. Flags are laid over the experiment file.
    """
    arguments = dict(locals())
    from dballoc.cli.bench_parts.run_bench import run_bench  # here: --help needs none of it

    run_bench(arguments)
