"""How much there is to download and to install of dballoc: of a plain install, and of each extra.

    python benchmarks/installed_size.py [--wheel FILE]

Needs pip and the package index that it is configured for. The wheels of tools/locks/run.txt for
this Python are downloaded, and the requirements of pyproject.toml resolved among these; unpacked is
what is in them. Of an extra it is all that `pip install 'dballoc[EXTRA]'` brings.
--wheel: dballoc's own, which counts in each. Printed beside it: py-spy and memray, the newest.
Promised: 15 MB of wheels for a plain install, 20 MB for what only measures. Exit status 1 if there
is more.
"""

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Megabytes of wheels, at most.
PROMISED = {"dballoc": 15.0, "dballoc[measure]": 20.0}
# The largest wheels that are named in a line.
NAMED = 4


def list_requirements(group: str) -> list[str]:
    """Return the requirements of a plain install ("light"), or of an extra."""
    command: list[str | Path] = [sys.executable, "-I", ROOT / "tools" / "requirements", group]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def download(directory: Path, *words: str | Path) -> list[Path]:
    """Download wheels, as these words of pip's say. SystemExit with pip's words."""
    command = [
        *(sys.executable, "-I", "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--only-binary", ":all:", "--dest", directory, *words),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"installed_size: {done.stderr.strip()}")
    return sorted(directory.glob("*.whl"), key=lambda path: -path.stat().st_size)


def print_size(title: str, wheels: list[Path]) -> float:
    """Print a line of the table; return the megabytes of the wheels."""
    size = sum(path.stat().st_size for path in wheels) / 1e6
    unpacked = 0
    for path in wheels:
        with zipfile.ZipFile(path) as wheel:
            unpacked += sum(entry.file_size for entry in wheel.infolist())
    largest = ", ".join(
        f"{' '.join(path.name.split('-')[:2])} {path.stat().st_size / 1e6:.1f}"
        for path in wheels[:NAMED]
    )
    print(
        f"{title:16} | {len(wheels):6} | {size:9.1f} | {unpacked / 1e6:9.1f} | {largest}",
        flush=True,
    )
    return size


def main() -> int:
    """Download everything, print the table; 1 if something is larger than promised."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--wheel", type=Path)
    args = parser.parse_args()
    own = [args.wheel] if args.wheel else []
    core = list_requirements("light")
    sizes = {}
    print("what             | wheels | MB to get | installed | the largest, MB")
    with tempfile.TemporaryDirectory() as scratch:
        pinned = Path(scratch) / "pinned"
        download(pinned, "--require-hashes", "--requirement", ROOT / "tools/locks/run.txt")
        for extra in ("", "measure", "report", "bench", "tune", "hosts", "all"):
            requirements = [*core, *(list_requirements(extra) if extra else [])]
            among: list[str | Path] = ["--no-index", "--find-links", pinned]
            wheels = download(Path(scratch) / f"of {extra}", *among, *requirements)
            title = f"dballoc[{extra}]" if extra else "dballoc"
            sizes[title] = print_size(title, [*wheels, *own])
        for package in ("py-spy", "memray"):
            print_size(package, download(Path(scratch) / package, package))
    return int(any(sizes[title] > most for title, most in PROMISED.items()))


if __name__ == "__main__":
    sys.exit(main())
