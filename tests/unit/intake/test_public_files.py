"""Files as people publish them: the structure is that of public files, the values are invented.
Every one is read rightly, or refused with its line and what to do; nothing is lost without a word.
"""

import re
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

from dballoc.cli.shared.server_options_sources import describe_wrapper
from dballoc.ground.errors import UsageError
from dballoc.intake import foreign_kinds
from dballoc.intake.assemble_campaign import make_name
from dballoc.intake.import_results import import_results
from dballoc.intake.load_outputs import sysbench_totals
from dballoc.load import sysbench_command
from dballoc.load.workload import Workload
from dballoc.servers import print_defaults
from dballoc.servers.running import adopted_options


@dataclass(frozen=True, kw_only=True)
class Form:
    """How a version of sysbench prints a run."""

    banner: str
    heading: str
    rates: str
    before_time: str
    time: str
    percentile: str


FORMS = {
    "0.4.10": Form(
        banner="sysbench 0.4.10:  multi-threaded system evaluation benchmark",
        heading="OLTP test statistics:",
        rates="    deadlocks:                           0      (0.00 per sec.)\n"
        "    read/write requests:                 {queries} ({qps:.2f} per sec.)\n",
        before_time="Test execution summary:",
        time="    total time:                          {seconds:.4f}s",
        percentile="         approx.  {n} percentile:               {p_s:.5f}s",
    ),
    "0.4.12": Form(
        banner="sysbench 0.4.12:  multi-threaded system evaluation benchmark",
        heading="OLTP test statistics:",
        rates="    deadlocks:                           0      (0.00 per sec.)\n"
        "    read/write requests:                 {queries} ({qps:.2f} per sec.)\n",
        before_time="Test execution summary:",
        time="    total time:                          {seconds:.4f}s",
        percentile="         approx.  {n} percentile:               {p:.2f}ms",
    ),
    "0.5": Form(
        banner="sysbench 0.5:  multi-threaded system evaluation benchmark",
        heading="OLTP test statistics:",
        rates="    read/write requests:                 {queries} ({qps:.2f} per sec.)\n"
        "    ignored errors:                      0      (0.00 per sec.)\n"
        "    reconnects:                          0      (0.00 per sec.)\n",
        before_time="General statistics:",
        time="    total time:                          {seconds:.4f}s",
        percentile="         approx.  {n} percentile:               {p:.2f}ms",
    ),
    "1.0": Form(
        banner="sysbench 1.0.20 (using bundled LuaJIT 2.1.0-beta2)",
        heading="SQL statistics:",
        rates="    queries:                             {queries} ({qps:.2f} per sec.)\n"
        "    ignored errors:                      0      (0.00 per sec.)\n"
        "    reconnects:                          0      (0.00 per sec.)\n",
        before_time="General statistics:",
        time="    total time:                          {seconds:.4f}s",
        percentile="         {n}th percentile:                        {p:.2f}",
    ),
    "1.1": Form(
        banner="sysbench 1.1.0-2ca9e3f (using bundled LuaJIT 2.1.0-beta3)",
        heading="SQL statistics:",
        rates="    queries:                             {queries} ({qps:.2f} per sec.)\n"
        "    ignored errors:                      0      (0.00 per sec.)\n"
        "    reconnects:                          0      (0.00 per sec.)\n",
        before_time="Throughput:\n    events/s (eps):                      {tps:.4f}",
        time="    time elapsed:                        {seconds:.4f}s",
        percentile="         {n}th percentile:                        {p:.2f}",
    ),
}


def write_run(
    version: str, *, reads: int = 14, writes: int = 0, percentile: str = "95", threads: int = 8
) -> str:
    """A run of 4,000 transactions in 20 s."""
    form, events, seconds = FORMS[version], 4000, 20.0
    queries = events * (reads + writes)
    values = {
        "queries": queries,
        "qps": queries / seconds,
        "tps": events / seconds,
        "seconds": seconds,
        "n": percentile,
        "p": 12.5,
        "p_s": 0.0125,
    }
    return "\n".join(
        [
            form.banner,
            "",
            "Running the test with following options:",
            f"Number of threads: {threads}",
            "Report intermediate results every 5 second(s)",
            "",
            "Threads started!",
            "",
            "[ 5s ] thds: 8 tps: 199.98 qps: 2799.70 (r/w/o: 2799.70/0.00/0.00) lat (ms,95%): 12.5",
            form.heading,
            "    queries performed:",
            f"        read:                            {events * reads}",
            f"        write:                           {events * writes}",
            f"        other:                           {events * 2}",
            f"        total:                           {events * (reads + writes + 2)}",
            f"    transactions:                        {events}  ({events / seconds:.2f} per sec.)",
            form.rates.format(**values),
            form.before_time.format(**values),
            form.time.format(**values),
            f"    total number of events:              {events}",
            "",
            "         min:                                    1.02",
            form.percentile.format(**values),
            "",
            "Threads fairness:",
            "    events (avg/stddev):           500.0000/12.00",
            "    execution time (avg/stddev):   19.9950/0.00",
            "",
        ]
    )


# What stands around the output in public files.
AROUND = {
    "alone": "{}",
    "after a command line": "$ sysbench oltp_read_only --threads=8 run\n{}",
    "with a time": "real\t0m20.1s\n{}\nreal\t0m20.1s\nuser\t0m3.2s\n",
    "with a warning": "WARNING: the --test option is deprecated.\n{}",
    "with carriage returns": "{}",
    "collected by docker": "{}",
}


@pytest.mark.parametrize(
    ("version", "around", "percentile"), list(product(FORMS, AROUND, ["95", "99", "90"]))
)
def test_a_public_output(version: str, around: str, percentile: str) -> None:
    text = AROUND[around].format(write_run(version, percentile=percentile))
    if around == "with carriage returns":
        text = text.replace("\n", "\r\n")
    if around == "collected by docker":
        text = "".join(f"client-1  | {line}\n" for line in text.splitlines())
    (run,) = sysbench_totals.parse_runs(text, "f")
    assert (run.threads, run.tps, run.seconds, run.statements) == (8, 200.0, 20.0, 14.0)
    assert run.qps == pytest.approx(2800.0)
    kept = {"95": run.p95, "99": run.p99}
    if percentile == "90":
        assert kept == {"95": None, "99": None}
        (line,) = run.unread
        assert re.fullmatch(r"f:\d+: the 90th percentile is left out: .*", line)
    else:
        assert kept.pop(percentile) == pytest.approx(12.5)
        assert list(kept.values()) == [None]
        assert run.unread == ()


@pytest.mark.parametrize("version", FORMS)
def test_a_line_among_the_totals_that_nobody_knows_is_named(version: str) -> None:
    text = write_run(version).replace(
        "    total number of events:", "    lock waits:  7\n    total number of events:"
    )
    (run,) = sysbench_totals.parse_runs(text, "f")
    (line,) = run.unread
    number = text[: text.index("lock waits")].count("\n") + 1
    assert line == f"f:{number}: not understood: 'lock waits: 7'"


@pytest.mark.parametrize(
    ("first", "second", "another"),
    [
        (write_run("1.0"), write_run("1.0", writes=4), True),
        (write_run("0.4.12", writes=4), write_run("0.4.12"), True),
        (write_run("1.0", reads=1), write_run("1.0", reads=14), True),
        (write_run("1.0", reads=10, writes=4), write_run("1.0", reads=14), True),
        (write_run("1.0"), write_run("1.1"), False),
        (write_run("1.0", writes=4), write_run("1.0", writes=4), False),
        (write_run("1.0", reads=20, writes=4), write_run("1.0", reads=21, writes=4), False),
    ],
)
def test_statements_in_a_transaction_tell_workloads_apart(
    first: str, second: str, another: bool
) -> None:
    runs = sysbench_totals.parse_runs(first + second, "f")
    assert sysbench_totals.is_another_workload(runs[1], runs[0]) is another
    assert sysbench_totals.is_another_workload(runs[0], runs[1]) is another


def import_text(tmp_path: Path, text: str, mapping: str = "") -> None:
    directory = tmp_path / "runs"
    directory.mkdir()
    (directory / "v.txt").write_text(text, encoding="utf-8")
    (directory / "import.toml").write_text(mapping or 'files = "{variant}.txt"\nworkload = "w"')
    import_results([directory], tmp_path / "out")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            write_run("0.4.12") + write_run("0.4.12", writes=4),
            rf"v\.txt:{write_run('0.4.12').count(chr(10)) + 1}: 18 reads and writes in a transaction \(16000 writes\), 14 in the run of "
            r"line 1 \(0 writes\): not the same workload; give them workloads of their own",
        ),
        (
            write_run("1.0").replace("(200.00 per sec.)", "(19,744.70 per sec.)"),
            r"v\.txt:16: '19,744\.70' is not a number like 1234\.5",
        ),
        (
            write_run("1.0").replace("20.0000s", "20,0000s"),
            r"v\.txt:\d+: '20,0000' is not a number like 1234\.5",
        ),
        (
            "sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)\n\nRunning the test with following "
            "options:\nNumber of threads: 1\n\nCPU speed:\n    events per second:  2000.00\n\n"
            "General statistics:\n    total time:  10.0s\n    execution time (avg/stddev):  1/0\n",
            r"v\.txt:1: no transactions in it: not a run of a database workload \(sysbench cpu, ",
        ),
        (
            write_run("1.0").replace("\nThreads started!", "\nclient-1 | Threads started!").replace(
                "Number of threads", "client-1 | Number of threads"
            ),
            r"v\.txt:4: 'client-1 \| ' stands before what sysbench printed, and not before every ",
        ),
        (
            write_run("1.0").partition("    total number")[0],
            r"v\.txt:22: sysbench's output is cut short here, before its totals",
        ),
    ],
)  # fmt: skip
def test_what_is_refused_names_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        import_text(tmp_path, text)
    assert not (tmp_path / "out").exists()


PERF_SCRIPT = """mariadbd 12345 [001] 4242.123456:          1 cpu-clock:pppH:
        7f12ab malloc+0x10 (/usr/lib/libc.so.6)
        5512cd main+0x20 (/usr/sbin/mariadbd)
"""


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"PK\x03\x04" + bytes(40), "a zip archive or a spreadsheet: unpack it"),
        (b"\x1f\x8b\x08" + bytes(40), "compressed by gzip: unpack it first"),
        (b"\xfd7zXZ\0", "compressed by xz"),
        (b"BZh91AY", "compressed by bzip2"),
        (b"\x28\xb5\x2f\xfd", "compressed by zstd"),
        (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
        (b"Rar!\x1a\x07", "a RAR archive"),
        (b"f" * 257 + b"ustar\x0000", "a tar archive: unpack it first"),
        (b"PERFILE2" + bytes(40), "perf's recording: run perf script on it"),
        (b"SQLite format 3\0", "a database: dballoc report takes the results directory"),
        (b"%PDF-1.7", "a PDF"),
        (b"\x89PNG\r\n", "a picture"),
        (b"\x7fELF\2", "a program or a library"),
        (PERF_SCRIPT.encode(), "what perf script prints: run stackcollapse-perf.pl"),
        (b"Function Stack,CPU Time:Self,Module\nTotal,0,x\n", "a table of VTune: run stackcollapse-vtune.pl"),
        (b"@[\n    malloc+0\n    main+1\n]: 12\n", "what bpftrace prints: run stackcollapse-bpftrace.pl"),
        (b"Thread 2 (Thread 0x7f (LWP 12)):\n#0  0x7f in poll () from /lib\n", "stacks of gdb: run stackcollapse-gdb.pl"),
        (b'<?xml version="1.0"?>\n<svg width="1">', "a picture (SVG): import the collapsed stacks"),
        (b"<!DOCTYPE html>\n<html>", "a web page"),
        (b"desc: (none)\ncmd: mysqld\n", "what massif writes: dballoc profile massif reads it"),
        (b'{"$schema": "speedscope"}', "JSON"),
    ],
    ids=range(21),
)  # fmt: skip
def test_kinds_of_files_that_import_does_not_read(
    tmp_path: Path, content: bytes, kind: str
) -> None:
    assert (foreign_kinds.name_kind(content) or "").startswith(kind)
    figures = tmp_path / "figures.csv"
    figures.write_bytes(content)
    with pytest.raises(UsageError, match=re.escape(f"figures.csv: is {kind}")):
        import_results([figures], tmp_path / "out")


@pytest.mark.parametrize(
    "content",
    [
        b"workload,threads,variant,tps\nro,1,a,1\n",
        b"main;parse;malloc 12\n",
        b"\xef\xbb\xbfworkload;threads\n",
        "вариант,потоки\n".encode(),
        write_run("1.0").encode(),
        b"New Thread Stack,Count\n[Root]/a!b,1\n",
        b"Stack, 123, 45, 1, 0x7f, ntdll.dll!x\n",
        b"",
    ],
)
def test_kinds_that_import_reads_are_not_refused(content: bytes) -> None:
    assert foreign_kinds.name_kind(content) is None


def test_a_table_with_other_stacks_is_not_one_of_performance_analyzer(tmp_path: Path) -> None:
    directory = tmp_path / "runs"
    directory.mkdir()
    (directory / "v.csv").write_text("Call Stack;Count\nmain;3\n")
    (directory / "import.toml").write_text(
        'workload = "w"\nthreads = 8\n[[stacks]]\nfiles = "{variant}.csv"\ncounts = "cpu"\n'
    )
    figures = tmp_path / "figures.csv"
    figures.write_text("workload,threads,variant,tps\nw,8,v,1\n")
    with pytest.raises(UsageError, match=r"v\.csv:1: .* is not a collapsed stack like"):
        import_results([figures, directory], tmp_path / "out")


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("Überlauf", "Uberlauf"),
        ("naïve café", "naive-cafe"),
        ("日本", r"imported-[0-9a-f]{8}"),
        ("сервер 5.3", r"5\.3-[0-9a-f]{8}"),
        ("北京-jemalloc", r"jemalloc-[0-9a-f]{8}"),
        ("١٢٣", r"imported-[0-9a-f]{8}"),
        ("ß", r"imported-[0-9a-f]{8}"),
        ("北" * 200, r"imported-[0-9a-f]{8}"),
        ("a" * 200 + "北", r"a{55}-[0-9a-f]{8}"),
    ],
)
def test_names_in_other_scripts(text: str, pattern: str) -> None:
    assert re.fullmatch(pattern, make_name(text))


def test_names_in_other_scripts_stay_apart(tmp_path: Path) -> None:
    figures = tmp_path / "figures.csv"
    names = ["北京", "上海", "сервер", "север", "ファイル"]
    figures.write_text(
        "workload,threads,variant,tps\n" + "".join(f"ro,1,{name},100\n" for name in names),
        encoding="utf-8",
    )
    imported = import_results([figures], tmp_path / "out")
    assert len(set(imported.assembled.variants.values())) == 5
    assert len(imported.notes) == 5
    name = imported.assembled.variants["сервер"]
    assert any(note.endswith(f"is called {name} here; [variants] in import.toml gives another name")
               for note in imported.notes)  # fmt: skip


SCRIPT = Workload(name="s", script="/x/counts.lua", file=Path("/x/counts.lua"))


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (
            "FATAL: mysql_stmt_prepare() failed\n"
            "FATAL: MySQL error: 1054 \"Unknown column 'a' in 'SELECT'\"\n"
            "FATAL: `thread_init' function failed: /x/counts.lua:3: SQL API error\n"
            "FATAL: Thread initialization failed!\n",
            "counts.lua:3: SQL API error, errno = 1054: Unknown column 'a' in 'SELECT'",
        ),
        (
            "FATAL: `event' function failed: /x/counts.lua:7: attempt to index a nil value\n",
            "counts.lua:7: attempt to index a nil value",
        ),
        ("FATAL: unable to connect to MySQL server\n", "counts.lua: unable to connect to MySQL"),
        ("", "counts.lua: sysbench does not run it"),
    ],
)
def test_a_failed_script_names_line_and_reason(output: str, message: str) -> None:
    assert message in sysbench_command.script_error(SCRIPT, output)


@pytest.mark.parametrize(
    ("printed", "options"),
    [
        ("--a=1 --b=2", ["--a=1", "--b=2"]),
        ("--max_connections=200 --```", ["--max_connections=200", "--```"]),
        ("--a=1 --=x", ["--a=1", "--=x"]),
        ("--a=1 --)", ["--a=1", "--)"]),
        ("--a=1 --10=x", ["--a=1", "--10=x"]),
        ("--init_connect=SET x -- y", ["--init_connect=SET x -- y"]),
    ],
)
def test_a_line_that_begins_with_no_letter_is_an_option_of_its_own(
    printed: str, options: list[str]
) -> None:
    head = "mariadbd would have been started with the following arguments:\n"
    assert print_defaults.parse_printed(f"{head}{printed} \n") == options


@pytest.mark.parametrize(
    ("text", "allocators", "note"),
    [
        ("[mysqld_safe]\nmalloc-lib = /usr/lib/libjemalloc.so.2\n", {"glibc"}, "is started on jemalloc; it is not taken over: add jemalloc"),
        ("[mysqld_safe]\nmalloc_lib=tcmalloc\n", {"glibc"}, "is started on tcmalloc"),
        ("[mariadbd-safe]\nmalloc-lib=/opt/libown.so\n", set(), 'add preload = ["/opt/libown.so"]'),
        ("[mysqld_safe]\nthp-setting=never\n", set(), 'thp-setting = never: not taken over; give variants thp = "never"'),
        ("[mysqld_safe]\nmalloc-lib=jemalloc\n", {"jemalloc"}, None),
        ("[mysqld]\nmalloc-lib=jemalloc\n", set(), None),
        ("[mysqld_safe]\nnice = 3\n", set(), None),
    ],
)  # fmt: skip
def test_settings_of_mysqld_safe_are_mentioned(
    text: str, allocators: set[str], note: str | None
) -> None:
    notes = describe_wrapper(print_defaults.list_wrapper_settings([text]), allocators)
    assert (len(notes) == 1 and note in notes[0]) if note else notes == []


@pytest.mark.parametrize("engine", ["TokuDB", "MEMORY", "ndbcluster", "x\ny"])
def test_an_engine_without_data_is_named(engine: str) -> None:
    taken = adopted_options.take([("default-storage-engine", engine)], None)
    assert taken.engine is None
    (note,) = taken.notes()
    assert note.startswith("left out (no data can be made in this engine")
    assert ("default_storage_engine = " + engine in note) is ("\n" not in engine)
    assert "\n" not in note
