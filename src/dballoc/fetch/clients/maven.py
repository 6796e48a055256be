"""Fetch servers that are published as Maven artifacts, with mvn, whose own settings name the
repositories and mirrors.
"""

import os
import re
import shutil
from pathlib import Path
from typing import Any

from dballoc.fetch.clients import archive
from dballoc.fetch.clients.debian_apt import ALONE, Apt, unpack_packages
from dballoc.fetch.fetch_job import DownloadedFile, FetchedTree, FetchJob, check_hash, describe_file
from dballoc.fetch.unpack import installed_layout
from dballoc.ground.errors import Failure, UsageError
from dballoc.host.elf import patch_elf

# A fixed release of the plugin, so that all machines do the same.
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_PROGRESS = re.compile(r"Progress \(\d+\): .*?([\d.]+)/([\d.]+) [kM]B")


def fetch_artifact(job: FetchJob) -> FetchedTree:
    """Fetch the artifact (group:artifact:version[:packaging[:classifier]]), check its hash, unpack
    it.
    """
    row = job.source.row
    path = _download_artifact(job, row["artifact"])
    file = describe_file(path, row["artifact"])
    try:
        check_hash(file, row["sha256"], job.source.reference)
    except Failure:
        shutil.rmtree(job.downloads)
        raise
    archive.unpack_archive(job, path, job.root, row["keep"])
    archive.raise_server_top(job)
    files = [file]
    if "beside" in row:
        files += _add_libraries(job)
    return FetchedTree(version="", files=files)


def _download_artifact(job: FetchJob, artifact: str) -> Path:
    mvn = shutil.which("mvn")
    if mvn is None:
        raise UsageError(
            f"mvn is not on this machine: {job.source.reference} is a Maven artifact ({artifact}); "
            "install it: apt-get install maven, "
            f"or give the file: --from FILE|URL --sha256 {job.source.row['sha256']}"
        )
    group, name, version, packaging, *classifier = [*artifact.split(":"), "jar"][
        : max(4, artifact.count(":") + 1)
    ]
    repository = job.downloads / "repository"
    file = f"{name}-{version}{''.join('-' + c for c in classifier)}.{packaging}"
    path = repository / group.replace(".", "/") / name / version / file

    def watch(line: str) -> None:
        if amounts := _PROGRESS.findall(line):
            job.progress(
                f"downloading {name} {version}",
                float(amounts[-1][0]) / max(float(amounts[-1][1]), 1e-9),
            )

    job.progress(f"downloading {name} {version}", None)
    # The artifact goes to a repository of our own, so that it is not stored twice; mvn's plugins
    # stay in its own.
    words = [f"-Dartifact={artifact}", "-Dtransitive=false", f"-Dmaven.repo.local={repository}"]
    job.run([mvn, "--batch-mode", f"{_PLUGIN}:get", *words], "mvn dependency:get", on_line=watch)
    if not path.exists():
        raise Failure(f"{job.source.reference}: mvn did not download {artifact}")
    return path


def _download_from_first_suite(job: FetchJob, row: dict[str, Any]) -> dict[Path, str]:
    for suite in row["suites"]:
        try:
            apt = Apt(job, suite)
            apt.update()
            return apt.get(row["packages"], *ALONE)
        except Failure:
            if suite == row["suites"][-1]:
                raise
    raise AssertionError("no suite named")


def _add_libraries(job: FetchJob) -> list[DownloadedFile]:
    """Add libraries of a Debian suite to the server's tree: those that it is linked against and
    that not every machine has.
    """
    archives = _download_from_first_suite(job, job.source.row["beside"])
    tree = job.place / "beside"
    unpack_packages(job, list(archives), tree)
    target = job.root / "lib" / "beside"
    target.mkdir(parents=True)
    for path in tree.rglob("*.so*"):
        if path.is_file():
            shutil.copy2(path.resolve(), target / path.name)
    shutil.rmtree(tree)
    program = installed_layout.find_server_program(job.root)
    assert program
    patch_elf.relink(
        program,
        None,
        [
            *patch_elf.read_search_path(program),
            f"$ORIGIN/{os.path.relpath(target, program.parent)}",
        ],
    )
    return [describe_file(path, origin) for path, origin in archives.items()]
