"""Pages of docs/evidence are what their CSV files give, and show nothing of a stranger's but words."""

import os
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dballoc.ground.errors import UsageError

ROOT = Path(__file__).resolve().parents[3]
EVIDENCE = ROOT / "docs/evidence"
PAGES = sorted(file.parent.name for file in EVIDENCE.glob("*/campaign.csv"))
Make = Callable[..., Path]


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools/evidence-page"))


def read_files(directory: Path) -> dict[str, str]:
    """Every file below a directory."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_text("utf-8") for path in files}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_its_csv_files_give_today(
    tool: dict[str, Any], tmp_path: Path, name: str
) -> None:
    """If not: make docs."""
    tool["write_evidence"](EVIDENCE / name, name, tmp_path)
    shipped = {f"{name}.md": (EVIDENCE / f"{name}.md").read_text("utf-8")}
    shipped |= {f"{name}/{file}": text for file, text in read_files(EVIDENCE / name).items()}
    assert read_files(tmp_path) == shipped


def test_every_page_is_listed_and_has_its_csv_files() -> None:
    listed = (EVIDENCE / "README.md").read_text("utf-8")
    assert PAGES
    assert {path.stem for path in EVIDENCE.glob("*.md")} == {"README", *PAGES}
    assert [name for name in PAGES if f"[{name}]({name}.md), [CSV]({name})" not in listed] == []


HOSTILE = (
    "UPDATE trial SET outcome = 'fault', fault = 'died', log_tail = 'jane at dbhost7', "
    "fault_text = '<script>x</script> [y](https://evil.example) ![z](w) @jane www.evil.example' "
    "WHERE trial = 1",
    "UPDATE trial SET cpus = '=cmd|0' WHERE trial = 2",
)


def test_a_strangers_results_bring_no_name_and_no_markup(
    tool: dict[str, Any], make: Make, tmp_path: Path
) -> None:
    """And what a spreadsheet would take for a formula comes back as it was."""
    into = tmp_path / "evidence"
    page = tool["write_evidence"](make("private", blocks=3, sql=HOSTILE), "theirs", into)
    files = read_files(into)
    assert page == into / "theirs.md"
    assert not [name for name, text in files.items() if "jane" in text or "dbhost7" in text]
    text = files["theirs.md"]
    assert "&lt;script&gt;x&lt;/script&gt; \\[y\\](https\\://evil.example)" in text
    assert "!\\[z\\](w) @USER www\\.evil.example" in text
    assert "'=cmd|0" in files["theirs/trial.csv"]
    tool["write_evidence"](into / "theirs", "theirs", into)
    assert read_files(into) == files


def test_a_page_says_whether_there_is_a_post_to_agree_with(
    tool: dict[str, Any], make: Make, tmp_path: Path
) -> None:
    page = tool["write_evidence"](make("own", blocks=3), "own", tmp_path)
    assert tool["NO_POST"] in page.read_text("utf-8")
    repeats = make("post", blocks=3, threads=[81], published="smalldatum-2025-myrocks")
    text = tool["write_evidence"](repeats, "post", tmp_path).read_text("utf-8")
    assert tool["SHAPE"] in text
    assert "\n## Published beside measured\n" in text


def test_an_emulated_machine_gets_no_page(tool: dict[str, Any], make: Make, tmp_path: Path) -> None:
    emulated = "UPDATE campaign SET value = replace(value, 'a CPU', 'QEMU TCG CPU version 2.5+')"
    with pytest.raises(UsageError, match="an emulated CPU's figures"):
        tool["write_evidence"](make("tcg", blocks=3, sql=(emulated,)), "tcg", tmp_path / "into")
    assert not (tmp_path / "into").exists()


@pytest.mark.parametrize("name", ["../x", "A B", "", "x/y", ".x"])
def test_a_name_is_no_path(tool: dict[str, Any], tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="not a name"):
        tool["write_evidence"](tmp_path, name, tmp_path)


def test_no_link_of_a_strangers_table_is_followed(tool: dict[str, Any], tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "campaign.csv").symlink_to(EVIDENCE / PAGES[0] / "campaign.csv")
    with pytest.raises(UsageError, match=r"campaign\.csv.*link"):
        tool["write_evidence"](theirs, "theirs", tmp_path / "into")
    (theirs / "campaign.csv").unlink()
    os.mkfifo(theirs / "campaign.csv")
    with pytest.raises(UsageError, match=r"campaign\.csv"):
        tool["write_evidence"](theirs, "theirs", tmp_path / "into")
