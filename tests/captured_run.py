"""A program that is run for what it prints."""

import subprocess
from collections.abc import Sequence
from os import PathLike
from typing import Any


def run_captured(
    words: Sequence[str | PathLike[str]], timeout: float = 600, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, for ``timeout`` seconds at most, whatever its exit status is; its
    outputs are text. ``options``: those of ``subprocess.run``.
    """
    return subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=timeout, **options
    )
