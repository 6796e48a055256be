"""The page of ``dballoc explain --html`` as a reader sees it: of this very process, looked at a few
times.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from opening import opened

from dballoc.explain import explanation
from dballoc.explain.checklist.memory_events import EventFilter
from dballoc.explain.ledger.configuration_limits import Bounds
from dballoc.explain.output import page
from dballoc.host.process.handle import Process

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

_MARKS = """() => Object.fromEntries([...document.querySelectorAll(".chart")].map((box) => [
  box.dataset.key, box.querySelectorAll("svg .mark-rect.role-mark path, svg .mark-area.role-mark path, svg .mark-symbol.role-mark path").length,
]))"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = explanation.explain(Process.own(), None, EventFilter())
    assert found.usage
    found = replace(
        found,
        bounds=Bounds(
            once=1 << 30, connection=1 << 20, statement=1 << 22, connections=100, caps=[]
        ),
        verdict="it fits",
    )
    series = [
        replace(
            found,
            timestamp=found.timestamp + 10 * i,
            usage=replace(
                found.usage,
                cpu_seconds=found.usage.cpu_seconds + i * i,
                running_seconds=found.usage.running_seconds + 10 * i,
            ),
        )
        for i in range(8)
    ]
    path = tmp_path_factory.mktemp("explained") / "page.html"
    path.write_text(page.render_explanation(series), encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_it_draws_fits_and_asks_nobody(
    chromium: "Browser", path: Path, screenshots: Path, width: int, scheme: str
) -> None:
    with opened(chromium, path, width, scheme) as (shown, wrong):
        shown.screenshot(path=screenshots / f"explained-{width}-{scheme}.png", full_page=True)
        marks = shown.evaluate(_MARKS)
        assert set(marks) == {"series", "vsz", "cpu", "waterfall", "treemap", "bounds"}
        assert min(marks.values()) >= 3
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        assert "MemTotal" in shown.inner_text("#procedure")
        # The treemap fills its box, and no more.
        assert (
            shown.evaluate("""() => {
          const box = document.querySelector("[data-key=treemap]");
          return Math.abs(box.querySelector("svg").clientWidth - box.clientWidth);
        }""")
            <= 2
        )
        shown.hover("[data-key=treemap] svg .mark-rect.role-mark path >> nth=0")
        shown.wait_for_selector(".vg-tooltip.visible")
        assert "of RSS" in shown.inner_text(".vg-tooltip.visible")
        assert wrong == []


def test_it_prints_on_white(chromium: "Browser", path: Path) -> None:
    with opened(chromium, path, 1280, "dark") as (shown, _):
        shown.emulate_media(media="print", color_scheme="dark")
        assert (
            shown.evaluate("getComputedStyle(document.documentElement).backgroundColor")
            == "rgb(255, 255, 255)"
        )
