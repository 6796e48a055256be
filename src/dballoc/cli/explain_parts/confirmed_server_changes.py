"""Change the server after asking: ``dballoc explain --install-function``, ``--remove-function`` and
``--trim``.
"""

import sys

import typer

from dballoc.cli.shared.safe_output import safe
from dballoc.evidence.sql import loadable_function
from dballoc.evidence.sql.loadable_function import Installation
from dballoc.ground.errors import UsageError
from dballoc.host.abandonable.abandonable_work import run_abandonable
from dballoc.host.process.handle import Process
from dballoc.servers.running.credentials import Credentials

_MIB = 2**20


def install_function(process: Process, credentials: Credentials, yes: bool) -> None:
    """Print the steps, ask unless ``yes``, and install it."""
    installation = _read_installation(process, credentials)
    if installation.installed:
        print("the loadable function is already installed")
        return
    _confirm("--install-function", loadable_function.list_install_steps(installation), yes)
    loadable_function.install_function(process, credentials)
    print("installed: dballoc explain uses it from now on; --remove-function removes it")


def remove_function(process: Process, credentials: Credentials, yes: bool) -> None:
    """Print the steps, ask unless ``yes``, and remove it."""
    installation = _read_installation(process, credentials)
    if installation.absent:
        print("there is nothing to remove")
        return
    _confirm("--remove-function", loadable_function.list_remove_steps(installation), yes)
    loadable_function.remove_function(process, credentials)
    print("removed")


def trim_heap(process: Process, credentials: Credentials, yes: bool) -> None:
    """Print what it may cost, ask unless ``yes``, do it, and print what it gained."""
    _read_installation(process, credentials)
    _confirm(
        "--trim",
        [
            f"SET sql_log_bin = 0, CREATE FUNCTION {loadable_function.TRIM}, call it, and drop it",
            "the server's malloc returns free memory to the kernel; threads that allocate may wait "
            "meanwhile",
        ],
        yes,
    )
    trimmed = loadable_function.trim_malloc(process, credentials)
    gain = (trimmed.before - trimmed.after) / _MIB
    print(
        f"{safe(trimmed.called)} took {trimmed.seconds * 1e3:,.0f} ms: RSS "
        f"{trimmed.before / _MIB:,.1f} MiB before,"
        f" {trimmed.after / _MIB:,.1f} MiB after: {abs(gain):,.1f} MiB "
        f"{'less' if gain >= 0 else 'more'}"
    )


def _read_installation(process: Process, credentials: Credentials) -> Installation:
    """Read what is installed, in a child that can be given up. So the server's files and socket are
    known to answer before anything is changed.
    """
    return run_abandonable(
        lambda: loadable_function.read_installation(process, credentials),
        process,
    )


def _confirm(option: str, steps: list[str], yes: bool) -> None:
    print("This changes the server:")
    for step in steps:
        print(f"- {safe(step)}")  # the plugin directory is what the server says
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            f"{option} asks before it changes the server, but standard input is not a terminal; "
            "give --yes"
        )
    typer.confirm("Go on?", abort=True)
