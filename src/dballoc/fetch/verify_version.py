"""Whether what was fetched is what was asked for, before it counts: a server says its version, as
the server user; a library is one.
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
    """The exact version. Failure if it does not run, is another version, or is no library
    at all.
    """
    if job.source.kind == "server":
        return _verify_server(job, fetched)
    for path in fetched.libraries:
        if not elf_exports.is_elf(job.place / path):
            raise Failure(f"{job.source.reference}: {path} is not a shared library")
    if not fetched.libraries and fetched.loader is None:
        raise Failure(f"{job.source.reference}: nothing in it that can be preloaded")
    return fetched.version


def _verify_server(job: Job, fetched: FetchedTree) -> str:
    if (program := installed_layout.find_server_program(job.root)) is None:
        raise Failure(f"{job.source.reference}: no server in what was fetched")
    argv = [os.fspath(program), "--no-defaults", "--version"]
    if fetched.loader:
        # Its own interpreter is named by the place where it will lie.
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
    if job.source.client != "archive" and not name_and_version.fits(job.source.version, version):
        raise Failure(
            f"{job.source.reference}: the source gives {version} now, not {job.source.version}"
        )
    return version
