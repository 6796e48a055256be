"""The report as a reader sees it: on a desk and on a phone, in the light and in the dark."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from opening import opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")

# Of each chart: its key, and how many points, lines and bars of data it holds.
_MARKS = """() => [...document.querySelectorAll(".chart")].map((box) => [
  box.dataset.key,
  box.querySelectorAll(
    "svg .mark-symbol.role-mark path, svg .mark-line.role-mark path, [data-key=memory] svg .mark-rect.role-mark path, [data-key=ledger] svg .mark-rect.role-mark path, [data-key^=pairs] svg .mark-rect.role-mark path"
  ).length,
])"""
_LUMINANCE = """(selector) => {
  const [r, g, b] = getComputedStyle(document.querySelector(selector)).backgroundColor.match(/\\d+/g).map(Number);
  return (r + g + b) / 3;
}"""


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_it_draws_and_asks_nobody(
    chromium: "Browser", page_path: Path, screenshots: Path, width: int, scheme: str
) -> None:
    with opened(chromium, page_path, width, scheme) as (page, wrong):
        page.screenshot(path=screenshots / f"report-{width}-{scheme}.png", full_page=True)
        marks = dict(page.evaluate(_MARKS))
        assert len(marks) > 20
        assert not [key for key, n in marks.items() if n == 0]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # The widest things scroll in boxes of their own, and the charts fill theirs.
        assert page.evaluate(
            "[...document.querySelectorAll('.chart svg')].every((s) => s.clientWidth <= s.parentElement.clientWidth)"
        )
        assert (page.evaluate(_LUMINANCE, "html") < 128) == (scheme == "dark")
        assert wrong == []


def test_the_answer_is_what_one_sees_first(chromium: "Browser", page_path: Path) -> None:
    for width in WIDTHS:
        with opened(chromium, page_path, width, "light") as (page, _):
            box = page.locator("h1").bounding_box()
            assert box
            assert box["y"] + box["height"] < 300
            text = page.locator("#answer").inner_text()
            assert all(name in text for name in ("jemalloc", "tuned", "A/A floor"))
            assert "failed 12 of 12" in text  # six of each design


def test_the_charts_follow_the_reader_into_the_dark(chromium: "Browser", page_path: Path) -> None:
    with opened(chromium, page_path, 1280, "light") as (page, wrong):
        page.emulate_media(color_scheme="dark")
        page.wait_for_function(
            "document.documentElement.dataset.drawn.startsWith('true')", timeout=60_000
        )
        assert page.evaluate("document.documentElement.dataset.charts") == "dark"
        assert all(n for _, n in page.evaluate(_MARKS))
        assert wrong == []


def test_it_prints(chromium: "Browser", page_path: Path, tmp_path: Path) -> None:
    with opened(chromium, page_path, 1280, "dark") as (page, _):
        page.emulate_media(media="print")
        assert page.evaluate(_LUMINANCE, "html") > 250
        assert not page.locator("nav").is_visible()
        assert page.pdf(path=tmp_path / "report.pdf", format="A4").startswith(b"%PDF")


def test_a_log_is_shown_and_not_run(chromium: "Browser", page_path: Path) -> None:
    with opened(chromium, page_path, 1280, "light") as (page, wrong):
        logs = page.locator("#faults pre").all_text_contents()
        assert any("<script>alert(1)</script>" in log for log in logs)
        assert wrong == []


def test_every_entry_of_the_contents_leads_somewhere(chromium: "Browser", page_path: Path) -> None:
    with opened(chromium, page_path, 390, "light") as (page, _):
        targets = page.evaluate(
            "[...document.querySelectorAll('nav a')].map((a) => a.getAttribute('href'))"
        )
        assert len(targets) > 10
        assert all(page.locator(target).count() == 1 for target in targets)
