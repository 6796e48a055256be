"""One fetch under way: what a client is given, and what it gives back."""

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dballoc.errors import Failure
from dballoc.fetch.fetch_sources import Source
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.unprivileged.server_user import ServerUser

# How often a client's output is looked at, in seconds.
_POLL = 0.1
# Lines of a client that say why it failed, the plainest first.
_REASONS = (
    re.compile(r"No space left on device"),
    re.compile(
        r"^E: |^ERROR: |^\[ERROR\] |^error(\[\w+\])?: |: error: |\bfatal error\b", re.IGNORECASE
    ),
)

# What is being done, and which share of it, None where nobody knows.
Progress = Callable[[str, float | None], None]


@dataclass(frozen=True)
class DownloadedFile:
    """A file that was downloaded. ``sha256`` of what came."""

    name: str
    size: int
    sha256: str
    origin: str

    def row(self) -> dict[str, Any]:
        """For the manifest."""
        return {"name": self.name, "bytes": self.size, "sha256": self.sha256, "from": self.origin}


@dataclass(frozen=True, kw_only=True)
class FetchedTree:
    """What a client has put into :attr:`Job.place`. Paths are relative to it; ``version`` is what
    it exactly is.
    """

    version: str
    files: list[DownloadedFile]
    libraries: list[str] = field(default_factory=list)
    loader: str | None = None
    # The directories of a prefix's own libraries, for :mod:`dballoc.fetch.verify_version`.
    search: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Job:
    """``place``: the empty directory to fill, ``final``: where it will lie; ``downloads``: kept
    until the fetch has worked, so that the next try goes on; ``shared``: a client's own, kept for
    other fetches.
    """

    source: Source
    place: Path
    final: Path
    downloads: Path
    shared: Path
    custody: Custody
    progress: Progress

    @property
    def root(self) -> Path:
        """Where a server's or a glibc's files go."""
        return self.place / "root"

    def run(
        self,
        argv: list[str],
        task: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        on_line: Callable[[str], None] = lambda line: None,
        user: ServerUser | None = None,
    ) -> str:
        """Run a client to its end, by the guardian, so that it does not outlive us. Its output;
        Failure in its words.

        ``task`` is being done, for the message; ``on_line`` sees each line as it comes; ``user``:
        whom it runs as, with nothing of our environment but PATH, where that is not ourselves.
        """
        inherited = (
            os.environ if user is None else {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}
        )
        log = self.place / "client.log"
        log.write_bytes(b"")
        child = self.custody.spawn(
            argv,
            {**inherited, "LC_ALL": "C.UTF-8", **(env or {})},
            log,
            cwd=os.fspath(cwd or self.place),
            **(user.as_spawn() if user else {}),
        )
        rest = ""
        with log.open(encoding="utf-8", errors="replace") as f:
            exit_ = None
            while exit_ is None:
                exit_ = child.wait(_POLL)
                *lines, rest = (rest + f.read()).split("\n")
                for line in lines:
                    on_line(line)
        text = log.read_text(encoding="utf-8", errors="replace")
        if exit_.status != 0:
            raise Failure(f"{self.source.reference}: {task}: {find_reason(text) or exit_.words}")
        return text


def find_reason(text: str) -> str:
    """The line of a client's output that says why it failed; its last one else."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for pattern in _REASONS:
        if line := next((line for line in lines if pattern.search(line)), None):
            return line.removeprefix("E: ").removeprefix("[ERROR] ")
    return lines[-1] if lines else ""


def describe_file(path: Path, origin: str) -> DownloadedFile:
    """A downloaded file, hashed."""
    with path.open("rb") as f:
        digest = hashlib.file_digest(f, "sha256").hexdigest()
    return DownloadedFile(path.name, path.stat().st_size, digest, origin)


def check_hash(file: DownloadedFile, wanted: str, reference: str) -> None:
    """Failure unless the file has the hash that is wanted of it."""
    if file.sha256 != wanted.lower():
        raise Failure(
            f"{reference}: {file.name} has the sha256 {file.sha256}, not {wanted.lower()}: "
            "a broken download, or not the file that is meant; nothing was kept"
        )
