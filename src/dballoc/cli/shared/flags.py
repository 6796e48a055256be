"""The flags that several verbs have, each with its one help text."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer


@dataclass(frozen=True, kw_only=True)
class ExperimentSource:
    """What an experiment is made from, before the flags of its own fields: a file or a shipped
    experiment, variants, and the server whose options it takes.
    """

    experiment: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="An experiment file (TOML).")
    ] = None
    named: Annotated[
        str | None,
        typer.Option(
            "--experiment",
            metavar="NAME",
            help="A shipped experiment; see dballoc list experiments.",
        ),
    ] = None
    scale: Annotated[
        str | None,
        typer.Option(
            metavar="small|SHARE",
            help="Make the experiment smaller: this share of rows and memory, shorter times, fewer "
            "clients, and this machine's CPUs.",
        ),
    ] = None
    allocators: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help="Allocators to compare, by name or by the path of a library; the baseline is "
            "glibc if it is one of them, else the first.",
        ),
    ] = None
    preload: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A malloc of your own beside the others, like ./libmine.so; may be given again.",
        ),
    ] = None
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[VARIANT:]NAME=V,V,…",
            help="A variant for each value of a setting, of the baseline or of VARIANT: in env "
            "(MALLOC_ARENA_MAX=1,cores), in "
            "tunables (jemalloc:narenas=1,cores/2) or of the server "
            "(server.innodb_buffer_pool_size=1G,2G); may be given again.",
        ),
    ] = None
    like: Annotated[
        int | None,
        typer.Option(
            metavar="PID",
            min=1,
            help="Take build, options, limits and the baseline's malloc from this running server.",
        ),
    ] = None
    defaults_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A my.cnf: the server's options, below those of --option."
        ),
    ] = None
    login_path: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Login path with which --like connects, besides ~/.my.cnf."
        ),
    ] = None


# The names of fields that several verbs take.
SERVER = ("server.use", "server.basedir", "server.engine", "server.options")
TABLES = ("data.tables", "data.rows")

Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Results directory; default: under dballoc-results/."),
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
Report = Annotated[bool, typer.Option("--report/--no-report", help="Write the report at the end.")]
PrintFile = Annotated[
    bool, typer.Option("--print", help="Print the equivalent experiment file, and stop.")
]
Redact = Annotated[
    bool, typer.Option("--redact", help="Replace names of host and users, and paths.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
