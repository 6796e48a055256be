"""What a report has of imported results: their profiles, their memory, the post beside them."""

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import polars as pl
import pytest
from example_imports import MAPPING

from dballoc.cli.results_verbs import report as verb
from dballoc.cli.shared import published_posts
from dballoc.ground.errors import Failure, UsageError
from dballoc.intake.import_results import Imported, import_results
from dballoc.questions.campaign.figures.profiles import load_imported_profiles
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.imported import sections as imported_results
from dballoc.questions.imported.sections import collect_imported_profile_tables
from dballoc.questions.report_content import gather_report
from dballoc.store.open_database import FILE
from dballoc.store.results import Results

FIGURES = """workload,threads,variant,tps
oltp_read_only,256,nt-heap,2000
oltp_read_only,512,nt-heap,400
oltp_read_only,256,segment-heap,4000
oltp_read_only,512,segment-heap,4600
"""
NT_HEAP = """ntdll.dll!RtlUserThreadStart;server.dll!my_malloc;ucrtbase.dll!_malloc_base;ntdll.dll!RtlAllocateHeap;ntdll.dll!RtlEnterCriticalSection;ntoskrnl.exe!KiSwapContext 51.5
ntdll.dll!RtlUserThreadStart;server.dll!vio_read;ntdll.dll!NtReadFile;npfs.sys!NpFsdRead 48.5
"""
SEGMENT_HEAP = """ntdll.dll!RtlUserThreadStart;server.dll!my_malloc;ucrtbase.dll!_malloc_base;ntdll.dll!RtlpHpVsContextAllocate 2.25
ntdll.dll!RtlUserThreadStart;server.dll!vio_read;ntdll.dll!NtReadFile;npfs.sys!NpFsdRead 97.75
"""
READY = "ntdll.dll!RtlUserThreadStart;ntdll.dll!RtlFreeHeap;ntdll.dll!RtlLeaveCriticalSection 7\n"
MEMORY = '"Name","WorkingSet64","PM"\n"mariadbd","{rss}","{private}"\n"mariadbd","{end}","9"\n'


@pytest.fixture
def windows(tmp_path: Path) -> Path:
    """A table of figures beside a directory of profiles and readings."""
    (tmp_path / "figures.csv").write_text(FIGURES)
    directory = tmp_path / "stacks"
    directory.mkdir()
    for name, text in (
        ("import.toml", MAPPING),
        ("nt-heap.collapsed", NT_HEAP),
        ("segment-heap.collapsed", SEGMENT_HEAP),
        ("nt-heap-ready.txt", READY),
        ("nt-heap-cpu.txt", NT_HEAP),
        ("nt-heap-512.csv", MEMORY.format(rss=8 * 2**20, private=16 * 2**20, end=2 * 2**20)),
    ):
        (directory / name).write_bytes(text.replace("\n", "\r\n").encode("utf-16"))
    (directory / "import.toml").write_text(MAPPING)
    return tmp_path


def bring(windows: Path, published: str | None = None) -> Imported:
    return import_results(
        [windows / "figures.csv", windows / "stacks"], windows / "out", published=published
    )


def test_the_report_has_the_profiles_as_it_has_ours(windows: Path) -> None:
    imported = bring(windows)
    assert (imported.figures, imported.profiles, imported.series) == (4, 4, 1)
    campaign = load_campaign(windows / "out")
    profiled = load_imported_profiles(windows / "out", campaign)
    assert profiled is not None
    sections = {s.key: s for s in gather_report(campaign, profiles=profiled).sections}
    section = sections["contention"]
    assert [e.key for e in section.embeds] == [
        "contention-own-waits-imported-1",
        "contention-waits-imported-1",
        "contention-wakeups-imported-1",
        "contention-imported-cpu-1",
    ]
    tables = {t.title: t.rows for t in section.tables}
    inclusive = ["_malloc_base", "malloc", "ucrtbase.dll", "51.50 %", "2.25 %"]
    assert inclusive in tables["Dominant inclusive frames"]
    exclusive = ["RtlEnterCriticalSection", "ntdll.dll", "51.50 %", "–"]
    assert exclusive in tables["Exclusive frames"]
    assert tables["First allocator frame"] == [
        ["_malloc_base", "ucrtbase.dll", "51.50 %", "2.25 %"],
        ["all below malloc", "", "51.50 %", "2.25 %"],
    ]
    assert "Exclusive frames, CPU samples" in tables
    split = tables["What the threads wait for"][0]
    assert split[:5] == ["nt-heap", "–", "51.5 %", "51.5 %", "0.0 %"]
    assert split[-3:] == ["48.5 %", "–", "–"]
    text = " ".join(section.text)
    assert "All are of oltp_read_only at 512." in text
    assert "imported from nt-heap.collapsed: collapsed stacks, 2 different stacks" in text


def test_the_numbers_of_profiles_are_in_csv_files(windows: Path) -> None:
    bring(windows)
    profiled = load_imported_profiles(windows / "out", load_campaign(windows / "out"))
    assert profiled is not None
    tables = collect_imported_profile_tables(profiled)
    shares = (
        tables["contention-frames"]
        .filter((pl.col("function") == "_malloc_base") & (pl.col("counts") == "waits"))
        .select("variant", "share")
    )
    assert dict(shares.iter_rows()) == pytest.approx({"nt-heap": 0.515, "segment-heap": 0.0225})
    locks = tables["contention-waits"].filter(
        (pl.col("place") == "malloc") & (pl.col("for") == "lock")
    )
    assert locks.select("threads", "variant", "share").rows() == [
        (512, "nt-heap", pytest.approx(0.515))
    ]


def test_working_set_is_rss_and_private_bytes_have_their_own_table(windows: Path) -> None:
    bring(windows)
    campaign = load_campaign(windows / "out")
    row = campaign.step.filter(pl.col("rss_peak").is_not_null())
    assert row.select("threads", "rss_start", "rss_mean", "rss_peak", "rss_end").rows() == [
        (512, 8 * 2**20, 5 * 2**20, 8 * 2**20, 2 * 2**20)
    ]
    tables = {t.title: t for s in gather_report(campaign).sections for t in s.tables}
    assert tables["Private bytes, MiB, oltp_read_only"].rows == [["512", "16.0", "–"]]
    assert tables["RSS, MiB, oltp_read_only"].rows[-1] == ["512", "8.0", "–"]


def test_the_post_stands_beside_what_was_imported_for_it(windows: Path) -> None:
    bring(windows, published="mdev-38369")
    directory = windows / "out"
    post = published_posts.find(directory, None, False)
    assert post is not None
    campaign = load_campaign(directory)
    profiled = load_imported_profiles(directory, campaign)
    section = gather_report(campaign, published=post, profiles=profiled).sections[0]
    assert section.title == "Published beside measured"
    table = next(t for t in section.tables if t.title.startswith("oltp_read_only, trans"))
    row = next(r for r in table.rows if r[0] == "512")
    assert row[3] == "400"
    text = " ".join(section.text)
    assert "Ours were imported: dballoc does not know on which machine" in text
    frames = next(t for t in section.tables if t.title.startswith("Inclusive frames"))
    assert frames.title.endswith("512 clients (ours: 512)")
    cells = {r[0]: r[1:5] for r in frames.rows}
    assert cells["ucrtbase.dll!_malloc_base"][:2] == ["51.51 %", "48.13 %"]  # of 107 stacks
    assert cells["ntdll.dll!RtlFreeHeap"][:2] == ["17.09 %", "6.54 %"]
    assert "the stacks of the waits that the files hold" in frames.caption
    tables = imported_results.collect_published_tables(campaign, post, profiled)
    assert tables["published-frames"]["ours"].drop_nulls().len() > 0
    rows = tables["published"]
    assert rows.columns[0] == "machine"
    assert rows["ours"].drop_nulls().to_list().count(4600.0) == 1


def test_which_post_may_be_said_later(windows: Path) -> None:
    bring(windows)
    directory = windows / "out"
    assert published_posts.find(directory, None, False) is None
    post = published_posts.find(directory, "mdev-38369", True)
    assert post is not None
    assert post.name == "mdev-38369"
    for name, message in (
        (None, "imported without --published, so say which figures"),
        ("mdev-38368", "no published figures 'mdev-38368'; did you mean 'mdev-38369'?"),
        ("percona-2012", "none of its variants (nt-heap, segment-heap) is among those of percona"),
    ):
        with pytest.raises(UsageError, match=re.escape(message)):
            published_posts.find(directory, name, True)
    assert verb.order_arguments(Path("mdev-38369"), str(directory)) == (directory, "mdev-38369")
    assert verb.order_arguments(directory, "mdev-38369") == (directory, "mdev-38369")


def test_what_the_import_lacks_of_a_post_is_said(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text(
        "workload,threads,variant,tps,qps\noltp_read_only,8,glibc,1,16\noltp_read_only,8,jemalloc,2,32\n"
    )
    import_results([tmp_path / "f.csv"], tmp_path / "out")
    post = published_posts.find(tmp_path / "out", "chinaunix-2013", True)
    section = gather_report(load_campaign(tmp_path / "out"), published=post).sections[0]
    assert "The post has figures that were not imported" in " ".join(section.text)


BAD = [
    ("import.toml", MAPPING.replace("threads = 512", ""), "threads: neither the pattern nor a key"),
    ("import.toml", f'files = "*.txt"\n{MAPPING}', "files and stacks.1.files both match nt-heap-ready.txt"),
    ("import.toml", MAPPING.replace("{variant}.coll", "x-{variant}.coll"), "stacks.0.files: no file matches"),
    ("import.toml", MAPPING.replace('"cpu"', '"gpu"'), "stacks.2.counts: input should be 'waits'"),
    ("import.toml", MAPPING.replace("counts", "count"), "unknown key stacks.1.count; known here: workload,"),
    ("import.toml", MAPPING.replace("oltp_read_only", "rw"), "no transactions per second of nt-heap, rw among"),
    ("import.toml", MAPPING.replace("threads = 512", "threads = 1\nmachine = 'x'"), "of nt-heap, oltp_read_only on x"),
    ("import.toml", MAPPING.replace('"{variant}-ready.txt"\ncounts = "wakeups"', '"nt-heap-ready.txt"\nvariant = "nt-heap"'), 'counts = "waits" already'),
    ("nt-heap.collapsed", "hello\n", "nt-heap.collapsed:1: 'hello' is not a collapsed stack"),
    ("nt-heap-512.csv", "a,b\n1,2\n", "nt-heap-512.csv:1: no column WorkingSet64"),
    ("nt-heap-1024.csv", MEMORY, "no transactions per second of nt-heap, oltp_read_only at level 1024, block 1"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "message"), BAD, ids=[m for _, _, m in BAD])
def test_what_is_wrong_is_one_line_and_nothing_is_written(
    windows: Path, name: str, text: str, message: str
) -> None:
    (windows / "stacks" / name).write_text(text)
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        bring(windows)
    assert "\n" not in str(caught.value)
    assert {p.name for p in windows.iterdir()} == {"figures.csv", "stacks"}


def test_memory_that_is_given_twice_is_refused(windows: Path) -> None:
    (windows / "figures.csv").write_text(
        FIGURES.replace("tps\n", "tps,rss_mib\n", 1).replace("00\n", "00,5\n")
    )
    with pytest.raises(UsageError, match="the RSS of nt-heap, oltp_read_only at level 512 is alr"):
        bring(windows)


@pytest.mark.parametrize(
    ("published", "message"),
    [
        ("mdev-3836", "no published figures 'mdev-3836'; did you mean 'mdev-38369'?"),
        ("percona-2012", "--published percona-2012: no variant of its figures ("),
    ],
)
def test_a_post_that_is_not_repeated_is_refused(
    windows: Path, published: str, message: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        bring(windows, published)
    assert not (windows / "out").exists()


def test_a_profile_that_cannot_be_read_is_said(windows: Path) -> None:
    bring(windows)
    directory = windows / "out"
    (directory / "profiles" / "1.profile.json.gz").write_bytes(b"x")
    (directory / "profiles" / "2.profile.json.gz").unlink()
    campaign = load_campaign(directory)
    profiled = load_imported_profiles(directory, campaign)
    assert profiled is not None
    assert [p.profile is None for p in profiled.profiles] == [True, True, False, False]
    sections = {s.key: s for s in gather_report(campaign, profiles=profiled).sections}
    text = " ".join(sections["contention"].text)
    assert "The profile of nt-heap, oltp_read_only at 512, cannot be read." in text
    assert sections["contention"].tables


@pytest.mark.parametrize(
    "row",
    [
        '{"machine":"","variant":"x","workload":"oltp_read_only","threads":1,"counts":"waits"}',
        '{"machine":"","variant":"nt-heap","workload":"oltp_read_only","threads":0,"counts":"cpu"}',
        '{"machine":"","variant":"nt-heap","workload":"oltp_read_only","threads":1,"counts":"x"}',
    ],
)
def test_a_damaged_fact_is_refused(windows: Path, row: str) -> None:
    bring(windows)
    results = Results.open(windows / "out")
    imported = results.facts().imported
    results.close()
    assert imported
    fact = json.dumps(asdict(replace(imported, profiles=())) | {"profiles": [json.loads(row)]})
    with closing(sqlite3.connect(windows / "out" / FILE)) as db, db:
        db.execute("UPDATE campaign SET value = ? WHERE key = 'imported'", (fact,))
    with pytest.raises(Failure, match="damaged: campaign: imported"):
        load_campaign(windows / "out")


def test_the_posts_frames_stand_beside_an_imported_profile(windows: Path) -> None:
    bring(windows, published="mdev-38369")
    campaign = load_campaign(windows / "out")
    post = published_posts.find(windows / "out", None, True)
    profiled = load_imported_profiles(windows / "out", campaign)
    assert post
    [section] = [
        s
        for s in imported_results.make_imported_sections(campaign, post, profiled)
        if s.key == "published"
    ]
    shown = section.tables[-1]
    assert shown.title.endswith("oltp_read_only, 512 clients (ours: 512)")
    rows = {row[0]: row for row in shown.rows}
    # 51.5 of 100 waits and 7 wake-ups; of the segment heap no wake-ups were imported.
    assert rows["my_malloc"][1:3] == ["51.53 %", "48.13 %"]
    assert rows["ntdll.dll!RtlLeaveCriticalSection"][1:3] == ["21.08 %", "6.54 %"]
    assert rows["ntdll.dll!RtlpHpVsContextAllocate"][5:7] == ["1.07 %", "2.25 %"]
    assert (
        "the stacks of the waits that the files hold; wake-ups were not recorded" in shown.caption
    )
    tables = imported_results.collect_published_tables(campaign, post, profiled)
    assert tables["published-frames"].filter(pl.col("ours").is_not_null()).height > 5
