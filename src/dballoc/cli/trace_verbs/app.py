"""``dballoc trace``: its verbs."""

import typer

from dballoc.cli.trace_verbs import info, make_trace

app = typer.Typer(
    no_args_is_help=True, help="A process's recorded allocations: what is in them, and their files."
)

app.command("anonymise")(make_trace.anonymise)
app.command("compile")(make_trace.compile_)
app.command("cut")(make_trace.cut)
app.command("import")(make_trace.import_foreign)
app.command("info")(info.info)
app.command("repeat")(make_trace.repeat)
app.command("verify")(info.verify)
