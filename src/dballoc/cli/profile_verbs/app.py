"""``dballoc profile``: its verbs."""

import typer

from dballoc.cli.profile_verbs import contention, diff, export, heap, massif

app = typer.Typer(no_args_is_help=True, help="Which code allocates, grows, or waits inside malloc?")

app.command("contention")(contention.contention)
app.command("diff")(diff.diff)
app.command("export")(export.export)
app.command("heap")(heap.heap_)
app.command("massif")(massif.massif)
