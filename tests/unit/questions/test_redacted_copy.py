"""Results without names are results: the report of the copy is the redacted report."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dballoc.document.markdown import render_markdown
from dballoc.questions.redacted_copy import write_redacted_copy
from dballoc.questions.write_report import gather_document
from dballoc.store.open_database import FILE

Make = Callable[..., Path]
# Names that example results have, and what else a stranger's may hold.
SECRETS = [b"dbhost7", b"acme.example", b"jane", b"CANARY", b"/srv/acme"]
LEFT = (
    "UPDATE trial SET outcome = 'fault', fault = 'died', fault_text = 'dbhost7: signal 11', "
    "log_tail = 'jane@acme.example in /srv/acme/data: --password=CANARY' WHERE trial = 1",
    "UPDATE variant SET libraries = '[\"/srv/acme/lib/libjemalloc.so.2\"]', "
    'command = \'["/home/jane/bin/mysqld", "--init-file=/srv/acme/x.sql"]\'',
)


@pytest.fixture
def copied(make: Make, tmp_path: Path) -> tuple[Path, Path]:
    """Results, and the directory of their copy."""
    results = make("private", blocks=3, sql=LEFT)
    copy = write_redacted_copy(results, tmp_path / "out")
    assert copy == tmp_path / "out/redacted" / FILE
    return results, copy.parent


def test_no_name_is_anywhere_in_the_copy(copied: tuple[Path, Path]) -> None:
    private, copy = ((directory / FILE).read_bytes() for directory in copied)
    assert [word for word in SECRETS if word not in private] == []
    assert [word for word in SECRETS if word in copy] == []


def test_the_copys_report_is_the_redacted_report(copied: tuple[Path, Path]) -> None:
    redacted, again = (
        render_markdown(gather_document(directory, redact=True), redacted=True)
        for directory in copied
    )
    assert again == redacted
    assert "HOST: signal 11" in again


@pytest.mark.parametrize("design", ["duet", "turns"])
def test_other_designs_keep_their_rows(make: Make, tmp_path: Path, design: str) -> None:
    results = make("private", blocks=2, design=design)
    copy = write_redacted_copy(results, tmp_path)
    assert copy is not None
    assert gather_document(copy.parent).sections
