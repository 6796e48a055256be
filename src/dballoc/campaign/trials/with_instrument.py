"""A variant under an instrument of ours that is preloaded ahead of its malloc."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Literal

from dballoc.campaign.preparation.prepare_variant import PreparedVariant
from dballoc.experiment.model import Experiment
from dballoc.profile.heap import probe_launch
from dballoc.trace.recorder import recorder_launch

# The heap probe, which samples; the recorder, which writes down every call.
Instrument = Literal["heap probe", "recorder"]


def add_instrument(
    prepared: PreparedVariant, directory: Path, instrument: Instrument, experiment: Experiment
) -> PreparedVariant:
    """Return the variant with the instrument preloaded ahead of its malloc, at work from the
    server's start; its socket, and the recorder's file, will be in ``directory``.
    """
    if instrument == "heap probe":
        library = probe_launch.find_probe_library()
        env = probe_launch.add_probe_to_environment(
            prepared.env, os.fspath(directory), probe_launch.DEFAULT_INTERVAL
        )
    else:
        assert experiment.record
        library = recorder_launch.find_recorder_library()
        env = recorder_launch.add_recorder_to_environment(
            prepared.env, os.fspath(directory), experiment.record.limit, is_idle=False
        )
    return replace(prepared, env=env, wrappers=(*prepared.wrappers, os.fspath(library.resolve())))
