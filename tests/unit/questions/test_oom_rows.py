"""A server that the kernel killed for its memory is a row of the report's tables, as k of n, with
the last RSS seen.
"""

from dballoc.questions.campaign.sections import tables
from dballoc.questions.compare.campaign_tables import load_campaign

KILLED = "UPDATE trial SET fault = 'oom', exit_status = -9, rss_peak = 400 * 1048576 + block * 1048576 WHERE outcome = 'fault'"


def test_a_variant_that_never_survived(make) -> None:
    campaign = load_campaign(make("a", faulty=("tuned",), design="both", sql=(KILLED,)))
    [row] = tables.tabulate_faults(campaign).rows
    assert row == ["tuned", "12 of 12", "oom (12)", "406 MiB"]
    memory = tables.tabulate_memory(campaign)
    # The baseline has two trials in each of the six blocks.
    assert [(r[0], r[-1]) for r in memory.rows] == [
        ("glibc", "12"),
        ("jemalloc", "6"),
        ("tuned", "0 of 6"),
    ]
    assert memory.rows[-1][2] == "killed for memory at 406.0 or more"
    assert {len(r) for r in memory.rows} == {len(memory.columns)}
    listed = tables.tabulate_every_fault(campaign).rows
    assert len(listed) == 12
    assert listed[0][2:4] == ["oom", "SIGKILL"]
    assert listed[0][-1] == "401 MiB"


def test_a_variant_that_survived_now_and_then(make) -> None:
    once = (
        "UPDATE trial SET outcome = 'fault', fault = 'oom', exit_status = -9, rss_peak = 268435456 "
        "WHERE variant = 'tuned' AND block = 2 AND design = 'solo'"
    )
    campaign = load_campaign(make("a", design="solo", sql=(once,)))
    assert tables.tabulate_faults(campaign).rows == [["tuned", "1 of 6", "oom (1)", "256 MiB"]]
    assert tables.tabulate_memory(campaign).rows[-1][-1] == "5 of 6"


def test_fresh_levels(make) -> None:
    campaign = load_campaign(
        make("a", faulty=("tuned",), design="solo", levels="fresh", sql=(KILLED,))
    )
    memory = tables.tabulate_memory(campaign)
    assert {len(r) for r in memory.rows} == {len(memory.columns)}
    assert [r[:2] for r in memory.rows if r[-1].startswith("0 of")] == [
        ["1", "tuned"],
        ["4", "tuned"],
    ]
