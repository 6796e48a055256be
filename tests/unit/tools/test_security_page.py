"""docs/security.md names tests; they are there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")


def test_every_test_that_it_names_is_there() -> None:
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    names = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(names) > 25
    assert not names - defined


def test_every_file_that_it_names_is_there() -> None:
    paths = set(re.findall(r"`((?:tests|tools)/[\w/.-]+|host/\w+\.py)`", PAGE))
    assert len(paths) > 10
    assert not [
        path
        for path in paths
        if not (ROOT / path).exists() and not (ROOT / "src/dballoc" / path).exists()
    ]
