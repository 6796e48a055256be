"""Fetch one server or allocator: complete and verified, or not at all."""

import contextlib
import errno
import fcntl
import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from dballoc.fetch import name_and_version, private_store
from dballoc.fetch.clients import archive, cargo_crate, debian_apt, maven, pypi_wheel
from dballoc.fetch.fetch_job import FetchedTree, FetchJob, Progress
from dballoc.fetch.fetch_sources import FetchSource
from dballoc.fetch.private_store import MANIFEST, FetchedEntry
from dballoc.fetch.unpack import installed_layout, safe_extraction
from dballoc.ground import user_directories
from dballoc.ground.errors import Failure, UsageError
from dballoc.ground.files.output_directory import OutputDirectory, remove_own, write_own
from dballoc.ground.files.remove_tree import remove_tree
from dballoc.host import directories
from dballoc.host.elf import patch_elf
from dballoc.host.guardian.guardian_client import Custody, Lease
from dballoc.host.unprivileged.run_unprivileged import Unanswered, run_unprivileged
from dballoc.host.unprivileged.server_user import server_user

_VERSION = re.compile(r"Ver ([\d.]+)")


def _verify_version(job: FetchJob, fetched: FetchedTree) -> str:
    """Return the exact version. Raises Failure if a server does not run or is another version, or
    if a file is not a library.
    """
    if job.source.kind == "server":
        return _verify_server(job, fetched)
    for path in fetched.libraries:
        if not patch_elf.is_elf(job.place / path):
            raise Failure(f"{job.source.reference}: {path} is not a shared library")
    if not fetched.libraries and fetched.loader is None:
        raise Failure(f"{job.source.reference}: no library to preload in the download")
    return fetched.version


def _verify_server(job: FetchJob, fetched: FetchedTree) -> str:
    if (program := installed_layout.find_server_program(job.root)) is None:
        raise Failure(f"{job.source.reference}: no server in the download")
    argv = [os.fspath(program), "--no-defaults", "--version"]
    if fetched.loader:
        # Its interpreter is named by its final place, where it is not yet.
        directories = ":".join(os.fspath(job.place / d) for d in fetched.search)
        argv = [os.fspath(job.place / fetched.loader), "--library-path", directories, *argv]
    try:
        answer = run_unprivileged(argv)
    except Unanswered as error:
        raise Failure(f"{job.source.reference}: its server does not run here: {error}") from None
    printed = _VERSION.search(answer.stdout)
    if answer.status != 0 or printed is None:
        why = (
            answer.stderr.strip() or answer.stdout.strip() or f"exit status {answer.status}"
        ).splitlines()[0]
        raise Failure(f"{job.source.reference}: its server does not run here: {why}")
    version = printed[1].rstrip(".")
    if job.source.client != "archive" and not name_and_version.is_version_of(
        job.source.version, version
    ):
        raise Failure(
            f"{job.source.reference}: the source now has {version}, not {job.source.version}"
        )
    return version


CLIENTS = {
    "archive": archive.fetch_archive,
    "crate": cargo_crate.fetch_crate,
    "debian": debian_apt.fetch_packages,
    "maven": maven.fetch_artifact,
    "pypi": pypi_wheel.fetch_wheel,
}

# Unpacking needs room for the downloads, the tree, and the part of it that is removed again.
_SLACK = 1.3


def fetch(
    source: FetchSource, progress: Progress, lease: Lease | None = None
) -> tuple[FetchedEntry, bool]:
    """Return the store's entry, and whether it had to be fetched. Raises UsageError if the fetch
    cannot start, Failure if it fails; then only downloads are left, from which the next try
    resumes. ``lease``: that on which it runs.
    """
    if entry := private_store.find_requested(source.name, source.version):
        return entry, False
    check_machine(source, os.uname().machine)
    store = user_directories.make_store()
    with _lock_store(store, progress):
        if entry := private_store.find_requested(source.name, source.version):
            return entry, False
        _check_reachable(source, store)
        _check_free_space(source, store)
        final = store / source.reference
        # The same name each time: builds record their paths.
        place = store / ".partial" / source.reference
        downloads = store / "downloads" / source.reference
        try:
            with Custody(adopt=True, lease=lease) as custody:
                custody.scratch(place)
                _make_places(store, place, downloads)
                job = FetchJob(
                    source=source,
                    place=place,
                    final=final,
                    downloads=downloads,
                    shared=store / "downloads",
                    custody=custody,
                    progress=progress,
                )
                fetched = CLIENTS[source.client](job)
                progress("verifying", None)
                size = _secure_tree(job)
                _move_to_store(job, fetched, _verify_version(job, fetched), size)
            remove_tree(downloads)
        except OSError as error:
            remove_tree(place)
            if error.errno == errno.ENOSPC:
                raise Failure(
                    f"{source.reference}: no space left on {store}; make room, or set DBALLOC_STORE"
                ) from None
            raise Failure(
                f"{source.reference}: {error.filename or store}: {error.strerror or error}"
            ) from None
    entry = private_store.find_requested(source.name, source.version)
    assert entry
    return entry, True


def _make_places(store: Path, place: Path, downloads: Path) -> None:
    """Make an empty directory to unpack into, which the server user can enter, and one for
    downloads, which may have been begun.
    """
    with OutputDirectory.open(store, "DBALLOC_STORE") as top:
        with (
            top.open_subdirectory(place.parent.name) as above,
            above.make_fresh_subdirectory(place.name) as below,
        ):
            for directory in (above, below):
                os.fchmod(directory.fd, 0o711)
        with top.open_subdirectory(downloads.parent.name) as above:
            above.open_subdirectory(downloads.name).close()


def check_machine(source: FetchSource, machine: str) -> None:
    """Raises UsageError if a source is for another machine than this one, as uname(2) names
    both.
    """
    only = source.row.get("machine", machine)
    if only != machine:
        raise UsageError(
            f"{source.reference}: the download is for {only}, and this machine is {machine}; "
            f"dballoc list {source.kind}s shows what else can be fetched, or give an archive of "
            "your own: --from FILE|URL --sha256 HASH"
        )


def _secure_tree(job: FetchJob) -> int:
    """Check all that was unpacked, make it readable for servers, which run as an unprivileged user,
    and return its bytes on disk. Raises Failure if there is something in it that must not be in the
    store.
    """
    remove_own(job.place / "client.log")
    try:
        return safe_extraction.secure_tree(job.place)
    except safe_extraction.UnsafeArchive as error:
        raise Failure(f"{job.source.reference}: the download cannot be kept: {error}") from None


def _move_to_store(job: FetchJob, fetched: FetchedTree, version: str, size: int) -> None:
    manifest = {
        "format": private_store.FORMAT,
        "name": job.source.name,
        "asked": job.source.version,
        "version": version,
        "kind": job.source.kind,
        "from": job.source.client,
        "fetched": datetime.now(UTC).isoformat(timespec="seconds"),
        "bytes": size,
        "libraries": fetched.libraries,
        "loader": fetched.loader,
        "untried_build": fetched.untried_build,
        "files": [file.row() for file in fetched.files],
    }
    write_own(job.place / MANIFEST, json.dumps(manifest, indent=1))
    (job.place / MANIFEST).chmod(0o644)  # the store is public, whatever the umask
    os.sync()
    remove_tree(job.final)  # left by a fetch that did not finish
    with (
        OutputDirectory.open(job.final.parent, "DBALLOC_STORE") as top,
        top.open_subdirectory(job.place.parent.name) as above,
    ):
        os.rename(job.place.name, job.final.name, src_dir_fd=above.fd, dst_dir_fd=top.fd)


def _check_reachable(source: FetchSource, store: Path) -> None:
    """Raises UsageError if this fetch runs something as the server user, which cannot enter the
    store.
    """
    user = server_user()
    if (source.kind == "server" or "build" in source.row) and (blocked := user.may_not_pass(store)):
        raise UsageError(
            f"{store}: servers and builds run as {user.name}, which may not enter {blocked}; "
            "set DBALLOC_STORE to a directory that every user may enter"
        )


def _check_free_space(source: FetchSource, store: Path) -> None:
    need, free = int((source.download + source.room) * _SLACK), directories.free_bytes(store)
    if need > free:
        raise UsageError(
            f"{store}: about {need / 10**6:,.0f} MB of disk needed to fetch {source.reference}, "
            f"{free / 10**6:,.0f} MB free; "
            "make room, or set DBALLOC_STORE"
        )


@contextlib.contextmanager
def _lock_store(store: Path, progress: Progress) -> Iterator[None]:
    """Hold the store's lock: one fetch at a time. It is released however its holder ends."""
    with OutputDirectory.open(store, "DBALLOC_STORE") as directory:
        lock = directory.open_lock(".lock")
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another dballoc fetch", None)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
