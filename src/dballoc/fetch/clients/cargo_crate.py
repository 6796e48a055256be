"""Fetch allocators whose C and C++ sources are published as crates: cargo downloads and verifies
them, a recipe builds a shared library.
"""

import tomllib
from pathlib import Path

from dballoc.fetch.clients.build_from_source import build_libraries, check_build_tools
from dballoc.fetch.fetch_job import DownloadedFile, FetchedTree, FetchJob
from dballoc.ground.errors import Failure

_MANIFEST = """[package]
name = "throw-away"
version = "0.0.0"
edition = "2018"

[dependencies]
"{crate}" = "={version}"
"""


def fetch_crate(job: FetchJob) -> FetchedTree:
    """Fetch the crate, check its hash, and run the recipe on its sources."""
    row = job.source.row
    check_build_tools(job.source.reference, ["cargo", *row["tools"]])
    project = job.downloads / "project"
    (project / "src").mkdir(parents=True, exist_ok=True)
    (project / "src/lib.rs").touch()
    (project / "Cargo.toml").write_text(
        _MANIFEST.format(crate=row["crate"], version=row["release"])
    )
    job.progress(f"downloading {row['crate']} {row['release']}", None)
    job.run(["cargo", "generate-lockfile"], "cargo generate-lockfile", cwd=project)
    checksum = read_locked_checksum(project / "Cargo.lock", row["crate"])
    if checksum != row["sha256"]:
        raise Failure(
            f"{job.source.reference}: {row['crate']} {row['release']} has the sha256 {checksum}, "
            f"not {row['sha256']}; "
            "nothing was kept"
        )
    job.run(["cargo", "vendor", "--locked", "vendor"], "cargo vendor", cwd=project)
    origin = f"crate {row['crate']} {row['release']}"
    libraries = build_libraries(job, project / "vendor" / row["crate"], row["build"])
    size = sum(f.lstat().st_size for f in (project / "vendor" / row["crate"]).rglob("*"))
    return FetchedTree(
        version=job.source.version,
        files=[DownloadedFile(origin, size, checksum, "cargo")],
        libraries=libraries,
    )


def read_locked_checksum(path: Path, crate: str) -> str:
    """Read the hash of a crate in a lock file; cargo verifies what it downloads against it."""
    packages = tomllib.loads(path.read_text(encoding="utf-8"))["package"]
    return next(str(p["checksum"]) for p in packages if p["name"] == crate)
