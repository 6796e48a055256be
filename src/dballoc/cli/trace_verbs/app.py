"""``dballoc trace``: its verbs."""

import typer

from dballoc.cli.trace_verbs import (
    anonymise,
    compile_,
    cut,
    import_foreign,
    info,
    repeat,
    verify,
)

app = typer.Typer(
    no_args_is_help=True, help="A process's recorded allocations: what is in them, and their files."
)

app.command("anonymise")(anonymise.anonymise)
app.command("compile")(compile_.compile_)
app.command("cut")(cut.cut)
app.command("import")(import_foreign.import_foreign)
app.command("info")(info.info)
app.command("repeat")(repeat.repeat)
app.command("verify")(verify.verify)
