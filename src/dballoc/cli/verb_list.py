"""List the verbs of ``dballoc``, and make an application of those that are called. Importing all of
them takes seconds, most of it for polars, scipy and numpy, which a verb like ``verify`` does not
need.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import typer

import dballoc

# For each verb: its module in ``verbs/``, or in the room that is named, and the name of its
# function or application there.
VERBS = {
    "aa": ("aa", "aa"),
    "bench": ("bench", "bench"),
    "combine": ("results_verbs.combine", "combine"),
    "compare": ("results_verbs.compare", "compare"),
    "deploy": ("results_verbs.deploy", "deploy"),
    "doctor": ("doctor", "doctor"),
    "exec": ("exec_", "exec_"),
    "explain": ("explain", "explain"),
    "fetch": ("fetch", "fetch"),
    "fit": ("search_verbs.fit", "fit"),
    "import": ("results_verbs.import_", "import_"),
    "list": ("list_", "list_"),
    "profile": ("profile_verbs.app", "app"),
    "record": ("record", "record"),
    "replay": ("replay", "replay"),
    "report": ("results_verbs.report", "report"),
    "trace": ("trace_verbs.app", "app"),
    "tune": ("search_verbs.tune", "tune"),
    "verify": ("verify", "verify"),
}
_SETTINGS: dict[str, dict[str, Any]] = {
    "exec": {"allow_interspersed_args": False}
}  # what follows the program is its own


def application(verbs: Iterable[str] = VERBS) -> typer.Typer:
    """Make a command line of these verbs."""
    app = typer.Typer(
        name="dballoc", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
        help="Which malloc should my MySQL-family server run on, and where does its memory go?",
    )  # fmt: skip
    app.callback()(_root)
    for verb in verbs:
        module, name = VERBS[verb]
        place = module if "." in module else f"verbs.{module}"
        command = getattr(import_module(f"dballoc.cli.{place}"), name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=verb)
        else:
            app.command(verb, context_settings=_SETTINGS.get(verb))(command)
    return app


def _version(requested: bool) -> None:
    if requested:
        print(f"dballoc {dballoc.__version__}")
        raise typer.Exit


def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    pass
