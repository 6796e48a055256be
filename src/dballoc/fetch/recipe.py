"""Building an allocator from its sources by its recipe, a few lines of shell in sources.toml."""

import os
import shutil
from importlib.resources import files
from pathlib import Path

from dballoc.errors import Failure, UsageError
from dballoc.fetch.job import Job


def build(job: Job, sources: Path) -> list[str]:
    """Run the recipe on a copy of the sources; the libraries that it has put into $OUT. Failure in the compiler's words."""
    row = job.source.row
    out, tree = job.place / "lib", job.place / "build"
    out.mkdir()
    shutil.copytree(sources, tree)
    job.progress(f"building {job.source.reference}", None)
    glue = str(files("dballoc.fetch") / "glue")
    env = {"OUT": os.fspath(out), "JOBS": str(len(os.sched_getaffinity(0))), "GLUE": glue}
    job.run(["sh", "-eu", "-c", row["build"]], "its build", env, cwd=tree)
    shutil.rmtree(tree)
    found = [f"lib/{path.name}" for path in sorted(out.glob("*.so*"))]
    if not found:
        raise Failure(f"{job.source.reference}: its build made no library")
    return found


def needs(reference: str, tools: list[str]) -> None:
    """UsageError that names the first of some programs that is not here, and the package that brings it."""
    packages = {"cargo": "cargo", "cc": "gcc", "c++": "g++", "make": "make", "cmake": "cmake"}
    for tool in tools:
        if shutil.which(tool) is None:
            raise UsageError(
                f"{tool} is not on this machine: {reference} is built here from its sources; install it: apt-get install "
                f"{packages[tool]}, or give a library of your own by path: preload = [PATH] in a variant"
            )
