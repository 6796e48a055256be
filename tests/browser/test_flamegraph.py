"""A flame graph as a reader uses it: by mouse, by keyboard, on a phone, in the dark; alone and in
another page.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import opening
import pytest

from dballoc.profile import flamegraph
from dballoc.profile.model import Frame, Profile, Sample, Value

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

MIB = 2.0**20
EVIL = "<img src=x onerror=alert('out')>&<b>"
LIVE = (Value("live", "bytes", "live bytes"), Value("live.variance", "bytes²", "variance"))


def frames(*names: str) -> tuple[Frame, ...]:
    return tuple(
        Frame(name, "libc.so.6" if name == "malloc" else "mariadbd", named="+0x" not in name)
        for name in names
    )


def heap(parse: float, tables: float) -> Profile:
    samples = [
        (
            frames(
                "main", "do_command(THD*)", "parse_sql(THD*, Parser_state*)", "alloc_root", "malloc"
            ),
            parse,
        ),
        (
            frames("main", "do_command(THD*)", "open_tables(THD*)", "mariadbd+0x1a2b", "malloc"),
            tables,
        ),
        (frames("main", "plugin_init(int*)", "malloc"), 20.0),
        (frames("main", EVIL, "malloc"), 10.0),
        (
            frames("main", "plugin_init(int*)", *(f"level_{i}(int)" for i in range(30)), "malloc"),
            2.0,
        ),
    ]
    return Profile(
        title="mariadbd 10.11",
        values=LIVE,
        samples=[Sample(stack, (size * MIB, (0.01 * size * MIB) ** 2)) for stack, size in samples],
        taken_at=1.7e9,
        facts={"sampling interval": "512 KiB"},
    )


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("flame")
    before, after = heap(50, 30), heap(110, 20)
    both = flamegraph.render_fragment(
        [("a", before)], "live", "One"
    ) + flamegraph.render_difference_fragment(before, after, "live", "Two")
    texts = {
        "page": flamegraph.render_page(
            [("glibc", before), ("jemalloc", after)], "live", "Live heap"
        ),
        "difference": flamegraph.render_difference_page(before, after, "live", "What grew"),
        "embedded": f"<!DOCTYPE html><html lang=en><link rel=icon href='data:,'><body>{flamegraph.render_library()}{both}</body></html>",
    }
    for name, text in texts.items():
        (home / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: home / f"{name}.html" for name in texts}


def at_rest(page: "Page") -> None:
    page.locator(".flame:not([data-drawn])").first.wait_for(state="detached")


@contextmanager
def opened(
    browser: "Browser", path: Path, width: int = 1280, scheme: str = "light"
) -> Iterator["Page"]:
    """The page once it is drawn and at rest. Afterwards: nothing was said on the console, and
    nothing asked for.
    """
    with opening.opened(browser, path, width, scheme, at_rest, reduced_motion="reduce") as (
        page,
        wrong,
    ):
        yield page
        assert not wrong


def rows(page: "Page", name: str) -> list[float]:
    """Widths in pixels of the frames with a label, once D3 has drawn them: also without motion, it
    sets them a moment after a click.
    """
    page.wait_for_function(
        "() => ![...document.querySelectorAll('.flame-chart *')].some((node) => node.__transition)"
    )
    return page.evaluate(
        "(name) => [...document.querySelectorAll('g.frame')].filter((g) => g.getAttribute('name') === name)"
        ".map((g) => g.querySelector('rect').getBoundingClientRect().width)",
        name,
    )


def colour(page: "Page", name: str) -> str:
    return page.locator(f"g.frame[name='{name}'] rect").first.get_attribute("fill") or ""


def details(page: "Page") -> str:
    return page.locator(".flame-details").inner_text()


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        ("page", 1280, "light"),
        ("page", 390, "dark"),
        ("difference", 1280, "dark"),
        ("difference", 390, "light"),
    ],
)
def test_it_fits_and_asks_nobody(
    chromium: "Browser",
    pages: dict[str, Path],
    screenshots: Path,
    name: str,
    width: int,
    scheme: str,
) -> None:
    with opened(chromium, pages[name], width, scheme) as page:
        page.screenshot(path=screenshots / f"flame-{name}-{width}-{scheme}.png")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        box = page.locator(".flame-chart svg").bounding_box()
        assert box
        assert width - 70 < box["width"] <= width
        dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (int(re.findall(r"\d+", dark)[0]) < 100) == (scheme == "dark")
        # All of the deepest stack is to be seen.
        assert len(page.query_selector_all("g.frame")) >= 35
        assert not page.query_selector_all("img"), "a function's name became an element"


def test_widths_are_the_shares(chromium: "Browser", pages: dict[str, Path]) -> None:
    with opened(chromium, pages["page"]) as page:
        (whole,) = rows(page, "all")
        (parse,) = rows(page, "parse_sql")
        assert parse / whole == pytest.approx(50 / 112, abs=0.01)


def test_pointing_at_a_frame_tells_its_name_value_and_share(
    chromium: "Browser", pages: dict[str, Path]
) -> None:
    with opened(chromium, pages["page"]) as page:
        page.locator("g.frame[name=parse_sql]").hover()
        assert details(page) == "parse_sql(THD*, Parser_state*)\nmariadbd · 50 MiB · 44.6 % of all"
        page.locator("h1").hover()
        assert details(page).startswith("Point at a frame")


def test_a_click_zooms_and_a_button_shows_the_whole_again(
    chromium: "Browser", pages: dict[str, Path]
) -> None:
    with opened(chromium, pages["page"]) as page:
        (whole,) = rows(page, "all")
        button = page.get_by_role("button", name="Whole graph")
        assert button.is_disabled()
        page.locator("g.frame[name=plugin_init]").click()
        assert rows(page, "plugin_init") == [pytest.approx(whole, abs=2)]
        # Shares stay those of the whole.
        assert "22 MiB · 19.6 % of all" in details(page)
        button.click()
        assert rows(page, "plugin_init")[0] < whole / 4
        assert button.is_disabled()


def test_search_marks_and_adds_up(chromium: "Browser", pages: dict[str, Path]) -> None:
    with opened(chromium, pages["page"]) as page:
        plain = colour(page, "alloc_root")
        page.get_by_role("searchbox").fill("THD*)")
        # do_command holds open_tables, which counts once.
        assert page.locator(".flame-found").inner_text() == "80 MiB, 71.4 %"
        page.get_by_role("searchbox").fill("ALLOC_ROOT")
        assert colour(page, "alloc_root") != plain
        assert page.locator(".flame-found").inner_text() == "50 MiB, 44.6 %"
        page.get_by_role("searchbox").fill("no such function(")
        assert page.locator(".flame-found").inner_text() == "not found"
        page.get_by_role("searchbox").press("Escape")
        assert colour(page, "alloc_root") == plain
        assert page.locator(".flame-found").inner_text() == ""


def test_the_switch_shows_another_profile_and_keeps_the_search(
    chromium: "Browser", pages: dict[str, Path]
) -> None:
    with opened(chromium, pages["page"]) as page:
        page.get_by_role("searchbox").fill("parse_sql")
        page.get_by_role("button", name="jemalloc", exact=True).click()
        assert page.locator(".flame-found").inner_text() == "110 MiB, 67.9 %"
        pressed = page.locator(".flame-switch button[aria-pressed=true]")
        assert pressed.all_inner_texts() == ["jemalloc"]
        assert "162 MiB" in page.locator(".flame-note").inner_text()


def test_upside_down(chromium: "Browser", pages: dict[str, Path]) -> None:
    def top(page: "Page", name: str) -> float:
        box = page.locator(f"g.frame[name='{name}']").first.bounding_box()
        assert box
        return box["y"]

    with opened(chromium, pages["page"]) as page:
        assert top(page, "all") < top(page, "main") < top(page, "do_command")
        page.get_by_role("button", name="Upside down").click()
        assert top(page, "all") > top(page, "main") > top(page, "do_command")


def test_by_keyboard_alone(chromium: "Browser", pages: dict[str, Path]) -> None:
    with opened(chromium, pages["page"]) as page:
        (whole,) = rows(page, "all")
        page.locator(".flame-chart").focus()
        for _ in range(3):
            page.keyboard.press("ArrowDown")
        assert details(page).startswith("parse_sql(THD*")
        assert page.locator("g.frame.at").get_attribute("name") == "parse_sql"
        page.keyboard.press("ArrowRight")
        assert details(page).startswith("open_tables(THD*)")
        page.keyboard.press("Enter")
        assert rows(page, "open_tables") == [pytest.approx(whole, abs=2)]
        page.keyboard.press("ArrowUp")
        assert details(page).startswith("do_command(THD*)")
        page.keyboard.press("Escape")
        assert rows(page, "open_tables")[0] < whole / 2
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.className") == "flame-search"


def test_a_difference_is_told_by_colour_and_words(
    chromium: "Browser", pages: dict[str, Path]
) -> None:
    def red_and_blue(name: str) -> tuple[int, int]:
        red, _, blue = re.findall(r"\d+", colour(page, name))
        return int(red), int(blue)

    with opened(chromium, pages["difference"]) as page:
        red, blue = red_and_blue("parse_sql")
        assert red > blue + 40
        red, blue = red_and_blue("open_tables")
        assert blue > red + 20
        red, blue = red_and_blue("plugin_init")
        assert red == blue
        page.locator("g.frame[name=parse_sql]").hover()
        assert "+60 MiB ± 1.21 MiB · before 50 MiB, after 110 MiB" in details(page)
        page.get_by_role("button", name="what shrank").click()
        assert rows(page, "parse_sql") == []
        assert rows(page, "open_tables") == [pytest.approx(rows(page, "all")[0], abs=2)]


def test_it_follows_the_windows_width(chromium: "Browser", pages: dict[str, Path]) -> None:
    with opened(chromium, pages["page"]) as page:
        page.set_viewport_size({"width": 700, "height": 800})
        page.wait_for_function("() => document.querySelector('.flame-chart svg').clientWidth < 700")
        assert 600 < rows(page, "all")[0] < 700


def test_two_in_another_page_are_independent(chromium: "Browser", pages: dict[str, Path]) -> None:
    with opened(chromium, pages["embedded"]) as page:
        assert len(page.query_selector_all(".flame-chart svg")) == 2
        page.get_by_role("searchbox").first.fill("parse_sql")
        assert page.locator(".flame-found").all_inner_texts()[1] == ""
        page.get_by_role("button", name="what grew").click()
        assert [e.get_attribute("data-drawn") for e in page.query_selector_all(".flame")] == [
            "0",
            "2",
        ]
