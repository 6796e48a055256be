"""Results made elsewhere, from files to the report: MDEV-38369's figures of Windows' heaps on two
machines.
"""

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from harness import Cli, rows

FIGURES = Path(__file__).parent.parent / "data" / "mdev-38369.csv"
FIRST, SECOND = "i9-12900K, MariaDB main", "Xeon E3-1230 V2, Windows Server 2022, MariaDB 10.11"

# What the ticket describes.
COLLAPSES = {
    (FIRST, "nt-heap", "oltp_read_only"): (512, 1024),
    (FIRST, "nt-heap", "oltp_read_write"): (256, 512),
    (FIRST, "nt-heap-small-blocks", "oltp_read_only"): (512, 1024),
    (FIRST, "nt-heap-small-blocks", "oltp_read_write"): (128, 256),
    (SECOND, "nt-heap", "oltp_read_only"): (16, 32),
    (SECOND, "nt-heap", "oltp_read_write"): (32, 64),
}


class Text(HTMLParser):
    """What a page says, without its markup, scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self.silent = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.silent = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self.silent = False

    def handle_data(self, data: str) -> None:
        if not self.silent:
            self.said.append(data)


@pytest.fixture(scope="module")
def reported(run_cli: Cli, fresh_directory) -> Path:
    out = fresh_directory() / "mdev"
    done = run_cli("import", FIGURES, "--out", out)
    assert done.status == 0, done.text
    assert (
        "131 figures, 3 workloads, 3 variants, 2 machines, 1 block; baseline nt-heap" in done.stdout
    )
    said = run_cli("report", out)
    assert said.status == 0, said.text
    assert said.stdout.startswith(f"nt-heap and nt-heap-small-blocks collapse on {FIRST}\n")
    return out


def test_the_figures_are_in_the_same_store(reported: Path) -> None:
    counts = rows(
        reported,
        "SELECT variant, role, count(*) AS n FROM trial JOIN step USING (trial) GROUP BY 1, 2 ORDER BY 1",
    )
    assert [(r["variant"], r["role"], r["n"]) for r in counts] == [
        ("nt-heap", "A1", 49), ("nt-heap-small-blocks", "V", 33), ("segment-heap", "V", 49),
    ]  # fmt: skip


def test_the_collapses_of_the_ticket_are_found_and_no_other(reported: Path) -> None:
    with (reported / "csv" / "collapses.csv").open(newline="", encoding="utf-8") as f:
        found = {
            (r["machine"], r["variant"], r["workload"]): (int(r["before"]), int(r["at"]))
            for r in csv.DictReader(f)
        }
    assert found == COLLAPSES


def test_page_and_markdown_say_the_same(reported: Path) -> None:
    parser = Text()
    parser.feed((reported / "report.html").read_text(encoding="utf-8"))
    page = re.sub(r"\s+", " ", " ".join(parser.said))
    markdown = re.sub(
        r"\s+",
        " ",
        (reported / "report.md").read_text(encoding="utf-8").replace("\\", "").replace("*", ""),
    )
    for text in (page, markdown):
        text = text.replace("\u00a0", " ")
        assert f"nt-heap and nt-heap-small-blocks collapse on {FIRST}" in text
        assert (
            "oltp_read_only between 512 and 1024 (11 % of the best before) and oltp_read_write between 256 and 512"
            in text
        )
        assert "oltp_read_write between 128 and 256 (35 % of the best before)" in text
        assert "Nothing was measured twice, so there are no intervals and no verdicts" in text
        assert text.index(f"Throughput: {FIRST}") < text.index(f"Throughput: {SECOND}")
    tables = [
        line
        for line in (reported / "report.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    assert "| 1024 | 523 | 4,621 | +783 | 842 | +61.0 |" in tables
    assert not any("[" in line for line in tables)


def test_what_a_program_reads(reported: Path) -> None:
    found = json.loads((reported / "recommendation.json").read_text(encoding="utf-8"))
    assert (found["recommended"], found["baseline"], found["final"]) == (None, "nt-heap", True)
    with (reported / "csv" / "relative.csv").open(newline="", encoding="utf-8") as f:
        relative = list(csv.DictReader(f))
    assert {r["machine"] for r in relative} == {FIRST, SECOND}
    assert all(r["low"] == r["high"] == "" for r in relative)


def test_redacted_and_elsewhere(reported: Path, run_cli: Cli, out: Path) -> None:
    done = run_cli("report", reported, "--out", out, "--redact", "--json")
    assert done.status == 0, done.text
    assert json.loads(done.stdout)["experiment"] == "mdev"


@pytest.mark.parametrize(
    "words",
    [("compare", "{0}", "{0}"), ("deploy", "{0}", "nt-heap"), ("report", "{0}", "--published")],
)
def test_what_it_cannot_be_used_for_is_one_line(
    reported: Path, run_cli: Cli, words: tuple[str, ...]
) -> None:
    done = run_cli(*(w.format(reported) for w in words))
    assert done.status == 2
    assert done.stderr.count("\n") == 1
    assert "imported" in done.stderr or "does not reproduce a published post" in done.stderr


def test_windows_profiles_and_runs_beside_the_post(run_cli: Cli, home: Path, out: Path) -> None:
    directory = home / "windows"
    directory.mkdir()
    (directory / "import.toml").write_text(
        "workload = 'oltp_read_only'\nthreads = 512\n[[stacks]]\nfiles = '{variant}.collapsed'\n"
    )
    stack = (
        "ntdll.dll!RtlUserThreadStart;ucrtbase.dll!_malloc_base;ntdll.dll!RtlEnterCriticalSection"
    )
    (directory / "nt-heap.collapsed").write_bytes(f"{stack} 51.5\r\nmain 48.5\r\n".encode("utf-16"))
    figures = home / "first.csv"
    lines = FIGURES.read_text(encoding="utf-8").splitlines()
    figures.write_text("\n".join([lines[0], *(x for x in lines if FIRST in x)]), encoding="utf-8")
    done = run_cli("import", figures, directory, "--out", out, "--published", "mdev-38369")
    assert done.status == 0, done.text
    assert "1 profile" in done.stdout
    said = run_cli("report", out)
    assert said.status == 0, said.text
    text = (out / "report.md").read_text(encoding="utf-8").replace("\\", "")
    assert text.index("## Published beside measured") < text.index("## Throughput")
    assert "| _malloc_base | malloc | ucrtbase.dll | 51.50 % |" in text
    refused = run_cli("report", out, "mdev-38369")
    assert (refused.status, refused.stderr.count("\n")) == (2, 1)


def test_what_is_wrong_is_one_line_and_nothing_is_left(run_cli: Cli, home: Path, out: Path) -> None:
    bad = home / "bad.csv"
    bad.write_text(
        FIGURES.read_text(encoding="utf-8").replace("37249.91", "fast"), encoding="utf-8"
    )
    done = run_cli("import", bad, "--out", out)
    assert (done.status, done.stdout) == (2, "")
    assert done.stderr == f"dballoc: {bad}:6: tps: 'fast' is not a number like 1234.5\n"
    assert not list(out.parent.iterdir())
    assert run_cli("import", home / "nothing", "--out", out).stderr.endswith(
        "cannot be read: No such file or directory\n"
    )
