"""The paths of source files that the docs name are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
# A name in backquotes, with or without directories; a word in capitals stands for many files.
_PATH = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|c|h|lua|toml|sql|j2))`")
# Files of users and of other projects that the pages speak of.
_OTHERS = {
    "my.toml",
    "experiment.toml",
    "mine.toml",
    "orders.sql",
    "my.lua",
    "shop.sql",
    "import.toml",
}


def candidates(path: str) -> list[Path]:
    """Every file that it may mean: from the root, in the package, in native/, or anywhere by name."""
    if "/" in path:
        return [ROOT / path, ROOT / "src/dballoc" / path, ROOT / "native" / path]
    places = ("src", "native", "tests", "tools", "benchmarks")
    return [file for place in places for file in (ROOT / place).rglob(path)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_files_that_a_page_names_are_there(page: Path) -> None:
    names = set(_PATH.findall(page.read_text(encoding="utf-8"))) - _OTHERS
    names = {name for name in names if not re.search(r"[A-Z]{3}", name)}
    assert not [name for name in sorted(names) if not any(map(Path.exists, candidates(name)))]


def test_there_are_files_to_look_for() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    assert len(set(_PATH.findall(page))) > 20


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_pages_that_a_page_links_to_are_there(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[\w-]+)?\)", page.read_text(encoding="utf-8"))
    assert not [link for link in links if not (page.parent / link).exists()]
