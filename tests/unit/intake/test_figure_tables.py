"""Tables by variant, as posts have them: the layouts are Small Datum's, the values are invented,
but for those that dballoc ships.
"""

import csv
import re
import time
from pathlib import Path

import pytest

from dballoc import catalogue
from dballoc.ground.errors import UsageError
from dballoc.intake import figure_tables
from dballoc.intake.import_results import import_results
from dballoc.questions.campaign.figures import level_curves
from dballoc.questions.compare.campaign_tables import Campaign, load_campaign

POST = """The results are below. When this value is larger than 1.0 then QPS is larger.
(QPS with $allocator) / (QPS with glibc malloc)
Relative to results with glibc malloc
col-1 : results with tcmalloc
col-2 : results with jemalloc

col-1 col-2
0.99 1.02 hot-points_range=100
1.05 1.04 point-query_range=100

The last columns are odd, and so on.
"""
SCRIPT = """Relative to: x.glibc.c32r128

col-1 : x.tcmalloc.c32r128
col-2 : x.jemalloc.c32r128

col-1\u00a0  \u00a0 col-2
0.99\u00a0  \u00a0 1.02\u00a0  \u00a0 hot-points_range=100
1.05\u00a0  \u00a0 1.04\u00a0  \u00a0 point-query_range=100
"""
RATES = """workload     glibc     jemalloc
hot-points   95454.5   96015
point-query  369648    -
"""
DELIMITED = """workload,threads,glibc,"jemalloc, tuned",block,machine
hot-points,256,95454.5,96015,1,db7
point-query,256,369648,,1,db7
"""


def list_figures(text: str) -> list[tuple[str, str, float | None]]:
    return [(f.workload, f.variant, f.qps) for f in figure_tables.parse_figures(text, "f")]


RATIOS = [
    ("hot-points_range=100", "glibc", 1.0),
    ("hot-points_range=100", "tcmalloc", 0.99),
    ("hot-points_range=100", "jemalloc", 1.02),
    ("point-query_range=100", "glibc", 1.0),
    ("point-query_range=100", "tcmalloc", 1.05),
    ("point-query_range=100", "jemalloc", 1.04),
]


@pytest.mark.parametrize(
    ("text", "rename"),
    [(POST, "glibc malloc"), (SCRIPT, "x.{}.c32r128")],
    ids=["post", "script"],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_ratios_as_they_are_published(text: str, rename: str, line_end: str) -> None:
    figures = figure_tables.parse_figures(text.replace("\r\n", "\n"), "f")
    simple = {"glibc malloc": "glibc"}
    names = [simple.get(f.variant, re.sub(r"^x\.|\.c32r128$", "", f.variant)) for f in figures]
    assert [(f.workload, n, f.qps) for f, n in zip(figures, names, strict=True)] == RATIOS
    assert {f.relative_to for f in figures} == {rename.format("glibc")}
    assert {(f.threads, f.tps) for f in figures} == {(None, None)}


def test_rates_by_variant_have_no_baseline_of_their_own() -> None:
    figures = figure_tables.parse_figures(RATES, "f")
    assert [(f.workload, f.variant, f.qps, f.place) for f in figures] == [
        ("hot-points", "glibc", 95454.5, "f:2"),
        ("hot-points", "jemalloc", 96015.0, "f:2"),
        ("point-query", "glibc", 369648.0, "f:3"),
    ]
    assert {f.relative_to for f in figures} == {None}


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_delimited_table_may_have_more_columns(delimiter: str) -> None:
    text = DELIMITED.replace(", ", "_").replace(",", delimiter).replace("_", ", ")
    figures = figure_tables.parse_figures(text, "f")
    assert [(f.workload, f.variant, f.qps, f.threads, f.block, f.machine) for f in figures] == [
        ("hot-points", "glibc", 95454.5, 256, 1, "db7"),
        ("hot-points", "jemalloc, tuned", 96015.0, 256, 1, "db7"),
        ("point-query", "glibc", 369648.0, 256, 1, "db7"),
    ]


def test_a_delimited_table_may_be_of_ratios_and_numbered_columns() -> None:
    text = "Relative to: glibc\ncol-1 : jemalloc\n\nworkload,col-1\nhot-points,1.02\n"
    assert list_figures(text) == [("hot-points", "glibc", 1.0), ("hot-points", "jemalloc", 1.02)]


def test_several_tables_of_the_same_variants_in_a_file() -> None:
    text = RATES + "\nwrites:\n\n" + RATES.replace("hot-points", "insert").replace("point-", "in-")
    assert [w for w, *_ in list_figures(text)] == [
        *("hot-points", "hot-points", "point-query"),
        *("insert", "insert", "in-query"),
    ]


def test_decimal_commas_and_names_at_the_end() -> None:
    text = "glibc jemalloc workload\n95454,5 96015,25 hot-points\n"
    assert list_figures(text) == [
        ("hot-points", "glibc", 95454.5),
        ("hot-points", "jemalloc", 96015.25),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (POST.replace("1.05 1.04", "1.05"), "f:9: '1.05 point-query_range=100' is not a row: 2"),
        (POST.replace("1.05", "1.o5"), "f:9: tcmalloc: '1.o5' is not a number like 1234.5"),
        (
            POST.replace("\n1.05", "\n\n1.05"),
            "f:10: a row of figures without a heading; put it below the heading",
        ),
        (
            POST.replace("col-2 : results with jemalloc\n", ""),
            "f:6: col-2: which variant is it? Write a line like 'col-1 : NAME' above the heading",
        ),
        (POST.replace("with jemalloc", "with tcmalloc"), "f:7: variant 'tcmalloc' appears twice"),
        (
            POST.replace("Relative to results with glibc malloc\n", ""),
            "f:7: figures from 0.99 to 1.05 look like ratios; write 'Relative to: NAME' in a line",
        ),
        ("workload,a,a\nx,100,200\n", "f:1: variant 'a' appears twice"),
        ("workload,a,threads,threads\nx,1,2,3\n", "f:1: column 'threads' appears twice"),
        ("workload,a,\nx,100,200\n", "f:1: a column without a name: which variant is it?"),
        ("workload,a,b\nx,100\n", "f:2: 2 columns, but the heading has 3"),
        ("workload,a,b\n,100,200\n", "f:2: workload is empty"),
        ("workload,a,b\nx,100,-5\n", "f:2: b: '-5' is not a number like 1234.5"),
        ("workload,threads,a\nx,many,200\n", "f:2: threads: 'many' is not a whole number"),
        ("workload,a,b\n", "f:2: no figures below the heading"),
        ("workload;a;b\nx;1.234;10.500\n", "f:2: '1.234' may be thousands or decimals"),
        (
            RATES + "\nworkload,threads,variant,tps\nro,1,a,100\n",
            "f:5: a table of one figure a line below one by variants; give each a file of its own",
        ),
        ("a b\n" + "x" * 3000, "f:1: not a table of figures: it has none of the columns"),
        ("workload,a\nx" + "x" * 3000 + ",100\n", "f:2: workload: 'xxx"),
    ],
)
def test_a_table_that_is_not_clear_is_one_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        figure_tables.parse_figures(text, "f")
    assert "\n" not in str(caught.value)


def test_a_table_too_large_is_refused_before_it_fills_memory() -> None:
    rows = "\n".join(f"{i} 1 w{i}" for i in range(50_001))
    with pytest.raises(UsageError, match=r"f:50002: more than 100,000 figures"):
        figure_tables.parse_figures(f"a b workload\n{rows}", "f")


@pytest.mark.parametrize(
    "line", ["word\n", "workload\n", "workload a\n\n", "col-1 : a\n", "0.5 0.5 a\n\n", "\n"]
)
def test_a_long_text_is_read_in_time_that_grows_with_it(line: str) -> None:
    beginning = time.process_time()
    with pytest.raises(UsageError):
        figure_tables.parse_figures(line * (2_000_000 // len(line)), "f")
    assert time.process_time() - beginning < 30


def bring(tmp_path: Path, files: dict[str, str], mapping: str = "") -> Campaign:
    directory = tmp_path / "tables"
    directory.mkdir()
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")
    paths = [directory / name for name in files]
    if mapping:
        (directory / "import.toml").write_text(mapping)
        paths = [directory]
    import_results(paths, tmp_path / "out")
    return load_campaign(tmp_path / "out")


def test_ratios_keep_their_baseline_and_an_unknown_level(tmp_path: Path) -> None:
    campaign = bring(tmp_path, {"a.txt": POST})
    imported = campaign.facts.imported
    assert imported is not None
    assert (imported.relative_to, imported.clients_stated) == ("glibc-malloc", False)
    assert campaign.names == ["glibc-malloc", "tcmalloc", "jemalloc"]
    ratios = level_curves.compute_relative_levels(campaign)
    assert ratios.select("workload", "variant", "ratio").rows() == [
        ("hot-points_range=100", "tcmalloc", pytest.approx(0.99)),
        ("hot-points_range=100", "jemalloc", pytest.approx(1.02)),
        ("point-query_range=100", "tcmalloc", pytest.approx(1.05)),
        ("point-query_range=100", "jemalloc", pytest.approx(1.04)),
    ]


def test_a_mapping_file_names_what_a_table_does_not(tmp_path: Path) -> None:
    campaign = bring(
        tmp_path,
        {"db7.txt": POST},
        'threads = 256\n[[tables]]\nfiles = "{machine}.txt"\n[variants]\n"glibc malloc" = "glibc"\n'
        '[workloads]\n"hot-points_range=100" = "hot"\n[machines]\ndb7 = "db7, 48 cores"\n',
    )
    imported = campaign.facts.imported
    assert imported is not None
    assert (imported.relative_to, imported.clients_stated) == ("glibc", True)
    assert imported.machines[0].name == "db7, 48 cores"
    assert campaign.experiment.threads == [256]
    assert campaign.experiment.workloads == ["hot", "point-query_range=100"]


def test_repeats_of_a_table_are_blocks(tmp_path: Path) -> None:
    campaign = bring(
        tmp_path,
        {"1.txt": POST, "2.txt": POST.replace("1.02", "1.04")},
        '[[tables]]\nfiles = "{block}.txt"\n',
    )
    assert campaign.experiment.blocks == 2
    hot = level_curves.compute_relative_levels(campaign).filter(
        workload="hot-points_range=100", variant="jemalloc"
    )
    ((ratio, low, high, blocks),) = hot.select("ratio", "low", "high", "n").rows()
    assert (ratio, blocks) == (pytest.approx((1.02 * 1.04) ** 0.5), 2)
    assert low < ratio < high


@pytest.mark.parametrize(
    ("files", "mapping", "message"),
    [
        (
            {"a.txt": POST, "b.txt": RATES},
            "",
            "b.txt:2: queries per second alone, but in a.txt:8 ratios to glibc malloc; import them apart",
        ),
        (
            {"a.txt": POST, "b.txt": POST.replace("_range=100", "").replace("glibc m", "m")},
            "",
            "b.txt:8: ratios to malloc, but in a.txt:8 ratios to glibc malloc; import them apart",
        ),
        (
            {"a.csv": "workload,threads,variant,tps\nro,8,a,100\n", "b.txt": RATES},
            "",
            "b.txt:2: under how many clients? a.csv:2 says it of its figures; give it with threads",
        ),
        ({"a.txt": POST, "b.txt": POST}, "", "hot-points_range=100 is already in a.txt:8; number"),
        ({"a.txt": RATES.replace("96015", "0.00")}, "", "a.txt:2: 0 transactions per second"),
        (
            {"a.csv": DELIMITED},
            'threads = 8\n[[tables]]\nfiles = "*.csv"\n',
            "a.csv:2: thread count mismatch: import.toml says 8, the table says 256",
        ),
        (
            {"a.csv": DELIMITED},
            '[[tables]]\nfiles = "{variant}.csv"\n',
            "import.toml: tables.0: variant: a table of figures has it itself",
        ),
    ],
)
def test_tables_that_do_not_go_together_are_one_line(
    tmp_path: Path, files: dict[str, str], mapping: str, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        bring(tmp_path, files, mapping)
    assert message in str(caught.value).replace(f"{tmp_path}/tables/", "")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("post", ["smalldatum-2025-innodb", "myrocks-arena-max"])
def test_shipped_ratios_come_back_from_a_table_by_variant(tmp_path: Path, post: str) -> None:
    """What dballoc ships of a post, written as its author writes it."""
    _, text = catalogue.look_up(catalogue.published(), post, "published figures")
    cells = [c for c in csv.DictReader(text.splitlines()) if c["table"] == "qps"]
    published = {(c["workload"], c["variant"]): float(c["value"]) for c in cells}
    workloads, variants = (list(dict.fromkeys(k[i] for k in published)) for i in (0, 1))
    lines = ["Relative to: base", ""]
    lines += [f"col-{i} : {name}" for i, name in enumerate(variants, 1)]
    lines += ["", "\t".join(f"col-{i}" for i, _ in enumerate(variants, 1))]
    lines += ["\t".join([*(f"{published[w, v]:.2f}" for v in variants), w]) for w in workloads]
    campaign = bring(tmp_path, {"a.txt": "\n".join(lines)})
    ratios = level_curves.compute_relative_levels(campaign)
    returned = {
        (workload, variant): round(ratio, 9)
        for workload, variant, ratio in ratios.select("workload", "variant", "ratio").iter_rows()
    }
    assert len(published) == 32 * len(variants)
    assert returned == published
