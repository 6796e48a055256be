"""The flags that name a running server, or another program, and how to connect with it."""

from typing import Annotated

import typer

Pid = Annotated[int | None, typer.Option(metavar="PID", help="The process.", min=1)]
Socket = Annotated[str | None, typer.Option(metavar="PATH", help="The server that listens there.")]
Service = Annotated[
    str | None, typer.Option(metavar="UNIT", help="The main process of a systemd unit.")
]
LoginPath = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Login path to connect with, besides ~/.my.cnf."),
]
