"""A variant under the heap probe."""

import os
from dataclasses import replace
from pathlib import Path

from dballoc.campaign.preparation.prepare_variant import PreparedVariant
from dballoc.profile.heap import probe_launch


def add_heap_probe(prepared: PreparedVariant, directory: Path) -> PreparedVariant:
    """Return the variant with the heap probe preloaded ahead of its malloc, sampling from the
    server's start; the probe's socket will be in ``directory``.
    """
    env = probe_launch.add_probe_to_environment(
        prepared.env, os.fspath(directory), probe_launch.DEFAULT_INTERVAL
    )
    return replace(
        prepared,
        env=env,
        wrappers=(*prepared.wrappers, os.fspath(probe_launch.find_probe_library().resolve())),
    )
