"""A vendor's archive by file or URL: a tarball, a zip or a package, with a server or an allocator's library in it."""

import os
import shutil
import stat
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import unquote, urlsplit

from dballoc.errors import Failure, UsageError
from dballoc.fetch import layout
from dballoc.fetch.download import download
from dballoc.fetch.job import Brought, Job, check_hash, described
from dballoc.fetch.source import Source, kind

_TAR = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar.zst")
_ZIP = (".zip", ".jar")
_KINDS = (*_TAR, *_ZIP, ".deb")


@dataclass(frozen=True)
class Place:
    """Where an archive is: ``words`` as the user wrote them."""

    words: str

    @property
    def url(self) -> bool:
        """Whether it is to be downloaded."""
        return urlsplit(self.words).scheme in ("http", "https")

    @property
    def name(self) -> str:
        """Of the file."""
        return Path(unquote(urlsplit(self.words).path)).name if self.url else Path(self.words).name


def source(name: str, version: str, words: str, sha256: str | None) -> Source:
    """The source that a user's archive is. UsageError for what cannot be one."""
    kind(name)
    place = Place(words)
    if not place.name.endswith(_KINDS):
        raise UsageError(f"--from {words}: not an archive that dballoc can unpack; it takes {', '.join(_KINDS)}")
    if place.url and sha256 is None:
        raise UsageError(f"--from {words}: give its hash, as its publisher states it: --sha256 HASH")
    if sha256 is not None and (len(sha256) != 64 or set(sha256.lower()) - set("0123456789abcdef")):
        raise UsageError(f"--sha256 {sha256}: not a SHA-256; that has 64 hexadecimal digits")
    size = 0
    if not place.url:
        try:
            size = Path(words).stat().st_size
        except OSError as error:
            raise UsageError(f"--from {words}: {error.strerror}") from None
        words = os.fspath(Path(words).absolute())
    # Archives of servers unpack to about four times their size.
    megabytes = [0, max(1, 4 * size / 10**6)]
    return Source(name, version, {"from": "archive", "at": words, "sha256": sha256, "megabytes": megabytes})


def bring(job: Job) -> Brought:
    """Download it if it is a URL, check it, unpack it."""
    row = job.source.row
    place = Place(row["at"])
    path = Path(row["at"])
    if place.url:
        path = job.downloads / place.name
        download(row["at"], path, job.progress)
    found = described(path, row["at"])
    if row["sha256"] is not None:
        try:
            check_hash(found, row["sha256"], job.source.reference)
        except Failure:
            if place.url:
                path.unlink()
            raise
    if job.source.kind == "server":
        unpack(job, path, job.root)
        settle(job)
        return Brought("", [found])
    tree = job.place / "unpacked"
    unpack(job, path, tree)
    libraries = layout.take_libraries(job, tree, beside=False)
    shutil.rmtree(tree)
    return Brought(job.source.version, [found], libraries)


def settle(job: Job) -> None:
    """Have the server's own directory be the root. Failure if there is no server in what was unpacked."""
    if (program := layout.server_program(job.root)) is None:
        raise Failure(f"{job.source.reference}: no mysqld or mariadbd in what was unpacked")
    layout.raise_top(job.root, program)


def unpack(job: Job, path: Path, target: Path, keep: Sequence[str] = ("*",)) -> None:
    """An archive into a directory, which is made. Failure in one line for one that is broken.

    ``keep``: patterns of the names that are taken out of a zip.
    """
    job.progress(f"unpacking {path.name}", None)
    target.mkdir(exist_ok=True)
    what = f"{path.name} cannot be unpacked"
    if path.name.endswith(".deb"):
        if shutil.which("dpkg-deb") is None:
            raise UsageError("dpkg-deb is not on this machine; install dpkg, or give a tarball")
        job.run(["dpkg-deb", "-x", os.fspath(path), os.fspath(target)], what)
        layout.keep_links_inside(target)
    elif path.name.endswith(_ZIP):
        _unzip(job, path, target, keep, what)
    else:
        # GNU tar takes no path that leads out of the directory.
        job.run(["tar", "--extract", "--no-same-owner", "--file", os.fspath(path), "--directory", os.fspath(target)], what)


def _unzip(job: Job, path: Path, target: Path, keep: Sequence[str], what: str) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [e for e in archive.infolist() if any(fnmatchcase(e.filename, pattern) for pattern in keep)]
            for number, entry in enumerate(entries):
                job.progress(f"unpacking {path.name}", number / len(entries))
                mode = entry.external_attr >> 16
                if stat.S_ISLNK(mode):
                    _link(archive, entry, target)
                    continue
                made = Path(archive.extract(entry, target))
                if mode & 0o111 and made.is_file():
                    made.chmod(0o755)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise Failure(f"{job.source.reference}: {what}: {error}") from None
    # Jars made on Windows or by Maven carry no modes.
    if (program := layout.server_program(target)) is not None:
        for each in program.parent.iterdir():
            each.chmod(0o755)


def _link(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path) -> None:
    path = target / entry.filename
    aim = archive.read(entry).decode()
    # A link that leads out of the tree is none that a server needs.
    if os.path.normpath(os.path.join(os.path.dirname(entry.filename), aim)).startswith(("..", "/")) or ".." in entry.filename:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(aim)
