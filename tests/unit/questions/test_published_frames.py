"""A post's profile beside ours: shares by hand, and what a report says of them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from example_results import SIZES
from example_waits import CLIENT, LOCK, UNLOCK, WORK, profile, stack
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from dballoc import catalogue
from dballoc.document.terminal import print_document
from dballoc.profile.contention.waits import PREEMPTED, QUEUED, WAITED, WAITS, WAKEUPS
from dballoc.profile.formats.profile_file import save_profile
from dballoc.profile.model import Frame, Profile, Sample, Value
from dballoc.questions.campaign.figures.profiles import (
    CampaignContention,
    ContentionProfiles,
    load_contention,
)
from dballoc.questions.campaign.sections.contention import make_contention_section
from dballoc.questions.campaign.sections.scaled_down import list_scaling_notes
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.published import post_figures
from dballoc.questions.published.frame_sections import (
    collect_frame_table,
    describe_frame_order,
    tabulate_frames,
)
from dballoc.questions.published.inclusive_frames import measure_frames, sum_frame_shares
from dballoc.questions.published.measured_figures import (
    CollapseHere,
    CollapseOutcome,
    LevelShare,
    VariantShares,
    find_collapses_here,
)
from dballoc.questions.published.post_figures import FrameTable, Published, parse_frames
from dballoc.questions.published.sections import (
    collect_published_tables,
    describe_collapse,
    make_published_section,
)
from dballoc.questions.write_report import gather_document

NAME = "mdev-38369"
BASELINE = "nt-heap"
SORT = stack(
    "do_command",
    "Filesort_buffer::alloc_sort_buffer(unsigned int, unsigned int)",
    "my_malloc",
    "malloc@libc.so.6",
    "_int_malloc@libc.so.6",
    "sysmalloc@libc.so.6",
    "brk@libc.so.6",
    "[schedule]",
)
ROW_LOCK = stack("do_command", "pthread_mutex_lock@libc.so.6", "[do_futex]")


def post() -> Published:
    return post_figures.parse_published(NAME, *catalogue.published()[NAME])


def frames() -> FrameTable:
    table = post().frames
    assert table
    return table


def wakeups(count: float) -> Profile:
    samples = [Sample(UNLOCK, (count,), False, {"malloc": "free"})]
    return Profile(title="w", values=(WAKEUPS,), samples=samples)


def watched(
    name: str, switches: Profile | None, woken: Profile | None = None
) -> ContentionProfiles:
    return ContentionProfiles(
        variant=name, workload="oltp_read_only", switches=switches, wakeups=woken
    )


def test_shares_are_of_all_switches_and_wakeups() -> None:
    switches = profile((LOCK, 30), (SORT, 10), (CLIENT, 20), (ROW_LOCK, 15))
    preempted = Sample(WORK, (0, 0, 0, 5), False, {"wait": "preempted"})
    switches.samples.append(preempted)
    measured = measure_frames(frames(), {BASELINE: watched(BASELINE, switches, wakeups(20))})[
        BASELINE
    ]
    assert measured.shares == pytest.approx(
        {
            "my_malloc": 0.4,
            "ucrtbase.dll!_malloc_base": 0.4,
            "ntdll.dll!RtlpAllocateHeap": 0.1,
            "ntdll.dll!RtlEnterCriticalSection": 0.3,  # not the server's own locks
            "ntdll.dll!RtlLeaveCriticalSection": 0.2,
            "ntdll.dll!RtlpHpAllocVirtBlockCommitFirst": 0.1,
            "ntdll.dll!NtAllocateVirtualMemory": 0.1,
            "ntdll.dll!RtlFreeHeap": 0.2,
            "Filesort_buffer::alloc_sort_buffer": 0.1,
        }
    )
    assert measured.wakeups


def test_a_profile_of_the_posts_own_system_has_its_own_names() -> None:
    stacks = (
        (Frame("my_malloc", "server.dll"), Frame("RtlEnterCriticalSection", "ntdll.dll")),
        (Frame("ntdll.dll!RtlpHpVsSlotAllocate"),),
    )
    value = Value("switches", "count", "Context switches")
    imported = Profile(
        title="w",
        values=(value,),
        samples=[Sample(s, (n,)) for s, n in zip(stacks, (3, 1), strict=True)],
    )
    assert sum_frame_shares(frames().frames, [imported]) == pytest.approx(
        {
            "my_malloc": 0.75,
            "ntdll.dll!RtlEnterCriticalSection": 0.75,
            "ntdll.dll!RtlpHpVsSlotAllocate": 0.25,
        }
    )


def test_without_call_stacks_there_are_no_shares() -> None:
    states = Profile(title="s", values=(WAITED,), samples=[Sample(LOCK[-2:], (1.0,))])
    assert measure_frames(frames(), {BASELINE: watched(BASELINE, states)}) == {}
    assert measure_frames(frames(), {BASELINE: watched(BASELINE, None)}) == {}
    [line] = describe_frame_order(frames(), {})
    assert "there is no contention profile with call stacks of nt-heap under oltp_read_only" in line


def test_times_alone_take_no_wakeups() -> None:
    samples = [Sample(LOCK, (3.0,), False, {"malloc": "malloc"}), Sample(CLIENT, (1.0,))]
    times = Profile(title="t", values=(WAITED,), samples=samples)
    measured = measure_frames(frames(), {BASELINE: watched(BASELINE, times, wakeups(20))})[BASELINE]
    assert measured.shares["ntdll.dll!RtlEnterCriticalSection"] == 0.75
    assert "ntdll.dll!RtlFreeHeap" not in measured.shares
    assert not measured.wakeups


@given(
    st.lists(
        st.tuples(
            st.sampled_from([LOCK, SORT, CLIENT, WORK, UNLOCK, ROW_LOCK]),
            st.integers(0, 10**6),
            st.sampled_from(["", "malloc"]),
        ),
        max_size=30,
    )
)
def test_a_share_is_a_share_and_a_caller_has_no_less(rows: list) -> None:
    samples = [
        Sample(s, (n, 0, 0, 0), False, {"malloc": label} if label else {}) for s, n, label in rows
    ]
    of = Profile(title="t", values=(WAITS, WAITED, QUEUED, PREEMPTED), samples=samples)
    shares = sum_frame_shares(frames().frames, [of])
    assert all(0 < share <= 1 + 1e-9 for share in shares.values())
    inner = shares.get("ntdll.dll!RtlpAllocateHeap", 0)
    assert shares.get("ucrtbase.dll!_malloc_base", 0) >= inner - 1e-9
    assert shares.get("my_malloc", 0) >= shares.get("Filesort_buffer::alloc_sort_buffer", 0) - 1e-9


def test_the_table_has_the_posts_figures_and_says_what_stands_for_what() -> None:
    switches = profile((LOCK, 30), (SORT, 10), (CLIENT, 60))
    measured = measure_frames(frames(), {BASELINE: watched(BASELINE, switches)})
    table = tabulate_frames(frames(), measured)
    assert table.title == "Inclusive frames of the context switches, oltp_read_only, 512 clients"
    rows = {row[0]: row[1:] for row in table.rows}
    assert len(rows) == 15
    assert list(rows)[:2] == ["my_malloc", "ucrtbase.dll!_malloc_base"]
    assert rows["my_malloc"] == ["51.53 %", "40.00 %", "51.33 %", "–", "2.37 %", "–", "my_malloc"]
    # The patch's one visible effect; of the segment heap the post says nothing here.
    assert rows["init_sql_alloc"][:6] == ["7.41 %", "–", "not visible", "–", "–", "–"]
    assert [name for name, cells in rows.items() if cells[4] == "not visible"] == [
        "ntdll.dll!RtlpAllocateNTHeapInternal",
        "ntdll.dll!RtlpAllocateHeap",
        "ntdll.dll!RtlpHpAllocVirtBlockCommitFirst",
        "ntdll.dll!NtAllocateVirtualMemory",
    ]
    assert rows["ntdll.dll!RtlAllocateHeap"][-1].startswith("nothing: malloc is both here")
    assert ", …, below malloc" in rows["ntdll.dll!RtlEnterCriticalSection"][-1]
    assert "100 % in the post: the stacks of context switches" in table.caption
    assert "wake-ups were not recorded" in table.caption
    assert "lost" not in table.caption
    [order] = describe_frame_order(frames(), measured)
    assert order == (
        "Order of the frames that both have, nt-heap: in the post my_malloc > _malloc_base > "
        "RtlpAllocateHeap > RtlEnterCriticalSection > RtlpHpAllocVirtBlockCommitFirst > "
        "NtAllocateVirtualMemory > Filesort_buffer::alloc_sort_buffer; here my_malloc > "
        "_malloc_base > RtlEnterCriticalSection > Filesort_buffer::alloc_sort_buffer > "
        "NtAllocateVirtualMemory > RtlpAllocateHeap > RtlpHpAllocVirtBlockCommitFirst."
    )
    csv = collect_frame_table(frames(), CampaignContention([watched(BASELINE, switches)], {}))
    assert csv.height == 15 * 3
    assert csv.filter(pl.col("ours").is_not_null()).height == 7
    assert csv.filter("not_visible")["published"].null_count() == 5


def test_frames_on_hardly_any_stack_have_no_order() -> None:
    switches = profile((LOCK, 3), (SORT, 1), (CLIENT, 10_000))
    switches = replace(switches, facts={**switches.facts, "records lost": "8260"})
    measured = measure_frames(frames(), {BASELINE: watched(BASELINE, switches)})
    [order] = describe_frame_order(frames(), measured)
    assert order == (
        "The frames that both have, nt-heap, are on less than 0.1 % of the stacks here, each: their "
        "order says nothing."
    )
    caption = tabulate_frames(frames(), measured).caption
    assert caption.endswith("Records that perf lost here: 8,260 under nt-heap.")


def test_figures_without_a_description_are_an_error() -> None:
    line = {
        "row": "f",
        "column": "c",
        "variant": "v",
        "value": "1",
        "workload": "w",
        "threads": "1",
    }
    with pytest.raises(ValueError, match="frames that are not described"):
        parse_frames({"title": "t", "hundred_percent": "w", "frame": []}, [line])
    described = {"title": "t", "hundred_percent": "w", "frame": [{"name": "f"}]}
    assert parse_frames(described, [line]).frames[0].shares == {"c": 0.01}
    with pytest.raises(KeyError):
        parse_frames(described | {"frame": [{"name": "g"}]}, [line])


@pytest.fixture
def campaign(make: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A block of the post's own levels, the baseline collapsing, its waits recorded."""
    for name in ("nt-heap", "segment-heap"):
        monkeypatch.setitem(SIZES, name, 2**27)
    directory = make(
        "mdev",
        blocks=1,
        workloads=["oltp_read_only", "oltp_read_write"],
        threads=[1, 64, 512, 1024],
        sequence="fresh",
        warmup_sql=[],
        published=NAME,
        profile="contention",
        profile_at={"workload": "oltp_read_only", "threads": 512},
        baseline=BASELINE,
        variant=[{"name": BASELINE, "not_settable": ["X = 8K"]}, {"name": "segment-heap"}],
        sql=(
            "UPDATE step SET tps = 5000 WHERE kind = 'level'",
            "UPDATE step SET tps = 1000 WHERE threads = 1024 AND workload = 'oltp_read_only' AND "
            "trial IN (SELECT trial FROM trial WHERE variant = 'nt-heap')",
        ),
    )
    rows = load_campaign(directory).trial.filter(
        (pl.col("role") != "A2") & (pl.col("workload") == "oltp_read_only")
    )
    for row in rows.iter_rows(named=True):
        raw = directory / "trials" / row["directory"]
        raw.mkdir(parents=True)
        of = profile((LOCK, 60), (CLIENT, 40))
        save_profile(
            Profile(title="t", values=of.values, samples=of.samples, facts={"clients": "512"}),
            raw / "contention-oltp_read_only.profile.json.gz",
        )
    return directory


COLLAPSE = (
    "The post's collapse under many clients: in oltp_read_only it is seen here; in oltp_read_write "
    "it is not seen here: of its best oltp_read_only throughput nt-heap keeps 20 % with 1,024 clients (the post: 11 % with 1,024), "
    "segment-heap 100 % (the post: 82 %); of its best oltp_read_write throughput nt-heap keeps 100 % "
    "with 1,024 clients (the post: 7 % with 1,024), segment-heap 100 % (the post: 80 %). With one "
    "block this may be noise."
)


def test_the_report_has_frames_and_collapse(campaign: Path) -> None:
    loaded = load_campaign(campaign)
    profiles = load_contention(campaign, loaded)
    assert profiles
    section = make_published_section(loaded, post(), profiles)
    assert COLLAPSE in section.text
    shown = section.tables[-1]
    assert shown.title == (
        "Inclusive frames of the context switches, oltp_read_only, 512 clients (ours: 512)"
    )
    [row] = [r for r in shown.rows if r[0] == "ntdll.dll!RtlEnterCriticalSection"]
    assert row[1:-1] == ["28.68 %", "60.00 %", "30.30 %", "–", "0.42 %", "60.00 %"]
    watched_text = make_contention_section(loaded, profiles).text[0]
    assert "with 512 clients, unmeasured, and was profiled" in watched_text
    assert "nt-heap is without what no option here sets: X = 8K." in list_scaling_notes(loaded)
    rows = collect_published_tables(loaded, post(), profiles)["published-frames"]
    assert rows.filter(pl.col("variant") == BASELINE, pl.col("ours") == 0.6).height == 3


def test_the_terminal_has_them_too(campaign: Path) -> None:
    console = Console(width=300, record=True)
    document = gather_document(campaign, published=post())
    print_document(console, document)
    printed = " ".join(console.export_text().split())
    assert COLLAPSE in printed
    assert "RtlEnterCriticalSection 28.68 60.00 30.30 – 0.42 60.00" in printed
    narrow = Console(width=80, record=True)
    print_document(narrow, document)
    lines = narrow.export_text().splitlines()
    assert any(
        x.split() == ["RtlpHpVsSlotAllocate", "–", "–", "–", "–", "0.80", "–"] for x in lines
    )
    assert any(
        x.split() == ["RtlpHpAllocVirtBlockCommitFirst", "13.73", "–", "14.55", "–", "none", "–"]
        for x in lines
    )


SHARES = (
    "of its best oltp_read_only throughput nt-heap keeps {0} % with 1,024 clients (the post: 11 % "
    "with 1,024), segment-heap {1} % (the post: 82 %)."
)


@pytest.mark.parametrize(
    ("top", "shares", "words"),
    [
        (
            64,
            (1.0, 1.0),
            "Whether the post's collapse is seen here was not measured: it takes oltp_read_only "
            "with 1,024 clients and oltp_read_write with 512 clients.",
        ),
        (1024, (0.9, 0.8), "in oltp_read_only it is not seen here; in oltp_read_write it was not "
         f"looked for with enough clients: {SHARES.format(90, 80)}"),
        (1024, (0.5, 0.8), "in oltp_read_only it is seen here; in oltp_read_write it was not "
         f"looked for with enough clients: {SHARES.format(50, 80)}"),
        (1024, (0.3, 0.4), "in oltp_read_only it cannot be told from another cause here, as others "
         f"fall too; in oltp_read_write it was not looked for with enough clients: "
         f"{SHARES.format(30, 40)}"),
    ],
)  # fmt: skip
def test_a_collapse_is_the_posts_if_the_others_go_on(
    make: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    top: int,
    shares: tuple[float, float],
    words: str,
) -> None:
    names = (BASELINE, "segment-heap")
    for name in names:
        monkeypatch.setitem(SIZES, name, 2**27)
    directory = make(
        "m",
        blocks=2,
        threads=[1, top],
        warmup_sql=[],
        baseline=BASELINE,
        variant=[{"name": name} for name in names],
        sql=(
            "UPDATE step SET tps = 1000",
            *(
                f"UPDATE step SET tps = 1000 * {share} WHERE threads = {top} AND trial IN "
                f"(SELECT trial FROM trial WHERE variant = '{name}')"
                for name, share in zip(names, shares, strict=True)
            ),
        ),
    )
    sentence = describe_collapse(find_collapses_here(load_campaign(directory), post()))
    assert sentence.removeprefix("The post's collapse under many clients: ") == words


def test_a_post_without_a_collapse_has_no_sentence(campaign: Path) -> None:
    name = "mdev-38369-hammerdb"
    other = post_figures.parse_published(name, *catalogue.published()[name])
    assert find_collapses_here(load_campaign(campaign), other) == []


def test_the_second_machines_figures_collapse_too() -> None:
    name = "mdev-38369-second-machine"
    second = post_figures.parse_published(name, *catalogue.published()[name])
    assert [len(table.cells) for table in second.tables] == [16, 16]
    cells = {(c.workload, c.threads, c.column): c.value for t in second.tables for c in t.cells}
    assert cells["oltp_read_only", 128, "nt-heap"] == 1010.46
    assert cells["oltp_read_write", 128, "segment-heap"] == 2257.6


@pytest.mark.parametrize(
    ("baseline", "other", "outcome"),
    [
        (0.11, 0.82, CollapseOutcome.SEEN),
        (0.50, 0.80, CollapseOutcome.SEEN),
        (0.55, 0.70, CollapseOutcome.SHARED),  # hardly further than the other one
        (0.30, 0.55, CollapseOutcome.SHARED),  # the other one collapses
        (0.70, 0.90, CollapseOutcome.ABSENT),
    ],
)
def test_a_collapse_is_the_posts_if_the_baseline_falls_much_further(
    baseline: float, other: float, outcome: CollapseOutcome
) -> None:
    def shares(variant: str, share: float, published: float) -> VariantShares:
        return VariantShares(
            variant=variant,
            published=LevelShare(threads=1024, share=published),
            measured=LevelShare(threads=576, share=share),
            collapses=share < 0.6,
        )

    collapse = CollapseHere(
        workload="w",
        needed=512,
        baseline=shares("nt-heap", baseline, 0.11),
        others=(shares("segment-heap", other, 0.82),),
        blocks=3,
    )
    assert collapse.outcome is outcome
