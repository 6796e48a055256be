"""Fetch an archive by file or URL: a tarball, a zip or a package, with a server, an allocator's
library or its sources in it.
"""

import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.parse import unquote, urlsplit

from dballoc import catalogue
from dballoc.experiment import secret_names
from dballoc.experiment.secret_names import hide_secrets
from dballoc.fetch.clients import build_from_source
from dballoc.fetch.fetch_job import FetchedTree, FetchJob, Progress, check_hash, describe_file
from dballoc.fetch.fetch_sources import FetchSource, look_up_kind
from dballoc.fetch.unpack import archive_members, installed_layout
from dballoc.fetch.unpack.safe_extraction import UnsafeArchive
from dballoc.ground import readers
from dballoc.ground.errors import Failure, UsageError
from dballoc.ground.files.foreign_file import open_foreign_file

_RECEIVED = 2**18
# Seconds without a byte.
_PATIENCE = 60


def download(url: str, target: Path, progress: Progress) -> None:
    """Download ``url`` to ``target``; after a break, what has come stays beside it for the next
    try. Failure in one line.
    """
    shown = hide_secrets(url)
    part = target.with_name(target.name + ".part")
    received = part.stat().st_size if part.exists() else 0
    if not url.lower().startswith(("https://", "http://")):
        raise Failure(f"{shown}: not a URL that begins with https:// or http://")
    headers = {"User-Agent": "dballoc", "Accept-Encoding": "identity"}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  # as checked
    if received:
        request.add_header("Range", f"bytes={received}-")
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE) as reply:  # noqa: S310  # as checked
            if reply.status != 206:  # the server sends the whole file
                received = 0
            length = reply.headers.get("Content-Length")
            total = received + int(length) if length is not None else None
            with part.open("ab" if received else "wb") as f:
                while chunk := reply.read(_RECEIVED):
                    f.write(chunk)
                    received += len(chunk)
                    progress(f"downloading {target.name}", received / total if total else None)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # our part is no beginning of the server's file
            part.unlink()
        raise Failure(f"{shown}: {error.code} {error.reason}") from None
    except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        raise Failure(
            f"{shown}: {reason}; the next try resumes at {received / 10**6:,.1f} MB"
        ) from None
    if total is not None and received < total:
        raise Failure(
            f"{shown}: the connection broke after {received / 10**6:,.1f} of {total / 10**6:,.1f} "
            "MB; the next try resumes from there"
        )
    part.rename(target)


_CHUNK = 2**20
_KINDS = (*archive_members.TAR, ".zip", ".jar", archive_members.DEB)


@dataclass(frozen=True)
class ArchivePlace:
    """Where an archive is: ``words`` as the user wrote it, a path or a URL."""

    words: str

    @property
    def url(self) -> bool:
        """Whether it is a URL, and has to be downloaded."""
        return urlsplit(self.words).scheme in ("http", "https")

    @property
    def name(self) -> str:
        """The file's name."""
        return Path(unquote(urlsplit(self.words).path)).name if self.url else Path(self.words).name


def make_archive_source(name: str, version: str, words: str, sha256: str | None) -> FetchSource:
    """Make a source of a user's archive. UsageError if dballoc cannot unpack or verify it."""
    if look_up_kind(name) == "allocator" and "preload" not in catalogue.allocators()[name]:
        raise UsageError(
            f"--from {words}: {name} is a whole C library, which dballoc does not take from an "
            "archive"
        )
    place = ArchivePlace(words)
    if not place.name.endswith(_KINDS):
        raise UsageError(
            f"--from {words}: dballoc cannot unpack this; it unpacks {', '.join(_KINDS)}"
        )
    if place.url and sha256 is None:
        raise UsageError(
            f"--from {words}: a download needs the hash that its publisher states: --sha256 HASH"
        )
    if sha256 is not None and (len(sha256) != 64 or set(sha256.lower()) - set("0123456789abcdef")):
        raise UsageError(f"--sha256 {sha256}: not a SHA-256 hash, which has 64 hexadecimal digits")
    size = 0
    if not place.url:
        try:
            with open_foreign_file(Path(words)) as file:
                size = os.fstat(file.fileno()).st_size
        except (OSError, ValueError) as error:
            raise UsageError(f"--from {words}: {readers.reason(error)}") from None
        words = os.fspath(Path(words).absolute())
    # Archives of servers unpack to about four times their size.
    megabytes = [size / 10**6, max(1, 4 * size / 10**6)]
    return FetchSource(
        name, version, {"from": "archive", "at": words, "sha256": sha256, "megabytes": megabytes}
    )


def fetch_archive(job: FetchJob) -> FetchedTree:
    """Download the archive if it is a URL, check its hash, unpack it."""
    row = job.source.row
    place = ArchivePlace(row["at"])
    # A download is kept for the next try; a copy goes with the place.
    path = (job.downloads if place.url else job.place / "copy") / place.name
    if place.url:
        download(row["at"], path, job.progress)
    else:
        _copy_archive(job, Path(row["at"]), path)
    # A URL may have a password in it, and everybody can read manifests.
    file = describe_file(path, secret_names.hide_secrets(row["at"]))
    if row["sha256"] is not None:
        try:
            check_hash(file, row["sha256"], job.source.reference)
        except Failure:
            path.unlink()
            raise
    if job.source.kind == "server":
        unpack_archive(job, path, job.root)
        shutil.rmtree(job.place / "copy", ignore_errors=True)
        raise_server_top(job)
        return FetchedTree(version="", files=[file])
    tree = job.place / "unpacked"
    unpack_archive(job, path, tree)
    shutil.rmtree(job.place / "copy", ignore_errors=True)
    lacking = installed_layout.find_missing_library(job, tree)
    configure = find_configure(tree) if lacking else None
    if lacking and configure is None:
        raise Failure(
            f"{job.source.reference}: no {lacking} in the download, and no configure to build it "
            "with"
        )
    libraries = (
        build_from_source.build_configured(job, configure.parent)
        if configure
        else installed_layout.copy_libraries(job, tree, beside=False)
    )
    shutil.rmtree(tree)
    return FetchedTree(
        version=job.source.version,
        files=[file],
        libraries=libraries,
        untried_build=build_from_source.CONFIGURE if configure else None,
    )


def find_configure(tree: Path) -> Path | None:
    """Find the script ``configure`` of unpacked sources that is nearest to their top."""
    scripts = (path for path in tree.rglob("configure") if path.is_file() and not path.is_symlink())
    return min(scripts, key=lambda path: (len(path.parts), path), default=None)


def _copy_archive(job: FetchJob, path: Path, target: Path) -> None:
    """Copy a file of somebody's, so that what is hashed is what is unpacked: its owner could change
    it meanwhile. Failure if it cannot be read, or is larger than when it was named.
    """
    most = round(job.source.row["megabytes"][0] * 10**6)
    job.progress(f"copying {path.name}", None)
    target.parent.mkdir()
    try:
        with readers.open_file(path) as file, target.open("wb") as copy:
            size = 0
            while piece := file.read(min(_CHUNK, most + 1 - size)):
                size += len(piece)
                copy.write(piece)
    except readers.Unfit as error:
        raise Failure(f"{path}: {error}") from None
    if size > most:
        raise Failure(f"{path}: it grew while it was copied; fetch it when it is complete")


def raise_server_top(job: FetchJob) -> None:
    """Make the server's top directory the root of the tree. Failure if no server was unpacked."""
    if (program := installed_layout.find_server_program(job.root)) is None:
        raise Failure(f"{job.source.reference}: no mysqld or mariadbd in the archive")
    installed_layout.raise_top_directory(job.root, program)


def unpack_archive(
    job: FetchJob, path: Path, target: Path, keep: Sequence[str] = ("*",), strip: int = 0
) -> None:
    """Unpack an archive into a directory, which is made. Failure in one line for one that is broken
    or has a member that is no file, directory or link or that would lie outside.

    ``keep``: patterns of the names to take out of a zip; ``strip``: number of leading parts to drop
    from each path.
    """
    task = f"unpacking {path.name}"
    job.progress(task, None)
    try:
        archive_members.unpack_members(
            path, target, keep, strip, lambda share: job.progress(task, share)
        )
    except UnsafeArchive as error:
        raise Failure(f"{job.source.reference}: {path.name} cannot be unpacked: {error}") from None
    # Jars made on Windows or by Maven have no file modes.
    if (
        path.name.endswith(archive_members.ZIP)
        and (program := installed_layout.find_server_program(target)) is not None
    ):
        for each in program.parent.iterdir():
            if each.is_file() and not each.is_symlink():
                each.chmod(0o755)
