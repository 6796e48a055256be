"""``dballoc verify``: which malloc a running server really uses."""

import dataclasses
import json
from typing import Annotated

import typer

from dballoc.cli.shared.safe_output import clean, say
from dballoc.errors import Failure
from dballoc.host.settings import thp
from dballoc.process_memory import identify_malloc
from dballoc.process_memory.malloc_bindings import UnreadableProcess


def verify(
    pid: Annotated[int, typer.Argument(metavar="PID", help="A running process.", min=1)],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Say which malloc a running server really uses, with which settings: from its own bindings,
    read from outside.
    """
    try:
        malloc = identify_malloc.identify_malloc_in_use(pid)
    except UnreadableProcess as error:
        raise Failure(str(error)) from None
    if as_json:
        print(json.dumps({**dataclasses.asdict(malloc), "host_thp": thp.read_host()}, indent=1))
        return
    malloc = clean(malloc)
    say(
        f"{malloc.executable} (process {pid}) uses "
        f"{' '.join(filter(None, [malloc.title, malloc.version]))}: {malloc.library}"
    )
    say(f"because:  {malloc.how}")
    say(
        "settings: "
        f"{', '.join(f'{k}={v}' for k, v in malloc.settings.items()) or 'none in its environment'}"
    )
    say(f"THP:      {malloc.thp}")
    if host := thp.read_host():
        say(f"host THP: {thp.describe_host(host)}")
    for symbol, library in malloc.mixed.items():
        say(f"warning:  {symbol} leads to {library}: blocks of two mallocs are mixed")
    for variable, why in malloc.idle.items():
        say(f"warning:  {variable}: {why}")
