"""A document's parts: declared tables in every form, and charts as layers."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from dballoc.document.charts import Variants, draw, is_valid, make_axis, make_chart, span
from dballoc.document.csv import make_frame
from dballoc.document.json import dump_json
from dballoc.document.model import Column, tabulate
from dballoc.document.terminal import print_table
from dballoc.ground.numbers import percent

COLUMNS = (
    Column("variant"),
    Column("share", form=percent),
    Column("why", lambda row: getattr(row, "why", None) or "", words=True),
)


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        (SimpleNamespace(variant="glibc", share=0.25, why="[bold]"), ["glibc", "25.0 %", "[bold]"]),
        (SimpleNamespace(variant="glibc", share=None, why=""), ["glibc", "–", "–"]),
        ({"variant": "glibc"}, ["glibc", "–", "–"]),
    ],
)
def test_a_declared_table_is_the_same_cells_in_every_form(row: object, cells: list[str]) -> None:
    table = tabulate("Shares", COLUMNS, [row])
    assert table.rows == [cells]
    assert table.numeric == [False, True, False]
    screen = io.StringIO()
    print_table(Console(file=screen, width=60), table)
    assert all(cell in screen.getvalue() for cell in cells)


def test_a_narrow_table_keeps_the_cells_of_its_columns() -> None:
    table = tabulate("Shares", COLUMNS, [{"variant": "a", "share": 0.5}]).drop_columns("share")
    assert (table.columns, table.rows) == (["variant", "why"], [["a", "–"]])


def test_properties_of_a_layer_are_its_marks_or_its_channels() -> None:
    rows = [{"variant": "a", "mib": 1 / 3, "low": None}]
    x = make_axis("mib", "RSS, MiB", {"zero": True}, tickCount=6)
    layers = [
        draw(rows, "bar", height={"band": 0.7}, opacity=0.5, x=x),
        draw(rows, "rule", is_valid("low"), opacity={"field": "shade"}, **span("x", x)),
        draw([{}], "text", text="note", x={"value": 6}),
    ]
    chart = make_chart(100, layers)
    bar, rule, note = chart["layer"]
    assert bar["mark"] == {"type": "bar", "height": {"band": 0.7}, "opacity": 0.5}
    assert bar["encoding"] == {"x": x}
    assert rule["transform"] == [{"filter": "isValid(datum.low)"}]
    assert rule["encoding"] == {
        "opacity": {"field": "shade"},
        "x": x | {"field": "low"},
        "x2": {"field": "high"},
    }
    assert note["mark"]["text"] == "note"
    # Both layers of the same rows share one copy, rounded.
    assert bar["data"] == rule["data"] != note["data"]
    assert chart["datasets"][bar["data"]["name"]] == [
        {"variant": "a", "mib": 0.333333, "low": None}
    ]


def test_variants_are_told_apart_by_shape_and_dash_however_many_they_are() -> None:
    variants = Variants([str(i) for i in range(10)])
    shape = variants.encode_points(None)["shape"]["scale"]["range"]
    dash = variants.encode_lines(None)["strokeDash"]["scale"]["range"]
    assert len(set(shape)) == len({tuple(d) for d in dash}) == 8
    assert (shape[8], dash[9]) == (shape[0], dash[1])


def test_a_frame_without_rows_has_its_headings() -> None:
    assert make_frame(("a", "b"), []).write_csv() == "a,b\n"
    assert make_frame(("a", "b"), [(None, 1), ("x", 2.5)]).write_csv() == "a,b\n,1.0\nx,2.5\n"


def test_json_has_no_number_that_is_none() -> None:
    assert dump_json({"é": None}) == '{\n "é": null\n}\n'
    with pytest.raises(ValueError, match="JSON"):
        dump_json(float("nan"))
