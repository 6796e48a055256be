"""Verify that what was fetched is what was requested: a server reports its version, running as the
server user; a library is an ELF file.
"""

import os
import re

from dballoc.errors import Failure
from dballoc.fetch import name_and_version
from dballoc.fetch.fetch_job import FetchedTree, Job
from dballoc.fetch.unpack import installed_layout
from dballoc.host.elf import elf_exports
from dballoc.host.unprivileged.run_unprivileged import Unanswered, run_unprivileged

_VERSION = re.compile(r"Ver ([\d.]+)")


def verify_version(job: Job, fetched: FetchedTree) -> str:
    """Return the exact version. Failure if a server does not run or is another version, or if a
    library is none.
    """
    if job.source.kind == "server":
        return _verify_server(job, fetched)
    for path in fetched.libraries:
        if not elf_exports.is_elf(job.place / path):
            raise Failure(f"{job.source.reference}: {path} is not a shared library")
    if not fetched.libraries and fetched.loader is None:
        raise Failure(f"{job.source.reference}: no library to preload in the download")
    return fetched.version


def _verify_server(job: Job, fetched: FetchedTree) -> str:
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
