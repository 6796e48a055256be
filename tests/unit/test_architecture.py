"""The rules of the house (docs/architecture.md): which room may import which."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import dballoc

ROOT = Path(dballoc.__file__).parent
# Open to every room: the two kinds of error, numbers as text, bounded reading, the version.
OPEN = {"errors", "numbers", "readers", ""}

# What a room may import at most, beside itself.
ALLOWED = {
    "experiment": set(),
    "catalogue": set(),
    "store": {"experiment"},
    "analysis": {"experiment", "profile", "store"},
    "report": {"analysis", "experiment", "profile", "webpage"},
    "webpage": set(),
    "intake": {"experiment", "store"},
    "deploy": {"allocators", "analysis", "catalogue", "experiment"},
}
# What a room must not import.
FORBIDDEN = {
    "allocators": {"campaign", "analysis", "report", "store"},
    "fetch": {
        "campaign",
        "analysis",
        "report",
        "store",
        "servers",
        "allocators",
        "load",
        "measure",
    },
    "servers": {"campaign", "analysis", "report", "store", "load", "measure"},
    "load": {"campaign", "analysis", "report", "store", "measure"},
    "measure": {"campaign", "analysis", "report", "store", "servers", "load"},
    "host": {"campaign", "analysis", "report", "store", "servers", "load", "measure"},
    "explain": {"campaign", "analysis", "report", "store", "load", "measure"},
    "profile": {"campaign", "analysis", "report", "store"},
    "campaign": {"report"},
}


def imports() -> dict[str, dict[str, list[str]]]:
    """room -> room it imports -> the places where it does."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).parts
        room = parts[0] if len(parts) > 1 else ""
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}:{node.lineno}: a relative import"
                names = [node.module or ""]
                if node.module == "dballoc":
                    names = [f"dballoc.{alias.name}" for alias in node.names]
            for name in names:
                if name.split(".")[0] == "dballoc":
                    target = name.partition(".")[2].partition(".")[0]
                    found[room][target].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


IMPORTS = imports()


def test_there_is_something_to_check() -> None:
    assert {"experiment", "campaign", "store", "servers", "cli"} <= set(IMPORTS)
    assert IMPORTS["campaign"]["servers"], "imports are not found any more"


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_no_more_than_it_may(room: str) -> None:
    beyond = {
        t: places for t, places in IMPORTS[room].items() if t not in ALLOWED[room] | OPEN | {room}
    }
    assert not beyond


@pytest.mark.parametrize("room", FORBIDDEN)
def test_a_room_does_not_reach_up(room: str) -> None:
    assert not {t: places for t, places in IMPORTS[room].items() if t in FORBIDDEN[room]}


def test_nothing_imports_the_command_line() -> None:
    above = {
        room: targets["cli"]
        for room, targets in IMPORTS.items()
        if "cli" in targets and room not in ("cli", "")
    }
    assert not above
    # __main__.py is the one door.
    assert [p.partition(":")[0] for p in IMPORTS[""]["cli"]] == ["__main__.py"]
