"""Flame graphs as HTML that needs nothing from outside: a page of its own, or parts of another one."""

from collections.abc import Sequence

from dballoc.profile.model import Profile


def page(profiles: Sequence[tuple[str, Profile]], value: str, title: str) -> str:
    """A whole HTML page: the flame graph of a value, with a switch between the named profiles. KeyError if one of them does
    not have the value.
    """
    raise NotImplementedError


def difference(before: Profile, after: Profile, value: str, title: str) -> str:
    """A whole HTML page: what grew and what shrank between two profiles. KeyError as :func:`page`."""
    raise NotImplementedError


def library() -> str:
    """What a page that embeds fragments holds once, before the first of them: the style and script elements."""
    raise NotImplementedError


def fragment(profiles: Sequence[tuple[str, Profile]], value: str, title: str) -> str:
    """The flame graph of :func:`page` as an element of another page, which may have several; see :func:`library`."""
    raise NotImplementedError
