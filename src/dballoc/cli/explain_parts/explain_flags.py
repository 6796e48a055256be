"""The flags of ``dballoc explain``, each with its help text."""

from pathlib import Path
from typing import Annotated

import typer

NoSql = Annotated[bool, typer.Option("--no-sql", help="Do not connect to the server.")]
Procedure = Annotated[
    bool,
    typer.Option(
        "--procedure",
        help="Add what one would look up by hand: variables, counters, InnoDB's and "
        "performance_schema's own figures, sessions, process and host.",
    ),
]
Event = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="With --procedure: of what accounts have allocated and freed, this memory instrument "
        "alone, like memory/sql/JOIN_CACHE; % stands for any characters.",
    ),
]
Account = Annotated[
    str | None,
    typer.Option(
        metavar="USER",
        help="With --procedure: the same of this account alone, USER or USER@HOST.",
    ),
]
All = Annotated[
    bool,
    typer.Option(
        "--all",
        help="Show the lines under 1 % of RSS too, the users of each, what is behind each notice, "
        "and all of what the configuration allows.",
    ),
]
Sources = Annotated[
    bool, typer.Option("--sources", help="Add each line's size, and where its figure is from.")
]
Json = Annotated[
    bool, typer.Option("--json", help="Print the ledger and what it means as JSON, bytes.")
]
Openmetrics = Annotated[
    bool, typer.Option("--openmetrics", help="Print OpenMetrics text, for a scraper.")
]
Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a self-contained page.")]
Save = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Save this snapshot, for --diff and --from; gzip if it ends in .gz."
    ),
]
From = Annotated[
    Path | None,
    typer.Option(
        "--from", metavar="FILE", help="Show a saved snapshot or series, instead of a live server."
    ),
]
Diff = Annotated[
    tuple[Path, Path] | None,
    typer.Option(
        metavar="A B",
        help="Print what grew between two saved snapshots; of a series, A is its first snapshot "
        "and B its last.",
    ),
]
Watch = Annotated[
    bool, typer.Option("--watch", help="Take snapshots again and again; q or Ctrl-C ends it.")
]
Every = Annotated[
    str,
    typer.Option(
        metavar="TIME", help="With --watch or --listen: time between snapshots, but see --cpu."
    ),
]
For = Annotated[
    str | None,
    typer.Option("--for", metavar="TIME", help="With --watch: end it after that, like 10m."),
]
Cpu = Annotated[
    float,
    typer.Option(
        metavar="PERCENT",
        help="With --watch or --listen: the most of one CPU that snapshots may use.",
        min=0.01,
        max=100,
    ),
]
SaveSeries = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="With --watch: save every snapshot, a line of JSON each."),
]
Listen = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Serve OpenMetrics for Prometheus at ADDRESS: 127.0.0.1:9109, or unix:/PATH. Another "
        "address than loopback needs the next three.",
    ),
]
TlsCert = Annotated[
    Path | None, typer.Option(metavar="FILE", help="With --listen: certificate, for HTTPS.")
]
TlsKey = Annotated[
    Path | None, typer.Option(metavar="FILE", help="With --listen: its private key.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="With --listen: a file with the token that a scraper must send."
    ),
]
RunAs = Annotated[
    str | None,
    typer.Option(
        metavar="USER",
        help="With --listen, as root: become USER, and keep only the rights to read processes. "
        "[default: nobody]",
        show_default=False,
    ),
]
InstallFunction = Annotated[
    bool,
    typer.Option(
        "--install-function",
        help="Load a function into the server that returns its malloc's statistics.",
    ),
]
RemoveFunction = Annotated[
    bool, typer.Option("--remove-function", help="Remove that function from the server.")
]
Trim = Annotated[
    bool, typer.Option("--trim", help="Make the server's malloc return free memory to the kernel.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before one of these three.")]
