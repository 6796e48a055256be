"""List the verbs of ``dballoc``, and make an application of the one that is called. Nothing of the
others is imported: all of them take seconds, and some need packages that may not be installed.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer

import dballoc
from dballoc.cli.extras import is_installed, require_extra
from dballoc.cli.light_command import LightCommand, LightGroup


@dataclass(frozen=True, kw_only=True)
class Verb:
    """A verb: its module in ``verbs/``, or in the room that is named, which has a function or an
    application of the module's name; ``extra``: what of pyproject.toml's optional dependencies it
    needs, if any; ``light_flag``: the flag with which it needs none of that; ``summary``: its line
    in the list of all.
    """

    module: str
    summary: str
    extra: str | None = None
    light_flag: str | None = None


VERBS = {
    "aa": Verb(
        module="aa",
        extra="bench",
        summary="Compare a malloc with itself: how small a difference shows here.",
    ),
    "bench": Verb(
        module="bench",
        extra="bench",
        light_flag="--measure-only",
        summary="Compare mallocs under a real server and load.",
    ),
    "combine": Verb(
        module="results_verbs.combine",
        extra="report",
        summary="Combine campaigns of several hosts.",
    ),
    "compare": Verb(
        module="results_verbs.compare",
        extra="report",
        summary="Compare two campaigns; a gate for CI.",
    ),
    "deploy": Verb(
        module="results_verbs.deploy",
        extra="report",
        summary="Print how to run your own server with a variant.",
    ),
    "doctor": Verb(
        module="doctor",
        summary="Say what is missing or wrong on this host.",
    ),
    "exec": Verb(
        module="exec_",
        summary="Run a program under the heap probe, or the recorder.",
    ),
    "explain": Verb(
        module="explain",
        summary="Say where a live server's memory goes, and what to do.",
    ),
    "fetch": Verb(
        module="fetch",
        extra="bench",
        summary="Bring servers and mallocs into a private store.",
    ),
    "fit": Verb(
        module="search_verbs.fit",
        extra="bench",
        summary="Find the largest cache that survives a memory limit.",
    ),
    "import": Verb(
        module="results_verbs.import_",
        extra="report",
        summary="Bring in results that were made elsewhere.",
    ),
    "kit": Verb(
        module="kit_verbs.app",
        extra="measure",
        summary="Make one file that measures where there is no network.",
    ),
    "list": Verb(
        module="list_",
        summary="List what an experiment can name, and what is here.",
    ),
    "profile": Verb(
        module="profile_verbs.app",
        summary="Which code allocates, grows, or waits inside malloc?",
    ),
    "record": Verb(
        module="record",
        summary="Record every allocation of a program.",
    ),
    "replay": Verb(
        module="replay",
        extra="bench",
        summary="Replay a recorded trace on every malloc.",
    ),
    "report": Verb(
        module="results_verbs.report",
        extra="report",
        summary="Write the report of a results directory.",
    ),
    "trace": Verb(
        module="trace_verbs.app",
        extra="bench",
        summary="A process's recorded allocations: compile, look, cut.",
    ),
    "tune": Verb(
        module="search_verbs.tune",
        extra="tune",
        summary="Search the settings of mallocs for a workload.",
    ),
    "verify": Verb(
        module="verify",
        summary="Say which malloc a running server really uses.",
    ),
}
_SETTINGS: dict[str, dict[str, Any]] = {
    "exec": {"allow_interspersed_args": False}
}  # what follows the program is its own


def list_working_verbs() -> list[str]:
    """List the verbs whose packages are installed."""
    return [name for name, verb in VERBS.items() if not verb.extra or is_installed(verb.extra)]


def application(verbs: Iterable[str] = VERBS, words: Sequence[str] = ()) -> typer.Typer:
    """Make a command line of these verbs, for these ``words``. Raises UsageError if a verb needs
    packages that are missing.
    """
    app = _make_empty_application()
    for name in verbs:
        verb = VERBS[name]
        if verb.extra and verb.light_flag not in words:
            require_extra(verb.extra, f"dballoc {name}")
        place = verb.module if "." in verb.module else f"verbs.{verb.module}"
        command = getattr(import_module(f"dballoc.cli.{place}"), place.rpartition(".")[2])
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            settings = _SETTINGS.get(name)
            app.command(name, cls=LightCommand, context_settings=settings)(command)
    return app


def make_listing() -> typer.Typer:
    """Make a command line that lists all verbs and the version, and runs none."""
    app = _make_empty_application()
    for name, verb in VERBS.items():
        app.command(name, help=verb.summary)(_make_entry())
    return app


def _make_entry() -> Callable[[], None]:
    def entry() -> None:
        """Stand in the list of verbs for one of them."""

    return entry


def _make_empty_application() -> typer.Typer:
    app = typer.Typer(
        name="dballoc", cls=LightGroup, no_args_is_help=True,
        add_completion=False, pretty_exceptions_enable=False,
        help="Which malloc should my MySQL-family server run on, and where does its memory go?",
    )  # fmt: skip
    app.callback()(_root)
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
