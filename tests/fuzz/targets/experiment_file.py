"""An experiment file: TOML, its sweeps, the model, and its text again."""

from dballoc import catalogue
from dballoc.errors import UsageError
from dballoc.experiment import experiment_file

OF = (
    "dballoc.experiment.experiment_file",
    "dballoc.experiment.model",
    "dballoc.experiment.sweep",
    "dballoc.experiment.durations_and_sizes",
    "dballoc.readers",
)
PRIVILEGED = False


def seeds() -> list[bytes]:
    return [text.encode() for text in catalogue.experiments().values()]


def fuzz(data: bytes) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    try:
        experiment = experiment_file.build_experiment(
            experiment_file.parse_table(text, "x.toml"), "x.toml", 4
        )
    except UsageError as error:
        assert "\n" not in str(error), error
        return
    again = experiment_file.format_experiment(experiment)
    again.encode()
    assert experiment_file.compute_identity(
        experiment_file.build_experiment(experiment_file.parse_table(again, "y"), "y")
    ) == experiment_file.compute_identity(experiment)
