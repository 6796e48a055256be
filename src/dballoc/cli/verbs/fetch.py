"""``dballoc fetch``: bring servers and allocators into the private store."""

from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from dballoc.cli.shared.safe_output import Console, safe
from dballoc.fetch import fetch_one, name_and_version
from dballoc.fetch import fetch_sources as sources
from dballoc.fetch.clients import archive
from dballoc.fetch.fetch_job import Progress as Watch
from dballoc.fetch.fetch_sources import FetchSource
from dballoc.fetch.private_store import FetchedEntry
from dballoc.ground.errors import Failure, UsageError


def fetch(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME[@VERSION]…",
            help="Servers and allocators, as dballoc list shows them.",
        ),
    ],
    archive_at: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FILE|URL",
            help="An archive of one NAME@VERSION instead: a vendor's tarball, zip or .deb, or "
            "an allocator's sources, which are built here by configure, make, make install.",
        ),
    ] = None,
    sha256: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="The archive's SHA-256; required for a URL."),
    ] = None,
) -> None:
    """Bring servers and allocators into a private store, without root and without touching the
    system.

    The store is $DBALLOC_STORE, else /var/lib/dballoc for root, else ~/.local/share/dballoc. What
    it already has is left alone. A download is verified, and is stored whole or not at all; the
    next try resumes one that broke off. If one of several names fails, the others are still
    fetched, and the exit status is 1.
    """
    console = Console()
    wanted = _wanted(names, archive_at, sha256)
    failed = 0
    for each in wanted:
        try:
            kept, fetched = _one(each, console)
        except (Failure, UsageError) as error:
            if len(wanted) == 1:
                raise
            failed += 1
            Console(stderr=True, soft_wrap=True, highlight=False).print(
                f"dballoc: {safe(str(error))}"
            )
            continue
        console.print(_outcome(kept, fetched), soft_wrap=True, highlight=False, markup=False)
    if failed:
        raise Failure(f"{failed} of {len(wanted)} could not be fetched; the rest is in the store")


def _wanted(names: list[str], archive_at: str | None, sha256: str | None) -> list[FetchSource]:
    if archive_at is None:
        if sha256 is not None:
            raise UsageError(
                "--sha256 only goes with --from; dballoc's catalogue has the hashes of the rest"
            )
        return [sources.find_source(name) for name in dict.fromkeys(names)]
    if len(names) > 1:
        raise UsageError(f"--from is the archive of one NAME@VERSION, not of {', '.join(names)}")
    name, version = name_and_version.split_reference(names[0])
    if version is None:
        raise UsageError(f"--from: give the archive's version: {name}@VERSION")
    return [archive.make_archive_source(name, version, archive_at, sha256)]


def _one(source: FetchSource, console: Console) -> tuple[FetchedEntry, bool]:
    """Fetch one, with a progress bar on a terminal, else with a line for each step."""
    if console.is_terminal:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(None),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(source.reference, total=None)

            def show(step: str, share: float | None) -> None:
                bar.update(
                    task,
                    description=f"{source.reference}: {step}",
                    total=None if share is None else 1.0,
                    completed=share or 0,
                )

            return fetch_one.fetch(source, show)
    return fetch_one.fetch(source, _lines(source, console))


def _lines(source: FetchSource, console: Console) -> Watch:
    steps: list[str] = []

    def say(step: str, share: float | None) -> None:
        if steps[-1:] != [step]:
            steps.append(step)
            console.print(
                f"{source.reference}: {step}", soft_wrap=True, highlight=False, markup=False
            )

    return say


def _outcome(kept: FetchedEntry, fetched: bool) -> str:
    untried = (
        kept.untried_build and f", built by {kept.untried_build}: not tried by dballoc's authors"
    )
    exact = "" if kept.version == kept.requested else f" ({kept.version})"
    return (
        f"{kept.reference}{exact} {'is in' if fetched else 'was here already:'} {kept.place}, "
        f"{kept.size / 10**6:,.1f} MB{untried or ''}"
    )
