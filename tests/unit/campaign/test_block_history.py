"""Which blocks are finished, and which of them are repeated."""

from dataclasses import replace

from example_results import block_row

from dballoc.campaign.block_history import BlockHistory
from dballoc.store.rows import BlockRow


def row(block: int, attempt: int, disturbed: str | None = None) -> BlockRow:
    return replace(block_row("solo", block, disturbed), attempt=attempt)


def history(*rows: BlockRow, most_repeats: int = 1) -> BlockHistory:
    return BlockHistory({"solo": rows}, most_repeats)


def test_a_quiet_block_is_not_repeated() -> None:
    quiet = history(row(1, 0))
    assert quiet.list_complete_blocks("solo") == {1}


def test_a_disturbed_block_is_repeated() -> None:
    disturbed = history(row(1, 0, "steal"))
    assert disturbed.list_complete_blocks("solo") == set()
    assert disturbed.list_attempted_blocks("solo") == {1}


def test_a_repeat_that_was_disturbed_is_repeated() -> None:
    repeated = history(row(1, 0, "steal"), row(1, 1, "steal"), most_repeats=9)
    assert repeated.choose_attempt("solo", 1, begun=[]) == 2
    repeated.add(row(1, 2))
    assert repeated.is_complete("solo", 1)


def test_repeats_are_limited_over_all_blocks() -> None:
    used_up = history(row(1, 0, "steal"), row(1, 1), row(2, 0, "steal"), most_repeats=1)
    assert used_up.list_complete_blocks("solo") == {1, 2}


def test_a_repeat_that_is_not_finished_is_nobody_elses() -> None:
    """Whether it waits, runs, or was lost: block 1 has the only one."""
    waiting = history(row(1, 0, "steal"), most_repeats=1)
    waiting.add(row(2, 0, "steal"))
    assert waiting.list_complete_blocks("solo") == {2}
    # The attempt 1 was lost.
    waiting.add(row(1, 2, "steal"))
    waiting.add(row(3, 0, "steal"))
    assert waiting.list_complete_blocks("solo") == {1, 2, 3}


def test_a_disturbed_block_is_kept_where_the_budget_has_no_room() -> None:
    kept = history(row(1, 0, "steal"), most_repeats=1)
    kept.keep("solo", 1)
    assert kept.is_complete("solo", 1)
    kept.add(row(2, 0, "steal"))
    assert not kept.is_complete("solo", 2)


def test_the_last_attempt() -> None:
    growing = history(row(1, 0, "steal"))
    assert growing.find_last_attempt("solo", 2) is None
    growing.add(row(1, 1))
    assert growing.find_last_attempt("solo", 1) == 1
    assert growing.has_attempt("solo", 1, 1)
    assert not growing.has_attempt("solo", 1, 2)


def test_a_block_that_a_look_has_judged_is_not_repeated() -> None:
    rows = [row(1, 0, "steal"), row(2, 0, "steal")]
    judged = BlockHistory({"solo": rows}, 9, {"solo": 1})
    assert judged.list_complete_blocks("solo") == {1}


def test_a_block_that_was_cut_is_repeated_whole() -> None:
    cut = history(row(1, 0), most_repeats=1)
    assert cut.choose_attempt("solo", 1, begun=[]) is None
    assert cut.choose_attempt("solo", 2, begun=[]) == 0
    assert cut.choose_attempt("solo", 2, begun=[0]) == 1
    assert cut.choose_attempt("solo", 2, begun=[0, 1]) == 2


def test_the_attempt_after_a_cut_one_is_no_repeat_of_a_disturbed_block() -> None:
    resumed = history(row(1, 1), row(2, 0, "steal"), most_repeats=1)
    assert resumed.list_complete_blocks("solo") == {1}
