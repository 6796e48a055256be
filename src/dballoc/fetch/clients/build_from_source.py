"""Build an allocator from its sources: by its recipe, a few lines of shell in sources.toml, or as
most sources are built.
"""

import os
import shutil
from importlib.resources import files
from pathlib import Path

from dballoc.fetch.fetch_job import FetchJob
from dballoc.fetch.unpack import installed_layout
from dballoc.fetch.unpack import safe_extraction as unpacked
from dballoc.ground.errors import Failure, UsageError
from dballoc.host.unprivileged.ownership import hand_over, remove_directory, take_files
from dballoc.host.unprivileged.server_user import server_user

# What builds sources that the catalogue has no recipe for.
CONFIGURE = "configure, make, make install"
_CONFIGURE_BUILD = """
./configure --prefix="$PWD/installed-here"
make -j"$JOBS"
make install
find installed-here -name '*.so*' -exec cp -L {} "$OUT/" \\;
"""
# Seconds that a build may take. LLVM's and the servers' own take longer; no malloc does.
_LONGEST_BUILD = 3600.0
# The largest file that it may write, in blocks of 512 bytes: 2 GiB.
_LARGEST_FILE = 2**22


def build_configured(job: FetchJob, sources: Path) -> list[str]:
    """Build sources that have a ``configure``, and return the paths of the allocator's libraries
    among those that they install. Raises UsageError for missing tools, Failure if one of the
    libraries is not there.
    """
    check_build_tools(job.source.reference, ["cc", "make"])
    build_libraries(job, sources, _CONFIGURE_BUILD)
    every = (job.place / "lib").rename(job.place / "installed")
    libraries = installed_layout.copy_libraries(job, every, beside=False)
    shutil.rmtree(every)
    return libraries


def build_libraries(job: FetchJob, sources: Path, script: str) -> list[str]:
    """Run a build script on a copy of the sources, as the server user since it runs their scripts.
    Copy the libraries that it has put into $OUT to ``lib``, and return their paths. Raises Failure
    with the compiler's reason.
    """
    user = server_user()
    out, tree, glue = (
        job.place / "built",
        job.place / "build",
        Path(str(files("dballoc.fetch") / "glue")),
    )
    if blocked := user.may_not_pass(job.place):
        raise UsageError(
            f"{job.place}: builds run as {user.name}, which may not enter {blocked}; set "
            "DBALLOC_STORE to a directory that every user may enter"
        )
    if blocked := user.may_not_pass(glue):
        raise UsageError(
            f"{glue}: builds run as {user.name}, which may not enter {blocked}; chmod o+x {blocked}"
        )
    user.check_alone()
    try:
        unpacked.check_tree(sources)
    except unpacked.UnsafeArchive as error:
        raise Failure(f"{job.source.reference}: its sources cannot be unpacked: {error}") from None
    shutil.copytree(sources, tree, symlinks=True)
    out.mkdir()
    for directory in (tree, out):
        hand_over(directory, user)
    job.progress(f"building {job.source.reference}", None)
    env = {
        "OUT": os.fspath(out),
        "JOBS": str(len(os.sched_getaffinity(0))),
        "GLUE": os.fspath(glue),
        "HOME": os.fspath(tree),
    }
    job.run(
        ["sh", "-eu", "-c", f"ulimit -f {_LARGEST_FILE}\n{script}"],
        "its build",
        env,
        cwd=tree,
        user=user,
        seconds=_LONGEST_BUILD,
    )
    target = job.place / "lib"
    target.mkdir()
    libraries = [f"lib/{name}" for name in take_files(out, target, "*.so*")]
    for directory in (tree, out):
        remove_directory(directory)
    if not libraries:
        raise Failure(f"{job.source.reference}: its build produced no library")
    return libraries


def check_build_tools(reference: str, tools: list[str]) -> None:
    """Raises UsageError if one of some programs is missing, with the package that has it."""
    packages = {"cargo": "cargo", "cc": "gcc", "c++": "g++", "make": "make", "cmake": "cmake"}
    for tool in tools:
        if shutil.which(tool) is None:
            raise UsageError(
                f"{tool} is not on this machine: {reference} is built here from its sources; "
                "install it: apt-get install "
                f"{packages[tool]}, or give a library of your own by path: preload = [PATH] in a "
                "variant"
            )
