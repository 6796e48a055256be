"""A case of a public report, and how what dballoc said of it is judged."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dballoc.ground.numbers import with_unit
from report_cases.private_server import Workshop


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """One thing that dballoc said: ``subject``: of what; ``printed``: what it said; ``right``: what
    is right; ``passed``: whether they agree.
    """

    subject: str
    printed: str
    right: str
    passed: bool


@dataclass(frozen=True, kw_only=True)
class Case:
    """``name``: as in the public reports' list, like ``03b``; ``report``: where it was told;
    ``run``: make the condition on a server of its own, and judge what dballoc says.
    """

    name: str
    report: str
    run: Callable[[Workshop], Iterator[Judgement]]


def judge_bytes(subject: str, size: int | None, right: int, tolerance: float) -> Judgement:
    """Judge a figure against the right one; ``tolerance``: a share of the right one."""
    return Judgement(
        subject=subject,
        printed="nothing" if size is None else with_unit(size),
        right=f"{with_unit(right)} ± {tolerance:.0%}",
        passed=size is not None and abs(size - right) <= tolerance * right,
    )


def judge_words(subject: str, text: str, pattern: str) -> Judgement:
    """Judge whether a text has a pattern."""
    match = re.search(pattern, text)
    return Judgement(
        subject=subject,
        printed=match[0] if match else shorten(text),
        right=f"/{pattern}/",
        passed=match is not None,
    )


def judge_absence(subject: str, text: str, pattern: str) -> Judgement:
    """Judge whether a text lacks a pattern."""
    match = re.search(pattern, text)
    return Judgement(
        subject=subject,
        printed=match[0] if match else "nothing of it",
        right=f"no /{pattern}/",
        passed=match is None,
    )


def shorten(text: str, most: int = 120) -> str:
    """Return a text on one line, cut to ``most`` characters."""
    line = " ".join(text.split()) or "nothing"
    return line if len(line) <= most else f"{line[:most]}…"
