"""The command ``dballoc``: its verbs, and how each kind of error ends."""

import sys

import typer
from rich.console import Console

import dballoc
from dballoc.cli import aa, bench, compare, deploy, doctor, explain, fetch, fit, import_, list_, profile, report, verify
from dballoc.errors import Failure, UsageError

app = typer.Typer(
    name="dballoc", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="Which malloc should my MySQL-family server run on, and where does its memory go?",
)  # fmt: skip


def _version(asked: bool) -> None:
    if asked:
        print(f"dballoc {dballoc.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version and exit."),
) -> None:
    pass


app.command("aa")(aa.aa)
app.command("bench")(bench.bench)
app.command("compare")(compare.compare)
app.command("deploy")(deploy.deploy)
app.command("doctor")(doctor.doctor)
app.command("explain")(explain.explain)
app.command("fetch")(fetch.fetch)
app.command("fit")(fit.fit)
app.command("import")(import_.import_)
app.command("list")(list_.list_)
app.add_typer(profile.app, name="profile")
app.command("report")(report.report)
app.command("verify")(verify.verify)


# Typer's own errors about words of the command line. It has no public name for their base class.
_WordError: type[Exception] = typer.BadParameter.__mro__[2]


def main() -> None:
    """Run a verb. One line on stderr and exit status 2 (usage) or 1 (failure); 130 after Ctrl-C."""
    try:
        sys.exit(app(standalone_mode=False))
    except (UsageError, Failure) as error:
        _complain(str(error))
        sys.exit(error.exit_status)
    except _WordError as error:
        words: str = error.format_message()  # type: ignore[attr-defined]
        _complain(f"{words.rstrip('.')}; dballoc --help says more")
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)


def _complain(text: str) -> None:
    Console(stderr=True, soft_wrap=True, highlight=False).print(f"dballoc: {text}", markup=False)
