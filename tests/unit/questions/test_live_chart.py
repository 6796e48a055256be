"""The chart of what is alive in a trace."""

from dballoc.questions.replay.charts import draw_live_curve

HIGHS = [(1.0, 2**20), (2.0, 2**21)]


def test_what_is_missing_is_said() -> None:
    assert "1,234 events are missing" in draw_live_curve(HIGHS, [], 1234).caption
    assert "missing" not in draw_live_curve(HIGHS, [], 0).caption


def test_the_marks_that_are_left_out_are_counted() -> None:
    marks = [(0.5, "a")] * 41
    assert "the first 40 of 41" in draw_live_curve(HIGHS, marks, 0).caption
