"""``dballoc kit``: its verbs."""

import typer

from dballoc.cli.kit_verbs import make

app = typer.Typer(
    no_args_is_help=True,
    help="One file that measures on a machine without network and packages.",
)


@app.callback()
def _kit() -> None:
    pass  # a group, though it has one verb


app.command("make")(make.make)
