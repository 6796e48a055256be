"""``dballoc explain --install-function``, ``--remove-function``, ``--trim``: what changes the
server, after asking.
"""

import sys

import typer

from dballoc.errors import UsageError
from dballoc.explain.sources import loadable_function
from dballoc.servers.running.credentials import Credentials

_MIB = 2**20


def install(pid: int, who: Credentials, yes: bool) -> None:
    """Say what it takes, ask, do it."""
    found = loadable_function.look(pid, who)
    if found.installed:
        print("the loadable function is installed already")
        return
    _agree("--install-function", loadable_function.steps_to_install(found), yes)
    loadable_function.install(pid, who)
    print("installed; dballoc explain uses it from now on, and --remove-function undoes it")


def remove(pid: int, who: Credentials, yes: bool) -> None:
    """Say what it takes, ask, do it."""
    found = loadable_function.look(pid, who)
    if found.absent:
        print("there is nothing to remove")
        return
    _agree("--remove-function", loadable_function.steps_to_remove(found), yes)
    loadable_function.remove(pid, who)
    print("removed")


def trim(pid: int, who: Credentials, yes: bool) -> None:
    """Say what it may cost, ask, do it, and say what came of it."""
    _agree(
        "--trim",
        [
            f"SET sql_log_bin = 0, CREATE FUNCTION {loadable_function.TRIM}, call it, and drop it",
            "the server's malloc gives back what it holds free; threads that allocate may wait "
            "meanwhile",
        ],
        yes,
    )
    done = loadable_function.trim(pid, who)
    less = (done.before - done.after) / _MIB
    print(
        f"{done.called} took {done.seconds * 1e3:,.0f} ms: RSS {done.before / _MIB:,.1f} MiB "
        "before,"
        f" {done.after / _MIB:,.1f} MiB after: {abs(less):,.1f} MiB "
        f"{'less' if less >= 0 else 'more'}"
    )


def _agree(option: str, steps: list[str], yes: bool) -> None:
    print("This changes the server:")
    for step in steps:
        print(f"- {step}")
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{option} asks first, and there is nobody to ask; give --yes")
    typer.confirm("Go on?", abort=True)
