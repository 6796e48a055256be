"""A page in a browser, and what went wrong on it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def charts_drawn(page: "Page") -> None:
    """Wait for Vega's charts."""
    page.wait_for_function("document.documentElement.dataset.drawn !== undefined", timeout=120_000)


@contextmanager
def opened(
    browser: "Browser",
    path: Path,
    width: int,
    scheme: str,
    drawn: Callable[["Page"], None] = charts_drawn,
    **more: Any,
) -> Iterator[tuple["Page", list[str]]]:
    """The page once it is ``drawn``, and everything that went wrong or left it, filled while it is
    open.
    """
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, **more
    )
    context.set_default_timeout(120_000)
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on(
        "request",
        lambda request: (
            wrong.append(f"request: {request.url[:200]}") if request.url != path.as_uri() else None
        ),
    )
    try:
        page.goto(path.as_uri())
        drawn(page)
        yield page, wrong
    finally:
        context.close()
