"""Results made elsewhere, from files to the report: MDEV-38369's figures of Windows' heaps on two
machines.
"""

import csv
from pathlib import Path

import pytest
from harness import Cli

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


def test_the_collapses_of_the_ticket_are_found_and_no_other(reported: Path) -> None:
    with (reported / "csv" / "collapses.csv").open(newline="", encoding="utf-8") as f:
        found = {
            (r["machine"], r["variant"], r["workload"]): (int(r["before"]), int(r["at"]))
            for r in csv.DictReader(f)
        }
    assert found == COLLAPSES


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
