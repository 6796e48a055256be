"""The rules of the house (tools/check-structure): the package keeps them, and breaking one is seen."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check-structure"


def check(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, TOOL, *map(str, words)], capture_output=True, text=True, check=False
    )


def test_the_package_keeps_them() -> None:
    result = check()
    assert (result.returncode, result.stderr) == (0, "")
    figures = [int(line.split()[0]) for line in result.stdout.splitlines()]
    assert figures == [0] * 7


DATACLASS = "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass C:\n"
FIELDS = "".join(f"    f{i}: int\n" for i in range(5))
BREACHES = {
    "a circle in a room": (
        {"store/a.py": "from dballoc.store import b\n", "store/b.py": "import dballoc.store.a\n"},
        "store.a - store.b",
    ),
    "an import that runs back up": (
        {"host/a.py": "def f():\n    from dballoc.campaign import b\n", "campaign/b.py": ""},
        "host/a.py:2: host imports campaign",
    ),
    "an import between rooms of a storey": (
        {"profile/a.py": "from dballoc.load import b\n", "load/b.py": ""},
        "profile/a.py:1: profile imports load",
    ),
    "profile imports explain": (
        {"profile/a.py": "from dballoc.explain import b\n", "explain/b.py": ""},
        "profile/a.py:1: profile imports explain",
    ),
    "a pure room that imports more": (
        {"report/a.py": "from dballoc.servers import b\n", "servers/b.py": ""},
        "report/a.py:1: report imports servers, and may not",
    ),
    "a room that nobody knows": (
        {"attic/a.py": "from dballoc import errors\n", "errors.py": ""},
        "of which one is in no storey",
    ),
    "a crowded room": ({f"host/m{i}.py": "" for i in range(16)}, "host: 16"),
    "a long function": ({"host/a.py": "def f():\n" + "    pass\n" * 60}, "host/a.py:1: f: 61"),
    "a call by position": ({"host/a.py": "f(1, 2, 3, 4, 5, 6, 7)\n"}, "host/a.py:1: f: 7"),
    "a dataclass by position": ({"host/a.py": DATACLASS + FIELDS}, "host/a.py:3: C: 5"),
    "an empty name": ({"host/a.py": "found = 1\n"}, "host/a.py:1: found"),
    "an empty parameter": ({"host/a.py": "def f(said): pass\n"}, "host/a.py:1: said"),
}


@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_is_seen(name: str, tmp_path: Path) -> None:
    files, place = BREACHES[name]
    root = tmp_path / "dballoc"
    for path, text in {"__init__.py": "", **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    result = check(root)
    assert result.returncode == 1
    assert place in result.stderr


def test_what_keeps_the_rules_is_let_be(tmp_path: Path) -> None:
    root = tmp_path / "dballoc"
    (root / "host").mkdir(parents=True)
    (root / "errors.py").write_text("")
    (root / "host" / "a.py").write_text(
        "from dballoc import errors\n" + DATACLASS.replace("frozen", "kw_only") + FIELDS
    )
    result = check(root)
    assert (result.returncode, result.stderr) == (0, "")
