"""``dballoc verify``: which malloc a running server really uses."""

import dataclasses
import json
from typing import Annotated

import typer

from dballoc.cli.shared.safe_output import clean, say
from dballoc.errors import Failure
from dballoc.process_memory import identify_malloc
from dballoc.process_memory.malloc_bindings import Unreadable


def verify(
    pid: Annotated[int, typer.Argument(metavar="PID", help="A running process.", min=1)],
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Say which malloc a running server really uses, with which settings: from its own bindings,
    read from outside.
    """
    try:
        found = identify_malloc.identify(pid)
    except Unreadable as error:
        raise Failure(str(error)) from None
    if as_json:
        print(json.dumps(dataclasses.asdict(found), indent=1))
        return
    found = clean(found)
    say(
        f"{found.executable} (process {pid}) uses "
        f"{' '.join(filter(None, [found.title, found.version]))}: {found.library}"
    )
    say(f"because:  {found.how}")
    say(
        "settings: "
        f"{', '.join(f'{k}={v}' for k, v in found.settings.items()) or 'none in its environment'}"
    )
    say(f"THP:      {found.thp}")
    for symbol, library in found.mixed.items():
        say(f"warning:  {symbol} leads to {library}: blocks of two mallocs are mixed")
    for what, why in found.idle.items():
        say(f"warning:  {what}: {why}")
