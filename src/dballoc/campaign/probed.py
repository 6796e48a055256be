"""A variant under the heap probe."""

from dataclasses import replace
from pathlib import Path

from dballoc.campaign.prepare import Prepared
from dballoc.profile import launch, probe

# Bytes for each sample: the probe's own default.
INTERVAL = 512 << 10


def under_probe(prepared: Prepared, directory: Path) -> Prepared:
    """The same with the probe before its malloc, sampling from the start; its socket will be in ``directory``. UsageError if
    the probe is not built.
    """
    library = launch.library()
    preload = ":".join(filter(None, [str(library), prepared.env.get("LD_PRELOAD", "")]))
    env = prepared.env | {"LD_PRELOAD": preload, probe.VARIABLE: f"{INTERVAL}:{directory}"}
    return replace(prepared, env=env, wrappers=(*prepared.wrappers, str(library.resolve())))
