"""What is installed is pinned by version and hash, and the pins are what pyproject.toml asks for."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[3]
GROUPS = sorted(path.stem for path in (ROOT / "tools/locks").iterdir())
# A package, and the hashes of its files.
PIN = re.compile(
    r"([a-z0-9-]+)==([^\s;]+)(?: ; [^\\\n]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n"
)


def read_pins(text: str) -> dict[str, Version]:
    """Return the version of each package; AssertionError if anything else is in there."""
    assert PIN.sub("", text) == ""
    return {name: Version(version) for name, version, _ in PIN.findall(text)}


def list_misfits(requirements: list[str], pins: dict[str, Version]) -> list[str]:
    """Return the requirements that no pin satisfies."""
    parsed = map(Requirement, requirements)
    return [
        str(one)
        for one in parsed
        if (version := pins.get(canonicalize_name(one.name))) is None
        or not one.specifier.contains(version, prereleases=True)
    ]


@pytest.mark.parametrize("group", GROUPS)
def test_a_lock_fits_what_is_asked_for(group: str) -> None:
    done = subprocess.run(
        [sys.executable, "-I", ROOT / "tools/requirements", group],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    requirements = done.stdout.splitlines()
    assert requirements
    pins = read_pins((ROOT / f"tools/locks/{group}.txt").read_text())
    assert list_misfits(requirements, pins) == [], f"tools/locks/{group}.txt: run make lock"


def test_a_package_has_one_version_in_all_locks() -> None:
    run = read_pins((ROOT / "tools/locks/run.txt").read_text())
    for group in ("dev", "portable", "release"):
        pins = read_pins((ROOT / f"tools/locks/{group}.txt").read_text())
        assert {name: run[name] for name in pins if name in run} == {
            name: version for name, version in pins.items() if name in run
        }


def test_what_does_not_fit_is_told() -> None:
    pins = {"pymysql": Version("1.2.4"), "typer": Version("1.0")}
    wanted = ["PyMySQL[rsa]>=1.1", "typer>=0.20,<1", "rich>=13.9"]
    assert list_misfits(wanted, pins) == ["typer<1,>=0.20", "rich>=13.9"]


@pytest.mark.parametrize("line", ["rich==15.0.0\n", "rich>=13 \\\n    --hash=sha256:" + "0" * 64])
def test_a_pin_without_a_version_or_a_hash_is_told(line: str) -> None:
    with pytest.raises(AssertionError):
        read_pins(line)


def test_every_list_is_installed_by_hash_and_from_wheels_alone() -> None:
    """A wheel runs nothing when it is installed; to build an sdist would run what has no hash."""
    installing = set()
    places = ["Makefile", "tools/**/*", "benchmarks/**/*.py", "tests/emulated/*.py"]
    for path in (path for place in places for path in ROOT.glob(place)):
        if not path.is_file() or path.suffix == ".pyc" or path.parent.name == "locks":
            continue
        text = path.read_text()
        lists = re.findall(r"\S+\W+--requirement\b", text)
        assert all(words.strip("[\"'").startswith("--require-hashes") for words in lists), path
        assert not lists or "--only-binary" in text, path
        installing |= {path.name} if lists else set()
    assert installing == {
        "Makefile", "lock", "build_wheels.py", "build_portable.py", "fresh_hosts.py",
        "installed_size.py", "aarch64_image.py",
    }  # fmt: skip
