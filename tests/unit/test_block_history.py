"""Which blocks are finished, and which of them are repeated."""

from dballoc.campaign.block_history import BlockHistory


def row(block: int, attempt: int, disturbed: str | None = None) -> dict[str, object]:
    return {"design": "solo", "block": block, "attempt": attempt, "disturbed": disturbed}


def history(*rows: dict[str, object], most_repeats: int = 1) -> BlockHistory:
    return BlockHistory({"solo": rows}, most_repeats)


def test_a_quiet_block_is_not_repeated() -> None:
    quiet = history(row(1, 0))
    assert not quiet.needs_repeat("solo", 1, 0)
    assert quiet.list_complete_blocks("solo") == {1}


def test_a_disturbed_block_is_repeated() -> None:
    disturbed = history(row(1, 0, "steal"))
    assert disturbed.needs_repeat("solo", 1, 0)
    assert disturbed.list_complete_blocks("solo") == set()
    assert disturbed.list_attempted_blocks("solo") == {1}


def test_an_attempt_that_was_repeated_needs_no_other() -> None:
    repeated = history(row(1, 0, "steal"), row(1, 1, "steal"), most_repeats=9)
    assert not repeated.needs_repeat("solo", 1, 0)
    assert repeated.needs_repeat("solo", 1, 1)


def test_repeats_are_limited_over_all_blocks() -> None:
    used_up = history(row(1, 0, "steal"), row(1, 1), row(2, 0, "steal"), most_repeats=1)
    assert not used_up.needs_repeat("solo", 2, 0)


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
    assert not judged.needs_repeat("solo", 1, 0)
    assert judged.needs_repeat("solo", 2, 0)


def test_a_block_that_was_cut_is_repeated_whole() -> None:
    cut = history(row(1, 0), most_repeats=1)
    assert cut.choose_attempt("solo", 1, begun=[]) is None
    assert cut.choose_attempt("solo", 2, begun=[]) == 0
    assert cut.choose_attempt("solo", 2, begun=[0]) == 1
    assert cut.choose_attempt("solo", 2, begun=[0, 1]) == 2


def test_the_attempt_after_a_cut_one_is_no_repeat_of_a_disturbed_block() -> None:
    resumed = history(row(1, 1), row(2, 0, "steal"), most_repeats=1)
    assert resumed.needs_repeat("solo", 2, 0)
