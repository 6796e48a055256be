"""Start a program under the recorder: the library, and the environment that switches it on."""

import os
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from dballoc.errors import UsageError

VARIABLE = "DBALLOC_TRACE"


def find_recorder_library() -> Path:
    """Return the recorder's library. UsageError if the native parts are not built."""
    path = Path(str(files("dballoc") / "_native" / "libdballoc_trace.so"))
    if not path.exists():
        raise UsageError("the recorder is not built; run make setup")
    if re.search(r"[: ]", os.fspath(path)):
        raise UsageError(
            f"{path}: LD_PRELOAD takes no path with a colon or a space; install dballoc elsewhere"
        )
    return path


def add_recorder_to_environment(
    environ: Mapping[str, str], directory: Path, limit: int
) -> dict[str, str]:
    """Return the environment with the recorder before all other preloads, recording from the start
    into a file in ``directory`` of at most ``limit`` bytes. UsageError if it is not built.
    """
    preload = ":".join(
        filter(None, [os.fspath(find_recorder_library()), environ.get("LD_PRELOAD", "")])
    )
    return {**environ, "LD_PRELOAD": preload, VARIABLE: f"start:{limit}:{directory}"}
