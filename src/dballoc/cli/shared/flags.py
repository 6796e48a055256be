"""The flags that several verbs have, each with its one help text."""

from pathlib import Path
from typing import Annotated

import typer

from dballoc.experiment.designs import DesignChoice

File = Annotated[Path | None, typer.Argument(metavar="FILE", help="An experiment file (TOML).")]
Named = Annotated[
    str | None,
    typer.Option(
        "--experiment",
        metavar="NAME",
        help="A shipped experiment; see dballoc list experiments.",
    ),
]
Scale = Annotated[
    str | None,
    typer.Option(
        metavar="small|SHARE",
        help="Make the experiment smaller: this share of rows and memory, shorter times, fewer "
        "clients, and this machine's CPUs.",
    ),
]
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
LikeLoginPath = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Login path with which --like connects, besides ~/.my.cnf."),
]
Server = Annotated[
    str | None, typer.Option(metavar="NAME[@VERSION]", help="Server; see dballoc list servers.")
]
Basedir = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Where the server was unpacked or installed.")
]
Engine = Annotated[
    str | None, typer.Option(metavar="NAME", help="Storage engine: innodb, rocksdb, aria, myisam.")
]
ServerOptions = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="A my.cnf option of the server; may be given again."),
]
Allocators = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,…",
        help="Allocators to compare; the baseline is glibc if it is one of them, else the first.",
    ),
]
Sweeps = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[VARIANT:]NAME=V,V,…",
        help="A variant for each value of a setting, of the baseline or of VARIANT: in env "
        "(MALLOC_ARENA_MAX=1,cores), in "
        "tunables (jemalloc:narenas=1,cores/2) or of the server "
        "(server.innodb_buffer_pool_size=1G,2G); may be given again.",
    ),
]
Workloads = Annotated[
    str | None,
    typer.Option(
        metavar="W,W,…", help="Names from dballoc list workloads, or .lua and .sql files."
    ),
]
Threads = Annotated[
    str | None, typer.Option(metavar="N,N,…", help="Client threads, one level each.")
]
Design = Annotated[
    DesignChoice | None,
    typer.Option(
        help="solo: one server at a time, for levels and memory. duet: two at once, swapped, for "
        "the cost of a "
        "transaction. Default: both, or only solo on a machine that cannot run a duet."
    ),
]
Tables = Annotated[int | None, typer.Option(metavar="N", help="sysbench tables.")]
Rows = Annotated[int | None, typer.Option(metavar="N", help="Rows of each table.")]
Warmup = Annotated[
    str | None, typer.Option(metavar="TIME", help="Load before the first level, not measured.")
]
Level = Annotated[str | None, typer.Option(metavar="TIME", help="How long each level is measured.")]
Idle = Annotated[str | None, typer.Option(metavar="TIME", help="Rest after the last level.")]
Cpus = Annotated[
    int | None, typer.Option(metavar="N", help="Number of CPUs for server and client together.")
]
Memory = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Memory limit of each server (a cgroup), like 2G."),
]
Blocks = Annotated[
    int | None, typer.Option(metavar="N", help="Blocks to run: each runs every variant once.")
]
RepeatNoisy = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="How often a block that other work disturbed is measured again."
    ),
]
Budget = Annotated[
    str | None, typer.Option(metavar="TIME", help="Time for the whole campaign, like 20m.")
]
Prefer = Annotated[
    str | None,
    typer.Option(
        metavar="memory|speed|CONDITION,…",
        help="What comes first: memory (the default) or speed, where a variant is better in one "
        "and no worse in the other; or conditions that it must be shown to keep to, like "
        "'p99<=1.05,rss<=1.1', which take the margin's place. With conditions no campaign ends "
        "with a choice between a gain and a loss.",
    ),
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Seed of the order of trials.")]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Results directory; default: under dballoc-results/."),
]
Report = Annotated[bool, typer.Option("--report/--no-report", help="Write the report at the end.")]
PrintFile = Annotated[
    bool, typer.Option("--print", help="Print the equivalent experiment file, and stop.")
]
Redact = Annotated[
    bool, typer.Option("--redact", help="Replace names of host and users, and paths.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
