"""``dballoc verify``: which malloc a running server really uses."""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

import typer

from dballoc.allocators import host_requirements
from dballoc.catalogue import allocators
from dballoc.cli.shared import flags
from dballoc.cli.shared.safe_output import clean, print_json, say
from dballoc.ground.errors import Failure, UsageError
from dballoc.host.abandonable import touches
from dballoc.host.abandonable.abandonable_work import run_abandonable
from dballoc.host.process.handle import Process
from dballoc.host.process.read_rights import open_process
from dballoc.host.settings import thp
from dballoc.process.malloc import identify_malloc, preload_obstacles
from dballoc.process.malloc.identify_malloc import MallocInUse


def verify(
    pid: Annotated[int, typer.Argument(metavar="PID", help="A running process.", min=1)],
    expect: Annotated[
        str | None,
        typer.Option(
            metavar="ALLOCATOR[@VERSION]",
            help="Exit with status 1 unless it uses this one, and nothing is to be warned of.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--setting",
            metavar="VARIABLE=VALUE",
            help="With --expect: unless it has this setting, too. May be given several times.",
        ),
    ] = None,
    as_json: flags.AsJson = False,
) -> None:
    """Say which malloc a running server really uses, with which settings: from its own bindings,
    read from outside.
    """
    _check_expectation(expect, settings or [])
    process = open_process(pid)
    look = run_abandonable(lambda: _look(process), process)
    malloc, obstacle = look.malloc, look.obstacle
    if as_json:
        document = {
            **dataclasses.asdict(malloc),
            "remedy": malloc.privileged.remedy if malloc.privileged else None,
            "host_thp": thp.read_host(),
            "host_obstacle": obstacle,
            "notes": look.notes,
        }
        print_json(document)
    else:
        _print_malloc(clean(malloc), obstacle)
        for note in clean(look.notes):
            say(f"note:     {note}")
    if expect:
        difference = find_difference(malloc, expect, settings or [])
        if difference or obstacle or malloc.mixed or malloc.idle:
            raise Failure(difference or f"{process}: not as expected: see its warnings")


@dataclasses.dataclass(frozen=True)
class _Look:
    """``obstacle``: why this malloc will crash on this kernel; ``notes``: what did not answer."""

    malloc: MallocInUse
    obstacle: str | None
    notes: list[str]


def _look(process: Process) -> _Look:
    malloc = identify_malloc.identify_malloc_in_use(process)
    return _Look(malloc, _find_obstacle(process, malloc), touches.list_notes())


def _print_malloc(malloc: MallocInUse, obstacle: str | None) -> None:
    say(
        f"{malloc.executable} (process {malloc.pid}) uses "
        f"{' '.join(filter(None, [malloc.title, malloc.version]))}: {malloc.library}"
    )
    say(f"because:  {malloc.how}")
    say(
        "settings: "
        f"{', '.join(f'{k}={v}' for k, v in malloc.settings.items()) or 'none in its environment'}"
    )
    for effect in malloc.effects:
        if effect.effect != "none":
            say(f"setting:  {effect.setting}: {effect.words}")
    say(f"THP:      {malloc.thp}")
    if host := thp.read_host():
        say(f"host THP: {thp.describe_host(host)}")
    if obstacle:
        say(f"warning:  {obstacle}")
    for symbol, library in malloc.mixed.items():
        say(f"warning:  {symbol} leads to {library}: blocks of two mallocs are mixed")
    for part, why in malloc.idle.items():
        say(f"warning:  {part}: {why}")
    if malloc.privileged:
        say(f"remedy:   started privileged ({malloc.privileged.cause}): {malloc.privileged.remedy}")
    for note in malloc.replaced:
        say(f"note:     {note}")


def _check_expectation(expect: str | None, settings: Sequence[str]) -> None:
    """Raises UsageError for words that could never be met."""
    if expect is None and settings:
        raise UsageError("--setting goes with --expect")
    name = (expect or "").partition("@")[0]
    if expect is not None and name not in allocators():
        names = ", ".join(sorted(allocators()))
        raise UsageError(f"--expect {expect}: there is no such allocator; these are: {names}")
    for setting in settings:
        if not setting.partition("=")[1]:
            raise UsageError(f"--setting {setting}: write VARIABLE=VALUE")


def find_difference(malloc: MallocInUse, expect: str, settings: Sequence[str]) -> str | None:
    """Return in what a malloc is not as expected; None if it is. Pure.

    ``expect``: ``NAME`` or ``NAME@VERSION`` of the catalogue; ``settings``: ``VARIABLE=VALUE``.
    """
    name, _, version = expect.partition("@")
    title = " ".join(filter(None, [malloc.title, malloc.version]))
    uses = f"process {malloc.pid} uses {title}"
    if malloc.name != name:
        return f"{uses}, not {expect}: {malloc.library}"
    if version and malloc.version != version:
        return f"{uses}, not {expect}, which is another variant: {malloc.library}"
    for setting in settings:
        variable, _, value = setting.partition("=")
        if variable not in malloc.settings:
            return f"{uses} as expected, but {variable} is not set, and should be {value}"
        if malloc.settings[variable] != value:
            has = malloc.settings[variable]
            return f"{uses} as expected, but {variable} is {has}, not {value}"
        idle = [e for e in malloc.effects if (e.variable, e.effect) == (variable, "none")]
        if idle:
            reasons = "; ".join(f"{effect.setting} {effect.words}" for effect in idle)
            return f"{uses} as expected, but {reasons}"
    return None


def _find_obstacle(process: Process, malloc: MallocInUse) -> str | None:
    """Return why this malloc will crash on this kernel; None if nothing speaks against it."""
    entry = allocators().get(malloc.name or "", {})
    try:
        environ = process.read_environment("replace")
    except OSError:
        return None  # it has just ended
    # The process may have another C library than ours, as in a container.
    host = dataclasses.replace(host_requirements.read_host(), glibc="")
    return preload_obstacles.find_rseq_obstacle(entry, malloc.version, environ, host)
