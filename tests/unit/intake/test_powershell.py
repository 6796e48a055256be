"""What somebody on Windows has: PowerShell's redirections, Export-Csv, readings of memory."""

import re
from pathlib import Path

import pytest
from example_imports import (
    COOKED,
    EXPORTED,
    LAYOUTS,
    LOG,
    MIB,
    PRINTED_5,
    PRINTED_7,
    SHOWN,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from test_intake import GOOD, OLD, OUTPUT

from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.intake import (
    attach_memory,
    csv_figures,
    figure_tables,
    foreign_kinds,
)
from dballoc.intake.import_results import import_results
from dballoc.intake.load_outputs import sysbench_totals


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=40))
def test_the_same_text_in_every_encoding(text: str) -> None:
    lines = text.replace("\n", "\r\n")
    for data in (
        lines.encode("utf-16"),
        b"\xfe\xff" + lines.encode("utf-16-be"),
        lines.encode("utf-8-sig"),
    ):
        assert foreign_kinds.decode_text(data) == text


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("a,b\r\n".encode("utf-16-le"), "has NUL characters: not a text, or UTF-16 without"),
        (b"\xff\xfea", "not UTF-16: truncated data at byte "),
        (b"caf\xe9", "not UTF-8: "),
    ],
)
def test_what_is_no_text_is_one_line(data: bytes, message: str) -> None:
    with pytest.raises(readers.Unfit, match=re.escape(message)):
        foreign_kinds.decode_text(data)


def test_export_csv_of_every_culture_gives_the_same_figures(tmp_path: Path) -> None:
    export = '"workload","threads","variant","tps","rss_mib"\n"ro","8","nt","1234.5","80.25"\n'
    german = export.replace(",", ";").replace("1234.5", "1234,5").replace("80.25", "80,25")
    for i, data in enumerate(
        (
            export.encode(),
            b"#TYPE Selected.System.Object\n" + export.encode(),
            german.encode("utf-16"),
            german.replace(";", "\t").encode("utf-8-sig"),
        )
    ):
        path = tmp_path / f"{i}.csv"
        path.write_bytes(data.replace(b"\n", b"\r\n") if i < 2 else data)
        (figure,) = figure_tables.read_figures(path)
        assert (figure.workload, figure.threads, figure.tps) == ("ro", 8, 1234.5)
        assert figure.rss == round(80.25 * MIB)


NUMBERS = st.floats(0.1, 1e6).map(lambda x: f"{x:.2f}")


@settings(max_examples=50)
@given(numbers=st.lists(NUMBERS, min_size=1, max_size=5, unique=True), mark=st.sampled_from(".,"))
def test_a_decimal_comma_changes_no_figure(numbers: list[str], mark: str) -> None:
    rows = [f"ro;{i};nt;{n}".replace(".", mark) for i, n in enumerate(numbers, 1)]
    figures = csv_figures.parse_figures("workload;threads;variant;tps\n" + "\n".join(rows), "f")
    assert [f.tps for f in figures] == [float(n) for n in numbers]


HEAD = "workload;threads;variant;tps;qps\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{HEAD}ro;1;a;1.5;2,5\n", "f:2: '1.5' has a point, but '2,5' in line 2 a comma"),
        (f"{HEAD}ro;1;a;1.234;10.500\n", "f:2: '1.234' may be thousands or decimals"),
        (f"{HEAD}ro;1;a;1,234;2\n", "f:2: '1,234' may be thousands or decimals"),
        (f"{HEAD}ro;1;a;fast;2,5\n", "f:2: tps: 'fast' is not a number like 1234,5"),
        (f"#TYPE x\n{HEAD}ro;1;a;x;2\n", "f:3: tps: 'x' is not a number like 1234.5"),
        ("#TYPE x\nworkload;zzz\n", "f:2: unknown column 'zzz'"),
        (
            "main;malloc 12\nmain;free 3\n",
            "f:1: not a table of figures: it has none of the columns",
        ),
        ("workload;threads,variant\n", "f:1: commas and semicolons separate the columns"),
        ('workload,threads,variant,tps\nro,1,a,"1,5"\n', "f:2: tps: '1,5' is not a number"),
        (
            "workload,threads,variant,tps,private_mib,private_gib\n",
            "f:1: private bytes are given twice, as private_mib and private_gib",
        ),
    ],
)
def test_numbers_that_may_mean_two_things_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        csv_figures.parse_figures(text, "f")
    assert "\n" not in str(caught.value)


def test_three_decimals_with_points_and_commas_are_no_question() -> None:
    assert csv_figures.parse_figures(GOOD.replace("110.5", "110.500"), "f")[1].tps == 110.5
    tabs = GOOD.replace(",", "\t").replace('"segment heap\t tuned"', "s").replace("110.5", "1.105")
    assert csv_figures.parse_figures(tabs, "f")[1].tps == 1.105


def loop(levels: list[int], prepare: str = "") -> str:
    return prepare + "".join(OUTPUT.format(threads=n, tps=100.5 * n) for n in levels)


def test_a_loop_that_appends_to_one_file() -> None:
    prepare = "sysbench 1.0.20 (using bundled LuaJIT 2.1.0-beta2)\n\nCreating table 'sbtest1'...\n"
    runs = sysbench_totals.parse_runs(loop([1, 2, 4], prepare) + prepare, "f")
    assert [(r.threads, r.tps) for r in runs] == [(1, 100.5), (2, 201.0), (4, 402.0)]
    assert runs[0].line == 4
    assert [r.threads for r in sysbench_totals.parse_runs(OLD + OLD, "f")] == [8, 8]
    # Without the first line, as a filter may leave it.
    bare = loop([1, 2]).replace("sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)\n", "")
    assert [r.threads for r in sysbench_totals.parse_runs(bare, "f")] == [1, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (loop([1, 2])[:-400], "f:62: sysbench's output is cut short here, before its totals"),
        (
            loop([1])
            + "sysbench.exe : FATAL: unable to connect to MySQL server\nAt line:1 char:1\n",
            "f:33: sysbench failed: FATAL: unable to connect to MySQL server",
        ),
        ("sysbench 1.0.20 (x)\n\nCreating table 'sbtest1'...\n", "f:3: sysbench's output is cut"),
    ],
)
def test_a_run_of_a_loop_that_failed_is_said(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message.partition(": ")[2])) as caught:
        sysbench_totals.parse_runs(text, "f")
    assert re.match(r"f:\d+: ", str(caught.value))


def test_powershells_outputs_become_figures(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    for variant in ("nt", "segment"):
        text = loop([1, 2, 1, 2]).replace("\n", "\r\n")
        (runs / f"{variant}.txt").write_bytes(text.encode("utf-16"))
    (runs / "import.toml").write_text('files = "{variant}.txt"\nworkload = "ro"\n')
    imported = import_results([runs], tmp_path / "out")
    assert imported.figures == 8
    assert imported.assembled.experiment.threads == [1, 2]
    assert imported.assembled.experiment.blocks == 2


@pytest.mark.parametrize("layout", LAYOUTS)
def test_readings_of_memory(layout: str) -> None:
    series = attach_memory.parse_memory(LAYOUTS[layout], "f", None)
    assert series.rss == [100 * MIB, 300 * MIB, 200 * MIB]
    assert series.private == [200 * MIB, 400 * MIB, 300 * MIB]


def test_the_server_is_found_among_other_processes() -> None:
    other = EXPORTED + '"sysbench","1","5","6","7"\n"mariadbd","99","1","2","3"\n'
    assert attach_memory.parse_memory(other, "f", "sysbench.exe").rss == [5]
    assert attach_memory.parse_memory(other, "f", "99").rss == [1]
    instances = LOG.replace("Process(mariadbd)\\Private", "Process(mariadbd#1)\\Private")
    assert attach_memory.parse_memory(instances, "f", "MARIADBD").private == []
    assert attach_memory.parse_memory(instances, "f", "mariadbd#1").rss == []


@pytest.mark.parametrize(
    ("text", "process", "message"),
    [
        ("a,b\n1,2\n", None, "f:1: no column WorkingSet64, WS or rss_bytes"),
        (EXPORTED.replace("104857600", "much"), None, "f:3: WorkingSet64: a reading that is not"),
        (EXPORTED + '"mariadbd","12","1","2","3"\n', "mariadbd", "f:1: readings of 2 processes"),
        (EXPORTED, "mysqld", "f:1: process: no 'mysqld'; there are 'mariadbd (4711)'"),
        (PRINTED_5.replace("     307200     812.34   4711", ""), None, "f:9: 5 columns, but"),
        (PRINTED_7.replace("100,00", "many"), None, "f:4: WS(M): a reading that is not"),
        (
            LOG.replace("Working Set", "Arbeitsseiten").replace("Private", "x"),
            None,
            "English names",
        ),
        (LOG.replace("104857600.000000", "1e300"), None, "f:4: a reading that is not a size"),
        (COOKED.replace("314572800", "314572800,5").replace("104857600", "1.5"), None, "f:3: "),
        (SHOWN.replace(str(100 * MIB), "-1"), None, "f:5: a reading that is not a size in bytes"),
    ],
)
def test_readings_that_are_not_clear_are_one_line(
    text: str, process: str | None, message: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        attach_memory.parse_memory(text, "f", process)
    assert "\n" not in str(caught.value)
