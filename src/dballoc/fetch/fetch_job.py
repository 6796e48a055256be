"""One fetch: what a download client is given, and what it returns."""

import hashlib
import math
import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dballoc.fetch.fetch_sources import FetchSource
from dballoc.ground.errors import Failure
from dballoc.ground.files.output_directory import write_own
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.unprivileged.server_user import ServerUser

# How often a client's output is read, in seconds.
_POLL = 0.1
# Seconds between asking a client to end and killing it.
_GRACE = 5.0
# Bytes of a client's output; a build of a server's size prints some MB.
_MOST_OUTPUT = 64 * 2**20
# Lines of a client's output that say why it failed, the clearest first.
_REASONS = (
    re.compile(r"No space left on device"),
    re.compile(
        r"^E: |^ERROR: |^\[ERROR\] |^error(\[\w+\])?: |: error: |\bfatal error\b", re.IGNORECASE
    ),
)

# What is being done, and the share of it that is done, None where it is not known.
Progress = Callable[[str, float | None], None]


@dataclass(frozen=True)
class DownloadedFile:
    """A file that was downloaded. ``sha256``: of the bytes that came."""

    name: str
    size: int
    sha256: str
    origin: str

    def row(self) -> dict[str, Any]:
        """Return the file's entry in the manifest."""
        return {"name": self.name, "bytes": self.size, "sha256": self.sha256, "from": self.origin}


@dataclass(frozen=True, kw_only=True)
class FetchedTree:
    """What a client has put into :attr:`FetchJob.place`. Paths are relative to it; ``version``: the
    exact one.
    """

    version: str
    files: list[DownloadedFile]
    libraries: list[str] = field(default_factory=list)
    # What built it where no recipe of the catalogue did.
    untried_build: str | None = None
    loader: str | None = None
    # The directories of a prefix's own libraries, for :mod:`dballoc.fetch.fetch_one`.
    search: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class FetchJob:
    """One fetch. ``place``: the empty directory to fill; ``final``: where it is moved when it is
    complete; ``downloads``: kept until the fetch has succeeded, so that the next try resumes;
    ``shared``: a client's own files, kept for other fetches.
    """

    source: FetchSource
    place: Path
    final: Path
    downloads: Path
    shared: Path
    custody: Custody
    progress: Progress

    @property
    def root(self) -> Path:
        """The directory for a server's or a glibc's files."""
        return self.place / "root"

    def run(
        self,
        argv: list[str],
        task: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        on_line: Callable[[str], None] = lambda line: None,
        user: ServerUser | None = None,
        seconds: float = math.inf,
    ) -> str:
        """Run a client to its end as a child of the guardian, so that it does not outlive us, and
        return its output. Raises Failure with the client's reason if it fails, takes longer than
        ``seconds`` or prints too much.

        ``task``: what is being done, for the message; ``on_line``: called with each line as it
        comes; ``user``: the user it runs as if not ourselves, with nothing of our environment but
        PATH.
        """
        inherited = (
            os.environ if user is None else {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}
        )
        log = self.place / "client.log"
        write_own(log, "", private=True)
        child = self.custody.spawn(
            argv,
            {**inherited, "LC_ALL": "C.UTF-8", **(env or {})},
            log,
            cwd=os.fspath(cwd or self.place),
            **(user.as_spawn() if user else {}),
        )
        deadline = time.monotonic() + seconds
        rest = ""
        with log.open(encoding="utf-8", errors="replace") as f:
            exit_ = None
            while exit_ is None:
                exit_ = child.wait(_POLL)
                if excess := _find_excess(log, deadline):
                    child.stop(signal.SIGTERM, _GRACE)
                    raise Failure(f"{self.source.reference}: {task} was ended: it {excess}")
                *lines, rest = (rest + f.read()).split("\n")
                for line in lines:
                    on_line(line)
        text = log.read_text(encoding="utf-8", errors="replace")
        if exit_.status != 0:
            raise Failure(f"{self.source.reference}: {task}: {find_reason(text) or exit_.words}")
        return text


def _find_excess(log: Path, deadline: float) -> str:
    """Return in words what a client has too much of; empty if nothing."""
    if time.monotonic() > deadline:
        return "took too long"
    if log.stat().st_size > _MOST_OUTPUT:
        return f"printed more than {_MOST_OUTPUT >> 20} MiB"
    return ""


def find_reason(text: str) -> str:
    """Find the line of a client's output that says why it failed; else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for pattern in _REASONS:
        if line := next((line for line in lines if pattern.search(line)), None):
            return line.removeprefix("E: ").removeprefix("[ERROR] ")
    return lines[-1] if lines else ""


def describe_file(path: Path, origin: str) -> DownloadedFile:
    """Describe a downloaded file, with its hash."""
    with path.open("rb") as f:
        digest = hashlib.file_digest(f, "sha256").hexdigest()
    return DownloadedFile(path.name, path.stat().st_size, digest, origin)


def check_hash(file: DownloadedFile, wanted: str, reference: str) -> None:
    """Raises Failure unless the file has the expected hash."""
    if file.sha256 != wanted.lower():
        raise Failure(
            f"{reference}: {file.name} has the sha256 {file.sha256}, not {wanted.lower()}: "
            "a broken download, or another file; nothing was kept"
        )
