"""Fetch allocators' libraries from Python wheels, with pip, whose own settings name the index."""

import os
import shutil
import sys

from dballoc.fetch.clients import archive
from dballoc.fetch.fetch_job import FetchedTree, FetchJob, describe_file
from dballoc.fetch.unpack import installed_layout
from dballoc.ground.errors import Failure


def fetch_wheel(job: FetchJob) -> FetchedTree:
    """Fetch the wheel, whose hash pip checks, and take the allocator's library out of it."""
    row = job.source.row
    requirement = f"{row['package']}=={row['release']}"
    wanted = job.downloads / "requirements.txt"
    wanted.write_text(f"{requirement} --hash=sha256:{row['sha256']}\n")
    job.progress(f"downloading {requirement}", None)
    job.run(
        [
            sys.executable,
            "-I",
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
            "--no-deps",
            "--only-binary=:all:",
            "--require-hashes",
            "--dest",
            os.fspath(job.downloads),
            "--requirement",
            os.fspath(wanted),
        ],
        "pip download",
    )
    wheel = next(job.downloads.glob("*.whl"), None)
    if wheel is None:
        raise Failure(f"{job.source.reference}: pip did not download {requirement}")
    tree = job.place / "unpacked"
    archive.unpack_archive(job, wheel, tree)
    libraries = installed_layout.copy_libraries(job, tree, beside=False)
    shutil.rmtree(tree)
    return FetchedTree(
        version=row["release"], files=[describe_file(wheel, requirement)], libraries=libraries
    )
