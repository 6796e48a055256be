"""``dballoc profile``: its verbs."""

import typer

from dballoc.cli import profile_contention, profile_diff, profile_export, profile_heap

app = typer.Typer(no_args_is_help=True, help="Which code allocates, grows, or waits inside malloc?")

app.command("contention")(profile_contention.contention)
app.command("diff")(profile_diff.diff)
app.command("export")(profile_export.export)
app.command("heap")(profile_heap.heap_)
