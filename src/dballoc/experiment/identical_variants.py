"""Make an experiment of two identical variants. Pure."""

from dballoc.experiment import experiment_file
from dballoc.experiment.model import Experiment

AGAIN = "-again"


def build_twins(experiment: Experiment, origin: str) -> Experiment:
    """Return the experiment with its baseline and an identical variant, and no other. UsageError
    that begins with ``origin`` if the second variant's name becomes too long.
    """
    baseline = experiment.find(experiment.baseline).model_dump(mode="json", exclude_none=True)
    table = experiment.model_dump(mode="json", exclude_none=True)
    table["variant"] = [baseline, baseline | {"name": experiment.baseline + AGAIN}]
    return experiment_file.build_experiment(table, origin)
