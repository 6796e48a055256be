"""Fetching one thing: whole and verified, or not at all."""

import contextlib
import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from dballoc.errors import Failure, UsageError
from dballoc.fetch import private_store, verify_version
from dballoc.fetch.clients import archive, cargo_crate, debian_apt, maven, pypi_wheel
from dballoc.fetch.fetch_job import Brought, Job, Progress
from dballoc.fetch.fetch_sources import Source
from dballoc.fetch.private_store import MANIFEST, Kept
from dballoc.fetch.unpack import archive_tree
from dballoc.host import directories
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.unprivileged.server_user import server_user

CLIENTS = {
    "archive": archive.bring,
    "crate": cargo_crate.bring,
    "debian": debian_apt.bring,
    "maven": maven.bring,
    "pypi": pypi_wheel.bring,
}

# Unpacking needs the downloads, the whole tree, and what is thrown away of it.
_SLACK = 1.3


def fetch(source: Source, progress: Progress) -> tuple[Kept, bool]:
    """What is wanted, and whether it had to be fetched. UsageError if it cannot begin, Failure if
    it does not end well; nothing half-done is left but downloads, with which the next try goes on.
    """
    if entry := _here(source):
        return entry, False
    store = directories.make_store()
    with _locked(store, progress):
        if entry := _here(source):
            return entry, False
        _check_open(source, store)
        _check_room(source, store)
        final = store / source.reference
        # A name that is the same each time: paths get into what is built.
        place = store / ".partial" / source.reference
        downloads = store / "downloads" / source.reference
        try:
            with Custody(adopt=True) as custody:
                custody.scratch(place)
                shutil.rmtree(place, ignore_errors=True)
                place.mkdir(parents=True)
                for directory in (place.parent, place):
                    directory.chmod(0o711)
                downloads.mkdir(parents=True, exist_ok=True)
                job = Job(
                    source=source,
                    place=place,
                    final=final,
                    downloads=downloads,
                    shared=store / "downloads",
                    custody=custody,
                    progress=progress,
                )
                brought = CLIENTS[source.client](job)
                progress("verifying", None)
                size = _open(job)
                _finish(job, brought, verify_version.check(job, brought), size)
            shutil.rmtree(downloads, ignore_errors=True)
        except OSError as error:
            shutil.rmtree(place, ignore_errors=True)
            if error.errno == errno.ENOSPC:
                raise Failure(
                    f"{source.reference}: no space left on {store}; make room, or set DBALLOC_STORE"
                ) from None
            raise Failure(
                f"{source.reference}: {error.filename or store}: {error.strerror or error}"
            ) from None
    entry = _here(source)
    assert entry
    return entry, True


def _here(source: Source) -> Kept | None:
    return next((k for k in private_store.kept(source.name) if k.asked == source.version), None)


def _open(job: Job) -> int:
    """Look at all that was unpacked, and let servers, which run as an unprivileged user, read it.
    The bytes that it takes on disk. Failure if there is something in it that must not be in the
    store.
    """
    (job.place / "client.log").unlink(missing_ok=True)
    try:
        return archive_tree.settle(job.place)
    except archive_tree.Refused as error:
        raise Failure(f"{job.source.reference}: what was fetched cannot be kept: {error}") from None


def _finish(job: Job, brought: Brought, version: str, size: int) -> None:
    manifest = {
        "format": private_store.FORMAT,
        "name": job.source.name,
        "asked": job.source.version,
        "version": version,
        "kind": job.source.kind,
        "from": job.source.client,
        "fetched": datetime.now(UTC).isoformat(timespec="seconds"),
        "bytes": size,
        "libraries": brought.libraries,
        "loader": brought.loader,
        "files": [file.row() for file in brought.files],
    }
    (job.place / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    os.sync()
    shutil.rmtree(job.final, ignore_errors=True)  # one that was never finished
    job.place.rename(job.final)


def _check_open(source: Source, store: Path) -> None:
    """UsageError if what runs for this fetch, as the server user, could not even pass the store."""
    user = server_user()
    if (source.kind == "server" or "build" in source.row) and (blocked := user.may_not_pass(store)):
        raise UsageError(
            f"{store}: servers and builds run as {user.name}, which may not pass {blocked}; "
            "set DBALLOC_STORE to an open directory"
        )


def _check_room(source: Source, store: Path) -> None:
    need, free = int((source.download + source.room) * _SLACK), directories.free_bytes(store)
    if need > free:
        raise UsageError(
            f"{store}: about {need / 10**6:,.0f} MB of disk needed to fetch {source.reference}, "
            f"{free / 10**6:,.0f} MB free; "
            "make room, or set DBALLOC_STORE"
        )


@contextlib.contextmanager
def _locked(store: Path, progress: Progress) -> Iterator[None]:
    """One fetch at a time. It ends with its holder, however that ends."""
    with (store / ".lock").open("w") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another dballoc fetch", None)
            fcntl.flock(f, fcntl.LOCK_EX)
        yield
