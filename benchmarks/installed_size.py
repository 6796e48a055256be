"""How much there is to download and to install of dballoc: of a plain install, and of each extra.

    python benchmarks/installed_size.py [--wheel FILE]

Needs pip and the package index that it is configured for. The requirements of pyproject.toml are
resolved with the pins of tools/constraints.txt, and their wheels for this Python are downloaded;
unpacked is what is in them. Of an extra it is all that `pip install 'dballoc[EXTRA]'` brings.
--wheel: dballoc's own, which counts in each. Printed beside it: py-spy and memray, the newest.
Promised: 15 MB of wheels for a plain install. Exit status 1 if there is more.
"""

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROMISED = 15.0
# The largest wheels that are named in a line.
NAMED = 4


def list_requirements(group: str) -> list[str]:
    """Return the requirements of a plain install ("light"), or of an extra."""
    command: list[str | Path] = [sys.executable, ROOT / "tools" / "requirements", group]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def download(requirements: list[str], directory: Path, pinned: bool) -> list[Path]:
    """Download the wheels of requirements and of what they need. SystemExit with pip's words."""
    pins = ["--constraint", str(ROOT / "tools" / "constraints.txt")] if pinned else []
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--only-binary", ":all:", "--dest", str(directory), *pins, *requirements),
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
    """Download everything, print the table; 1 if a plain install is too large."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--wheel", type=Path)
    args = parser.parse_args()
    own = [args.wheel] if args.wheel else []
    core = list_requirements("light")
    sizes = {}
    print("what             | wheels | MB to get | installed | the largest, MB")
    for title, requirements, pinned in (
        ("dballoc", core, True),
        *(
            (f"dballoc[{extra}]", [*core, *list_requirements(extra)], True)
            for extra in ("report", "bench", "tune", "hosts", "all")
        ),
        ("py-spy", ["py-spy"], False),
        ("memray", ["memray"], False),
    ):
        with tempfile.TemporaryDirectory() as directory:
            wheels = download(requirements, Path(directory), pinned)
            sizes[title] = print_size(title, [*wheels, *(own if pinned else [])])
    return int(sizes["dballoc"] > PROMISED)


if __name__ == "__main__":
    sys.exit(main())
