"""A variant under the heap probe."""

import os
from dataclasses import replace
from pathlib import Path

from dballoc.campaign.prepare import Prepared
from dballoc.profile import launch


def under_probe(prepared: Prepared, directory: Path) -> Prepared:
    """The same with the probe before its malloc, sampling from the start; its socket will be in ``directory``."""
    env = launch.with_probe(prepared.env, os.fspath(directory), launch.USUAL)
    return replace(prepared, env=env, wrappers=(*prepared.wrappers, os.fspath(launch.library().resolve())))
