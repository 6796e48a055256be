"""Allocators whose C and C++ sources come as crates: cargo downloads and verifies them, a recipe builds a shared library."""

import os
import shutil
import tomllib
from pathlib import Path

from dballoc.errors import Failure, UsageError
from dballoc.fetch.job import Brought, File, Job

_MANIFEST = """[package]
name = "throw-away"
version = "0.0.0"
edition = "2018"

[dependencies]
"{crate}" = "={version}"
"""


def bring(job: Job) -> Brought:
    """Fetch the crate, check its hash, and run the source's recipe on its sources."""
    row = job.source.row
    needs(job.source.reference, ["cargo", *row["tools"]])
    project = job.downloads / "project"
    (project / "src").mkdir(parents=True, exist_ok=True)
    (project / "src/lib.rs").touch()
    (project / "Cargo.toml").write_text(_MANIFEST.format(crate=row["crate"], version=row["release"]))
    job.progress(f"downloading {row['crate']} {row['release']}", None)
    job.run(["cargo", "generate-lockfile"], "cargo generate-lockfile", cwd=project)
    checksum = locked(project / "Cargo.lock", row["crate"])
    if checksum != row["sha256"]:
        raise Failure(
            f"{job.source.reference}: {row['crate']} {row['release']} has the sha256 {checksum}, not {row['sha256']}; "
            "nothing was kept"
        )
    job.run(["cargo", "vendor", "--locked", "vendor"], "cargo vendor", cwd=project)
    origin = f"crate {row['crate']} {row['release']}"
    libraries = build(job, project / "vendor" / row["crate"])
    size = sum(f.stat().st_size for f in (project / "vendor" / row["crate"]).rglob("*") if f.is_file())
    return Brought(job.source.version, [File(origin, size, checksum, "cargo")], libraries)


def locked(path: Path, crate: str) -> str:
    """The hash that a lock file has of a crate, to which cargo holds what it downloads."""
    packages = tomllib.loads(path.read_text(encoding="utf-8"))["package"]
    return next(str(p["checksum"]) for p in packages if p["name"] == crate)


def build(job: Job, sources: Path) -> list[str]:
    """Run the recipe on a copy of the sources; the libraries that it has put into $OUT. Failure in the compiler's words."""
    row = job.source.row
    out, tree = job.place / "lib", job.place / "build"
    out.mkdir()
    shutil.copytree(sources, tree)
    job.progress(f"building {job.source.reference}", None)
    env = {"OUT": os.fspath(out), "JOBS": str(len(os.sched_getaffinity(0)))}
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
