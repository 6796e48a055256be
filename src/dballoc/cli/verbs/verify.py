"""``dballoc verify``: which malloc a running server really uses."""

import dataclasses
import json
from typing import Annotated

import typer

from dballoc import readers
from dballoc.allocators import host_requirements
from dballoc.catalogue import allocators
from dballoc.cli.shared import flags
from dballoc.cli.shared.safe_output import clean, say
from dballoc.errors import Failure
from dballoc.host.process_environment import parse_environment
from dballoc.host.settings import thp
from dballoc.process_memory import host_obstacles, identify_malloc
from dballoc.process_memory.identify_malloc import MallocInUse
from dballoc.process_memory.malloc_bindings import UnreadableProcess


def verify(
    pid: Annotated[int, typer.Argument(metavar="PID", help="A running process.", min=1)],
    as_json: flags.AsJson = False,
) -> None:
    """Say which malloc a running server really uses, with which settings: from its own bindings,
    read from outside.
    """
    try:
        malloc = identify_malloc.identify_malloc_in_use(pid)
    except UnreadableProcess as error:
        raise Failure(str(error)) from None
    obstacle = _find_obstacle(malloc)
    if as_json:
        document = {
            **dataclasses.asdict(malloc),
            "host_thp": thp.read_host(),
            "host_obstacle": obstacle,
        }
        print(json.dumps(document, indent=1))
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
    if obstacle:
        say(f"warning:  {obstacle}")
    for symbol, library in malloc.mixed.items():
        say(f"warning:  {symbol} leads to {library}: blocks of two mallocs are mixed")
    for variable, why in malloc.idle.items():
        say(f"warning:  {variable}: {why}")


def _find_obstacle(malloc: MallocInUse) -> str | None:
    """Return why this malloc will crash on this kernel; None if nothing speaks against it."""
    entry = allocators().get(malloc.name or "", {})
    try:
        environ = parse_environment(readers.of_process(f"/proc/{malloc.pid}/environ"), "replace")
    except OSError:
        return None  # it has just ended
    # The process may have another C library than ours, as in a container.
    host = dataclasses.replace(host_requirements.read_host(), glibc="")
    return host_obstacles.find_rseq_obstacle(entry, malloc.version, environ, host)
