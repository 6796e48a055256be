"""Results made elsewhere: what is read, and every way in which they can be wrong, one line each."""

import re
from pathlib import Path

import pytest

from dballoc.ground.errors import UsageError
from dballoc.intake import figure_tables
from dballoc.intake.import_results import import_results
from dballoc.intake.load_outputs import sysbench_totals
from dballoc.questions.campaign.figures import level_curves
from dballoc.questions.compare.baseline_comparison import compare_with_baseline
from dballoc.questions.compare.campaign_tables import load_campaign, load_unimported_campaign
from dballoc.questions.imported import sections as imported
from dballoc.questions.imported.figures import split_by_machine
from dballoc.questions.report_content import gather_report

GOOD = """workload,threads,variant,tps
ro,1,nt-heap,100
ro,1,"segment heap, tuned",110.5
ro,2,nt-heap,180
ro,2,"segment heap, tuned",220
"""

OUTPUT = """sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: {threads}
Initializing random number generator from current time

Initializing worker threads...

Threads started!

SQL statistics:
    queries performed:
        read:                            140000
        write:                           0
        other:                           20000
        total:                           160000
    transactions:                        10000  ({tps} per sec.)
    queries:                             160000 (15990.25 per sec.)
    ignored errors:                      0      (0.00 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          10.0061s
    total number of events:              10000

Latency (ms):
         min:                                    1.02
         avg:                                    4.00
         max:                                   21.33
         95th percentile:                        7.84
         sum:                                39980.12

Threads fairness:
    events (avg/stddev):           2500.0000/12.00
    execution time (avg/stddev):   9.9950/0.00
"""

OLD = """sysbench 0.4.12:  multi-threaded system evaluation benchmark

Running the test with following options:
Number of threads: 8

OLTP test statistics:
    queries performed:
        read:                            140000
        write:                           0
        other:                           20000
        total:                           160000
    transactions:                        10000  (999.39 per sec.)
    deadlocks:                           0      (0.00 per sec.)
    read/write requests:                 140000 (13991.47 per sec.)
    other operations:                    20000  (1998.78 per sec.)

Test execution summary:
    total time:                          10.0061s
    total number of events:              10000
    total time taken by event execution: 79.9
    per-request statistics:
         min:                                  1.02ms
         avg:                                  7.99ms
         max:                                 31.33ms
         approx.  95 percentile:              12.84ms

Threads fairness:
    events (avg/stddev):           1250.0000/12.00
    execution time (avg/stddev):   9.9950/0.00
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Outputs of two variants at two levels, and what is no output."""
    for variant, factor in (("je", 2), ("gl", 1)):
        for threads in (4, 8):
            text = OUTPUT.format(threads=threads, tps=100.5 * threads * factor)
            write(tmp_path / "runs" / variant / f"ro-{threads}.txt", text)
    write(tmp_path / "runs" / "notes.md", "cold machine")
    write(
        tmp_path / "runs" / "import.toml",
        'files = "{variant}/ro-{threads}.txt"\nworkload = "read only"\n[variants]\nje = "jemalloc"\n',
    )
    return tmp_path / "runs"


def test_a_table_becomes_a_results_directory(tmp_path: Path) -> None:
    found = import_results([write(tmp_path / "a.csv", GOOD)], tmp_path / "out")
    assert (found.figures, found.unmatched) == (4, [])
    campaign = load_campaign(tmp_path / "out")
    assert campaign.imported
    assert campaign.names == ["nt-heap", "segment-heap-tuned"]
    assert (
        campaign.experiment.workloads,
        campaign.experiment.threads,
        campaign.experiment.levels,
    ) == (["ro"], [1, 2], "fresh")
    ratios = level_curves.compute_relative_levels(campaign, "tps")
    assert ratios.select("threads", "ratio", "low", "n").rows() == [
        (1, pytest.approx(1.105), None, 1),
        (2, pytest.approx(220 / 180), None, 1),
    ]
    assert (tmp_path / "out" / "imported" / "a.csv").read_text(encoding="utf-8") == GOOD
    assert {p.name for p in tmp_path.iterdir()} == {"a.csv", "out"}


def test_repeats_give_intervals_and_a_level_for_each_workload(tmp_path: Path) -> None:
    lines = ["workload,threads,variant,tps,block,rss_mib,p95_ms"]
    for block in (1, 2, 3):
        for variant, tps, rss in (("a", 100, 50), ("b", 120, 40)):
            lines += [f"ro,{n},{variant},{tps * n + block},{block},{rss},1.5" for n in (1, 8)]
            lines.append(f"rw,1,{variant},{tps + block},{block},,")
    import_results([write(tmp_path / "a.csv", "\n".join(lines))], tmp_path / "out", baseline="b")
    campaign = split_by_machine(load_campaign(tmp_path / "out"))[0].campaign
    found = compare_with_baseline(campaign)
    by = {m.key: found.find("a", m).ratio for m in found.metrics}
    assert set(by) == {"tps:ro", "tps:rw", "rss_peak"}
    assert [m.title for m in found.metrics][:2] == [
        "ro, transactions per second at 8 clients",
        "rw, transactions per second at 1 client",
    ]
    for ratio in by.values():
        assert ratio is not None
        assert ratio.blocks == 3
    assert by["tps:rw"] is not None
    assert by["tps:rw"].estimate == pytest.approx(100 / 120, abs=0.01)
    assert by["rss_peak"] is not None
    assert by["rss_peak"].estimate == pytest.approx(50 / 40)
    sections = {s.key for s in imported.make_imported_sections(load_campaign(tmp_path / "out"))}
    assert "verdicts" in sections


def test_machines_stay_apart_and_each_has_a_baseline(tmp_path: Path) -> None:
    text = "machine,workload,threads,variant,tps\nbig,ro,1,a,100\nbig,ro,1,b,300\nbig,ro,64,a,900\nsmall,rw,1,b,50\nsmall,rw,1,c,60\n"
    import_results([write(tmp_path / "a.csv", text)], tmp_path / "out")
    big, small = split_by_machine(load_campaign(tmp_path / "out"))
    assert (big.name, big.campaign.names, big.campaign.experiment.threads) == (
        "big",
        ["a", "b"],
        [1, 64],
    )
    assert (small.name, small.campaign.names, small.campaign.experiment.workloads) == (
        "small",
        ["b", "c"],
        ["rw"],
    )
    assert level_curves.compute_relative_levels(small.campaign, "tps")["ratio"].to_list() == [
        pytest.approx(1.2)
    ]
    content = gather_report(load_campaign(tmp_path / "out"))
    titles = [s.title for s in content.sections]
    assert titles == [
        "Throughput: big",
        "Peaks and collapses: big",
        "Throughput: small",
        "Where the figures are from",
    ]
    assert len({f.key for f in content.figures}) == len(content.figures)


def test_without_repeats_nothing_is_said_to_be_shown(tmp_path: Path) -> None:
    import_results([write(tmp_path / "a.csv", GOOD)], tmp_path / "out")
    content = gather_report(load_campaign(tmp_path / "out"))
    said = " ".join([content.answer.headline, content.answer.reason, *content.answer.notes])
    assert "Nothing was measured twice, so there are no intervals and no verdicts" in said
    assert "has not proved which malloc was in use" in said
    assert content.data["recommended"] is None
    assert not [s for s in content.sections if s.key.startswith(("verdicts", "floor", "noise"))]
    assert all(
        "[" not in cell
        for s in content.sections
        for t in s.tables
        for row in t.rows
        for cell in row
    )


def test_a_collapse_is_found_and_its_place_said(tmp_path: Path) -> None:
    text = "workload,threads,variant,tps\n" + "".join(
        f"ro,{n},{v},{tps}\n"
        for v, curve in (("a", (100, 200, 119)), ("b", (100, 200, 121)))
        for n, tps in zip((8, 16, 32), curve, strict=True)
    )
    import_results([write(tmp_path / "a.csv", text)], tmp_path / "out")
    answer = imported.compose_imported_answer(load_campaign(tmp_path / "out"))
    assert answer.headline == "a collapses"
    assert [(line.name, line.text) for line in answer.variants] == [
        ("a", "ro between 16 and 32 (60 % of the best before)"),
        ("b", "none"),
    ]


def test_outputs_of_sysbench_become_figures(runs: Path, tmp_path: Path) -> None:
    found = import_results([runs], tmp_path / "out", baseline="gl")
    assert (found.figures, [p.name for p in found.unmatched]) == (4, ["notes.md"])
    campaign = load_campaign(tmp_path / "out")
    assert campaign.names == ["gl", "jemalloc"]
    assert campaign.experiment.workloads == ["read-only"]
    rows = campaign.step.sort("tps").select("threads", "tps", "qps", "p95", "seconds").rows()
    assert rows[0] == (4, 402.0, 15990.25, 7.84, 10.0061)
    assert (
        level_curves.compute_relative_levels(campaign, "tps")["ratio"].to_list()
        == [pytest.approx(2)] * 2
    )
    names = {file.name for file in campaign.facts.imported.files}
    assert names == {
        "runs/import.toml",
        *(f"runs/{v}/ro-{n}.txt" for v in ("je", "gl") for n in (4, 8)),
    }


def test_an_older_sysbenchs_output_is_read_too() -> None:
    (found,) = sysbench_totals.parse_runs(OLD, "x")
    assert (found.threads, found.tps, found.qps, found.p95) == (
        8,
        999.39,
        pytest.approx(15990.25),
        12.84,
    )


def test_tables_and_directories_go_together(runs: Path, tmp_path: Path) -> None:
    more = write(tmp_path / "more.csv", "workload,threads,variant,tps\nread only,4,mimalloc,500\n")
    found = import_results([runs, more], tmp_path / "out", baseline="gl")
    assert found.figures == 5
    assert load_campaign(tmp_path / "out").names == ["gl", "jemalloc", "mimalloc"]


BAD = [
    ("tps", "tsp", "a.csv:1: unknown column 'tsp'; did you mean 'tps'?"),
    ("tps", "zzz", "a.csv:1: unknown column 'zzz'; known are machine, workload,"),
    (",tps", "", "a.csv:1: column 'tps' is missing; needed are workload, threads, variant, tps"),
    ("workload,", "threads,", "a.csv:1: column 'threads' appears twice"),
    ("ro,1,nt-heap,100", "ro,1,nt-heap,fast", "a.csv:2: tps: 'fast' is not a number like 1234.5"),
    ("ro,1,nt-heap,100", "ro,1,nt-heap,nan", "a.csv:2: tps: 'nan' is not a number like 1234.5"),
    ("ro,1,nt-heap,100", "ro,1,nt-heap,-5", "a.csv:2: tps: '-5' is not a number like 1234.5"),
    (
        "ro,1,nt-heap,100",
        "ro,1,nt-heap,0",
        "a.csv:2: 0 transactions per second: there is nothing to compare",
    ),
    ("ro,1,nt-heap,100", "ro,1,nt-heap,1_000", "a.csv:2: tps: '1_000' is not a number like 1234.5"),
    ("ro,1,nt-heap,100", "ro,1,nt-heap,", "a.csv:2: tps is empty"),
    ("ro,1,nt-heap,100", "ro,1,,100", "a.csv:2: variant is empty"),
    (
        "ro,1,nt-heap,100",
        "ro,1.5,nt-heap,100",
        "a.csv:2: threads: '1.5' is not a whole number from 1 on",
    ),
    (
        "ro,1,nt-heap,100",
        "ro,0,nt-heap,100",
        "a.csv:2: threads: '0' is not a whole number from 1 on",
    ),
    ("ro,1,nt-heap,100", "ro,1,nt-heap,100,7", "a.csv:2: 5 columns, but the heading has 4"),
    (
        "ro,2,nt-heap,180",
        "ro,1,nt-heap,180",
        "a.csv:4: nt-heap, ro at level 1 is already in A/a.csv:2; number repeats in the column block",
    ),
    (
        "ro,2,nt-heap",
        "ro,2,nt heap",
        "variants 'nt-heap' and 'nt heap' would both be called 'nt-heap'; rename one",
    ),
    ('"segment heap, tuned",110.5', '"segment heap, tuned,110.5', "not CSV: "),
    (GOOD, "workload,threads,variant,tps\n", "a.csv:1: no figures below the heading"),
    (GOOD, "", "a.csv:1: column 'workload' is missing"),
]


@pytest.mark.parametrize(("was", "now", "message"), BAD, ids=[m for _, _, m in BAD])
def test_a_bad_table_is_one_line_and_nothing_is_written(
    tmp_path: Path, was: str, now: str, message: str
) -> None:
    path = write(tmp_path / "A" / "a.csv", GOOD.replace(was, now, 1))
    message = message.replace("A/a.csv", str(path))
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        import_results([path], tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert {p.name for p in tmp_path.iterdir()} == {"A"}


BAD_RUNS = [
    (
        "import.toml",
        None,
        "import.toml: missing; a directory of files to import needs it, see docs/import.md",
    ),
    ("import.toml", "files = 1 2", "import.toml: not TOML: "),
    (
        "import.toml",
        "",
        "import.toml: no pattern: give files (outputs of sysbench and others), [[tables]]",
    ),
    ("import.toml", 'pattern = "x"', "import.toml: unknown key pattern; known here: "),
    (
        "import.toml",
        'files = "x"\nfoo = 1',
        "import.toml: unknown key foo; known here: workload, variant, machine, threads, block, files,",
    ),
    (
        "import.toml",
        'files = "{what}.txt"',
        "import.toml: files: unknown field {what}; known are workload, threads,",
    ),
    ("import.toml", 'files = "{threads}{threads}"', "import.toml: files: {threads} appears twice"),
    ("import.toml", 'files = "{}.txt"', "import.toml: files: unmatched '{'"),
    ("import.toml", 'files = "{threads"', "import.toml: files: unmatched '{'"),
    (
        "import.toml",
        'files = "{variant}.out"\nworkload = "x"',
        "import.toml: files: no file matches '{variant}.out'; the first of 5 is gl/ro-4.txt",
    ),
    (
        "import.toml",
        'files = "{variant}/ro-{threads}.txt"',
        "import.toml: workload: neither the pattern nor a key gives it",
    ),
    (
        "import.toml",
        'files = "{variant}/*.txt"\nworkload = "x"\nthreads = 4',
        "gl/ro-8.txt:1: thread count mismatch: ",
    ),
    (
        "import.toml",
        'files = "*/{workload}-*.txt"\nvariant = "x"',
        "je/ro-4.txt:1: x, ro at level 4 is already in",
    ),
    (
        "gl/ro-4.txt",
        OUTPUT.format(threads=4, tps=1)[:393],
        "gl/ro-4.txt:15: sysbench's output is cut short here, before its totals",
    ),
    (
        "gl/ro-4.txt",
        OUTPUT.format(threads=4, tps=1).split("Threads fairness")[0],
        "sysbench's output is cut short here, before its totals",
    ),
    ("gl/ro-4.txt", "", "gl/ro-4.txt:1: not an output of sysbench"),
    ("gl/ro-4.txt", "hello\n", "gl/ro-4.txt:1: not an output of sysbench"),
    (
        "gl/ro-4.txt",
        OUTPUT.format(threads=4, tps=1).replace(
            "Threads started!", "FATAL: error 1040: too many connections"
        ),
        "gl/ro-4.txt:9: sysbench failed: FATAL: error 1040",
    ),
    ("gl/ro-4.txt", OUTPUT.format(threads=5, tps=1), "gl/ro-4.txt:1: thread count mismatch: "),
]


@pytest.mark.parametrize(("name", "text", "message"), BAD_RUNS, ids=[m for _, _, m in BAD_RUNS])
def test_bad_outputs_are_one_line_and_nothing_is_written(
    runs: Path, tmp_path: Path, name: str, text: str | None, message: str
) -> None:
    if text is None:
        (runs / name).unlink()
    else:
        write(runs / name, text)
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        import_results([runs], tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert {p.name for p in tmp_path.iterdir()} == {"runs"}


def test_other_ways_to_go_wrong(runs: Path, tmp_path: Path) -> None:
    good, out = write(tmp_path / "a.csv", GOOD), tmp_path / "out"
    empty = tmp_path / "empty"
    empty.mkdir()
    write(empty / "import.toml", 'files = "{variant}.txt"')
    for paths, how, message in (
        ([tmp_path / "b.csv"], {}, "b.csv: cannot be read: No such file or directory"),
        ([empty], {}, "empty: empty: nothing to import in it"),
        (
            [good],
            {"baseline": "glibc"},
            "--baseline: no variant 'glibc'; there are nt-heap, segment heap, tuned",
        ),
        (
            [good],
            {"mapping_file": good},
            "is for directories, and none of the paths is a directory",
        ),
        ([good, good], {}, "is already in"),
    ):
        with pytest.raises(UsageError, match=re.escape(message)):
            import_results(paths, out, **how)
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"binary\.csv: not UTF-16"):
        import_results([tmp_path / "binary.csv"], out)
    (tmp_path / "binary.csv").write_bytes(b"\xe9")
    with pytest.raises(UsageError, match=r"binary\.csv: not UTF-8"):
        import_results([tmp_path / "binary.csv"], out)
    assert not out.exists()
    import_results([good], out)
    with pytest.raises(
        UsageError, match="out: already exists and is not empty; choose a new --out"
    ):
        import_results([good], out)


def test_what_only_own_campaigns_can_do_is_refused(tmp_path: Path) -> None:
    import_results([write(tmp_path / "a.csv", GOOD)], tmp_path / "out")
    with pytest.raises(
        UsageError,
        match="out: its results were measured elsewhere and imported; dballoc can only report them",
    ):
        load_unimported_campaign(tmp_path / "out")


def test_a_byte_order_mark_and_blank_lines_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\ufeff" + GOOD.replace("\n", "\r\n") + "\r\n,,,\r\n", encoding="utf-8")
    assert len(figure_tables.read_figures(path)) == 4
