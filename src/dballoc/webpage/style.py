"""The style that all pages share: paper and ink, light and dark, text, tables, charts, print."""

from importlib.resources import files


def read_base_style() -> str:
    """Return the CSS that all pages share; a page's own comes after it."""
    return (files(__package__) / "static" / "base.css").read_text(encoding="utf-8")
