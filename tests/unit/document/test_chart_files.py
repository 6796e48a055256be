"""Charts as files: whatever the texts in them, the process lives."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from dballoc.document import chart_files
from dballoc.document.charts import Variants
from dballoc.document.model import Figure
from dballoc.ground.files.output_directory import OutputDirectory
from dballoc.questions.compare.ratio_charts import draw_intervals

# \t is XML's.
LETTERS = "\x01\x0b\x1b\ufffe\uffff\té😀"
SHOWN = "\ufffd" * 5 + "\té😀"


def draw(text: str) -> Figure:
    row = {"row": text, "variant": text, "ratio": 0.9, "low": 0.8, "high": 1.0}
    words = {"words": text, "verdict": text}
    return Figure("k", text, text, draw_intervals([row | words], [text], text, Variants([text])))


def test_what_no_xml_may_have_is_not_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real drawing would abort this process, too."""
    specifications: list[Any] = []

    def draw_nothing(specification: Any, **_: Any) -> str:
        specifications.append(specification)
        return "<svg/>"

    monkeypatch.setattr(chart_files.vl_convert, "vegalite_to_svg", draw_nothing)
    monkeypatch.setattr(chart_files.vl_convert, "svg_to_png", lambda *_, **__: b"")
    with OutputDirectory.open(tmp_path) as directory:
        chart_files.write_chart(draw(LETTERS), LETTERS, directory)
    [specification] = specifications
    assert specification["title"]["text"] == specification["title"]["subtitle"] == SHOWN
    texts = repr(specification)
    assert repr(SHOWN)[1:-1] in texts
    assert not any(repr(letter)[1:-1] in texts for letter in LETTERS[:5])


def test_what_is_left_is_xml_and_a_picture(tmp_path: Path) -> None:
    text = chart_files.make_drawable(LETTERS)
    with OutputDirectory.open(tmp_path) as directory:
        chart_files.write_chart(draw(text), text, directory)
    root = ET.parse(tmp_path / "k.svg").getroot()
    assert SHOWN in " ".join(root.itertext())
    assert (tmp_path / "k.png").read_bytes().startswith(b"\x89PNG")
