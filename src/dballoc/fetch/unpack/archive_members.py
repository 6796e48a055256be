"""Write the members of a tarball, a zip or a package as a tree
(:mod:`dballoc.fetch.unpack.safe_extraction`). An archive is not trusted: bytes are counted as they
come, headers are short, and no program but a decompressor reads it.
"""

import bz2
import errno
import gzip
import io
import lzma
import math
import shutil
import stat
import struct
import subprocess
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, NoReturn

from dballoc.fetch.unpack.safe_extraction import Tree, UnsafeArchive, most_bytes, split_member_path
from dballoc.ground.errors import UsageError
from dballoc.host.exit_status import end_process
from dballoc.host.unprivileged import give_up_rights

TAR = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar.zst")
ZIP = (".zip", ".jar", ".whl")
DEB = ".deb"

# The longest header of a tar member (its path and link, at most), and the longest directory of a
# zip.
_HEADER = 16 * 2**10
_ZIP_DIRECTORY = 12 * 2**20
_XZ_MEMORY = 512 * 2**20
_CHUNK = 2**16
# Errors of tarfile that it takes for the end of the archive.
_BROKEN = ("InvalidHeaderError", "TruncatedHeaderError")
_SHOWN_EVERY = 500
_SECONDS_TO_END = 10.0  # for a decompressor whose output is read, or closed

Progress = Callable[[float | None], None]


def unpack_members(
    path: Path,
    target: Path,
    keep: Sequence[str] = ("*",),
    strip: int = 0,
    progress: Progress = lambda share: None,
) -> None:
    """Unpack an archive into a directory, which is made. Raises UnsafeArchive if it is
    broken, or has anything but files, directories, and links between them; what was written by
    then is left.

    ``keep``: patterns of the members to take out of a zip; ``strip``: number of leading parts to
    drop from each path.
    """
    target.mkdir(exist_ok=True)
    tree = Tree(root=target, most=most_bytes(path.stat().st_size), rooted=path.name.endswith(DEB))
    try:
        if path.name.endswith(ZIP):
            _unzip(path, tree, keep, progress)
        else:
            with _open_tar(path) as stream:
                _untar(_ForwardStream(stream, tree.most), tree, strip, progress)
        tree.finish()
    except OSError as error:
        if error.errno not in (
            None,
            errno.EINVAL,
            errno.EOVERFLOW,
            errno.ENAMETOOLONG,
        ):  # the disk's, not the archive's
            raise
        raise UnsafeArchive(str(error)) from None
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        ValueError,
        OverflowError,
        RuntimeError,
        NotImplementedError,
        IndexError,
        KeyError,
        TypeError,
        AttributeError,
        AssertionError,
        struct.error,
    ) as error:
        # Python's archive readers raise any of these for a crafted archive.
        raise UnsafeArchive(ascii(str(error))[1:-1] or "it is damaged") from None


# -- tar ---------------------------------------------------------------------------------------


class _TarHeader(tarfile.TarInfo):
    """A member's header. Sparse files are refused: their maps may be of any length."""

    @classmethod
    def fromtarfile(cls, tar: tarfile.TarFile) -> "_TarHeader":
        """Read the next one. Raises UnsafeArchive if damaged; tarfile takes that for the end."""
        try:
            return super().fromtarfile(tar)
        except tarfile.HeaderError as error:
            if type(error).__name__ in _BROKEN:
                raise UnsafeArchive(f"a damaged header: {error}") from None
            raise

    def _no_holes(self, *_: object) -> NoReturn:
        raise UnsafeArchive("it has a sparse file")

    _proc_sparse = _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _no_holes


class _ForwardStream(io.RawIOBase):
    """A stream that is read once, forward. Raises UnsafeArchive beyond ``most`` bytes, or for
    a longer read than a header needs.
    """

    def __init__(self, stream: IO[bytes], most: int) -> None:
        self._stream = stream
        # Headers and padding come with the files.
        self._most = most + most // 2
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Read exactly ``size`` bytes, or fewer at the end."""
        if not 0 <= size <= max(_HEADER, _CHUNK * 4):
            raise UnsafeArchive("it has a header that is too long")
        parts: list[bytes] = []
        while size and (part := self._stream.read(min(size, _CHUNK))):
            parts.append(part)
            size -= len(part)
            self._at += len(part)
            if self._at > self._most:
                raise UnsafeArchive(f"it expands to more than {self._most / 10**6:,.0f} MB")
        return b"".join(parts)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Seek, only forward."""
        if whence != io.SEEK_SET or offset < self._at:
            raise UnsafeArchive("it has a member that overlaps the one before")
        while self._at < offset and self.read(min(offset - self._at, _CHUNK)):
            pass
        return self._at


def _untar(stream: _ForwardStream, tree: Tree, strip: int, progress: Progress) -> None:
    with tarfile.TarFile(
        fileobj=stream, tarinfo=_TarHeader, errors="surrogateescape", encoding="utf-8"
    ) as tar:
        while member := tar.next():
            tar.members.clear()  # type: ignore[attr-defined]  # else it keeps them all
            _add_tar_member(tar, member, tree, strip)
            if tree.members % _SHOWN_EVERY == 0:
                progress(None)


def _add_tar_member(tar: tarfile.TarFile, member: tarfile.TarInfo, tree: Tree, strip: int) -> None:
    parts = split_member_path(member.name, strip)
    if strip and not parts:
        return
    if member.isdir():
        tree.add_directory(parts)
    elif member.issym():
        tree.add_link(parts, member.linkname)
    elif member.islnk():
        tree.add_hard_link(parts, split_member_path(member.linkname, strip))
    elif member.isreg():
        content = tar.extractfile(member)
        assert content
        time = float(member.mtime)
        tree.add_file(
            parts, content, member.size, member.mode, time if math.isfinite(time) else None
        )
    else:
        raise UnsafeArchive(f"{'/'.join(parts)} is neither file nor directory nor link")


@contextmanager
def _open_tar(path: Path) -> Iterator[IO[bytes]]:
    """Open the tar in a file, decompressed."""
    name = path.name
    if name.endswith(DEB):
        if shutil.which("dpkg-deb") is None:
            raise UsageError("dpkg-deb is not on this machine; install dpkg, or give a tarball")
        with _open_decompressed(["dpkg-deb", "--fsys-tarfile", "-"], path) as stream:
            yield stream
    elif name.endswith(".zst"):
        if shutil.which("zstd") is None:
            raise UsageError(
                "zstd is not on this machine; install it, or give a tarball in another compression"
            )
        with _open_decompressed(
            ["zstd", "--decompress", "--stdout", "--quiet", "--memory=512MB"], path
        ) as stream:
            yield stream
    elif name.endswith((".gz", ".tgz")):
        with gzip.open(path) as stream:
            yield stream  # type: ignore[misc]
    elif name.endswith(".bz2"):
        with bz2.open(path) as stream:
            yield stream
    else:
        with path.open("rb") as file:
            yield _XzStream(file) if name.endswith(".xz") else file  # type: ignore[misc]


@contextmanager
def _open_decompressed(argv: list[str], path: Path) -> Iterator[IO[bytes]]:
    """Open a file through a decompressor, which runs as the unprivileged user and ends with us.
    Raises UnsafeArchive with its message if it fails.
    """
    with tempfile.TemporaryFile() as errors, path.open("rb") as file:
        child = subprocess.Popen(
            argv,
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd="/",
            **give_up_rights.popen_as_unprivileged(),
        )
        assert child.stdout
        at_its_end = False
        try:
            yield child.stdout
        finally:
            # A tar's padding may follow what was read; a stream with more than that is stopped.
            at_its_end = any(not child.stdout.read(_CHUNK) for _ in range(64))
            if not at_its_end:
                child.kill()
            child.stdout.close()
            status = end_process(child, _SECONDS_TO_END)
            errors.seek(0)
            if at_its_end and status != 0:
                lines = errors.read(2**16).decode(errors="replace").split("\n")
                raise UnsafeArchive(
                    next(
                        (ascii(line.strip())[1:-1] for line in lines if line.strip()),
                        f"{argv[0]} failed",
                    )
                )


class _XzStream:
    """An xz file as a stream, in bounded memory whatever its header requests."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decoder: lzma.LZMADecompressor | None = None
        self._packed = b""

    def read(self, size: int) -> bytes:
        """Read some bytes; none at the end."""
        while True:
            if self._decoder is None:
                # Streams may follow each other, with zeros between.
                self._packed = self._packed.lstrip(b"\0") or self._file.read(_CHUNK).lstrip(b"\0")
                if not self._packed:
                    return b""
                self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
            if (
                self._decoder.needs_input
                and not self._packed
                and not (packed := self._file.read(_CHUNK))
            ):
                raise EOFError("it is truncated")
            elif self._decoder.needs_input and not self._packed:
                self._packed = packed
            plain = self._decoder.decompress(self._packed, size)
            self._packed = b""
            if self._decoder.eof:
                self._packed, self._decoder = self._decoder.unused_data, None
            if plain:
                return plain


# -- zip ---------------------------------------------------------------------------------------


class _BoundedReader(io.BufferedReader):
    """A file that refuses a longer read than a zip's directory may need."""

    def read(self, size: int | None = -1) -> bytes:
        """Read as a file does, within the bound."""
        if size is not None and size > _ZIP_DIRECTORY:
            raise UnsafeArchive("it has too many members")
        return super().read(_ZIP_DIRECTORY if size is None or size < 0 else size)


def _unzip(path: Path, tree: Tree, keep: Sequence[str], progress: Progress) -> None:
    with _BoundedReader(io.FileIO(path)) as file, zipfile.ZipFile(file) as archive:
        entries = [
            e
            for e in archive.infolist()
            if any(fnmatchcase(e.filename, pattern) for pattern in keep)
        ]
        for number, entry in enumerate(entries):
            _add_zip_member(archive, entry, tree)
            if number % _SHOWN_EVERY == 0:
                progress(number / len(entries))


def _add_zip_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, tree: Tree) -> None:
    parts = split_member_path(entry.filename)
    mode = entry.external_attr >> 16
    if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UnsafeArchive(f"{'/'.join(parts)} is encrypted, or in an unusual compression")
    if entry.is_dir():
        tree.add_directory(parts)
        return
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFLNK):
        raise UnsafeArchive(f"{'/'.join(parts)} is neither file nor directory nor link")
    with archive.open(entry) as content:
        if stat.S_ISLNK(mode):
            tree.add_link(parts, content.read(2**13).decode("utf-8", "surrogateescape"))
            return
        tree.add_file(parts, content, entry.file_size, mode)
        content.read(1)  # at the end of a member its checksum is compared
